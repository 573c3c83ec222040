//! The points that the I-quants choose from, and the signs of their values. Never a scale.
//!
//! A point is 8 or 4 steps out of a few; the files of `grids/` hold them as indices of steps, packed into a word, and
//! they are unpacked at compile time, so that decoding is a lookup.

mod iq1;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;

/// IQ1_S and IQ1_M.
pub(super) static IQ1: [[i8; 8]; 2048] = unpack(&iq1::WORDS, &[-1, 0, 1]);
/// IQ2_XXS.
pub(super) static IQ2_XXS: [[i8; 8]; 256] = unpack(&iq2_xxs::WORDS, &IQ2_STEPS);
/// IQ2_XS.
pub(super) static IQ2_XS: [[i8; 8]; 512] = unpack(&iq2_xs::WORDS, &IQ2_STEPS);
/// IQ2_S.
pub(super) static IQ2_S: [[i8; 8]; 1024] = unpack(&iq2_s::WORDS, &IQ2_STEPS);
/// IQ3_XXS.
pub(super) static IQ3_XXS: [[i8; 4]; 256] =
    unpack(&iq3_xxs::WORDS, &[4, 12, 20, 28, 36, 44, 52, 62]);
/// IQ3_S.
pub(super) static IQ3_S: [[i8; 4]; 512] = unpack(&iq3_s::WORDS, &[1, 3, 5, 7, 9, 11, 13, 15]);

const IQ2_STEPS: [i8; 3] = [8, 25, 43];

const fn unpack<const STEPS: usize, const POINTS: usize>(
    words: &[u16; POINTS],
    steps: &[i8],
) -> [[i8; STEPS]; POINTS] {
    let bits = 16 / STEPS;
    let mut points = [[0; STEPS]; POINTS];
    let mut point = 0;
    while point < POINTS {
        let mut step = 0;
        while step < STEPS {
            points[point][step] = steps[(words[point] as usize >> (bits * step)) % (1 << bits)];
            step += 1;
        }
        point += 1;
    }
    points
}

/// Writes `scale * step` for each step of a point, negated where its bit in `signs` is set.
pub(super) fn write_signed<const STEPS: usize>(
    values: &mut [f32; STEPS],
    scale: f32,
    point: &[i8; STEPS],
    signs: u8,
) {
    for (place, (value, step)) in values.iter_mut().zip(point).enumerate() {
        let turned = u32::from(signs >> place & 1) << 31;
        *value = f32::from_bits((scale * f32::from(*step)).to_bits() ^ turned);
    }
}

/// The signs of 8 values from 7 bits: the number of negative ones is even.
///
/// Source: ggml `ksigns_iq2xs`, which is a table of the same.
pub(super) fn even_signs(bits: u32) -> u8 {
    let signs = bits as u8 & 0x7f;
    signs | (signs.count_ones() as u8 & 1) << 7
}

#[cfg(test)]
mod tests {
    use super::{IQ3_S, even_signs, unpack, write_signed};

    #[test]
    fn the_first_step_of_a_point_is_in_the_lowest_bits() {
        assert_eq!(
            unpack(&[0x0001, 0x8000], &[-1, 0, 1]),
            [[0, -1, -1, -1, -1, -1, -1, -1], [-1, -1, -1, -1, -1, -1, -1, 1]]
        );
        assert_eq!(IQ3_S[1], [3, 1, 1, 1]);
    }

    #[test]
    fn the_eighth_sign_makes_the_number_of_negative_values_even() {
        assert_eq!([0, 1, 3, 0x7f, 0x80].map(even_signs), [0, 0x81, 3, 0xff, 0]);
    }

    #[test]
    fn signs_turn_the_values_whose_bit_is_set() {
        let mut values = [0.0; 4];
        write_signed(&mut values, -0.5, &[4, 12, 20, 62], 0b0101);
        assert_eq!(values, [2.0, -6.0, 10.0, -31.0]);
    }
}
