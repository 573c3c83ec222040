//! Every entry of the quant table.

use frank_gguf::quant::{QUANTS, QuantType, quant_type};
use frank_gguf::type_layout;
use proptest::prelude::{Strategy, prop, proptest};

#[test]
fn every_quant_type_has_the_layout_of_its_id() {
    for quant in QUANTS {
        assert_eq!(type_layout(quant.id), Some(quant.layout));
        assert!(
            std::ptr::eq(quant_type(quant.id).unwrap(), quant),
            "id {} is in the table twice",
            quant.id
        );
    }
    assert!(quant_type(250).is_none());
}

/// The values of a tensor after writing and reading it in a type.
fn round_trip(quant: &QuantType, values: &[f32]) -> Vec<f32> {
    let mut bytes = Vec::new();
    quant.quantize.expect("a type that can be made")(values, &mut bytes);
    let layout = quant.layout;
    assert_eq!(
        bytes.len() as u64,
        values.len() as u64 / layout.values_per_block * layout.bytes_per_block
    );
    let mut back = vec![f32::NAN; values.len()];
    (quant.dequantize)(&bytes, &mut back);
    back
}

/// The largest error that a type may make in a block of values within `-1.0..=1.0`.
fn tolerance(quant: &QuantType, block: &[f32]) -> f32 {
    let largest = block.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let low = block.iter().copied().fold(f32::INFINITY, f32::min);
    let high = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // Half a step, plus the rounding of scale (and minimum) to f16 at the far end of the range.
    let f16_error = (largest + (high - low)) / 1024.0 + 1e-7;
    match quant.layout.name {
        "F32" => 0.0,
        "F16" => f16_error,
        "BF16" => largest / 256.0,
        // The end of the range opposite to the largest value is clipped by up to a whole step.
        "Q4_0" => largest / 8.0 + f16_error,
        "Q5_0" => largest / 16.0 + f16_error,
        "Q4_1" => (high - low) / 15.0 / 2.0 + f16_error,
        "Q5_1" => (high - low) / 31.0 / 2.0 + f16_error,
        "Q8_0" => largest / 127.0 / 2.0 + f16_error,
        "TQ1_0" | "TQ2_0" => largest / 2.0 + f16_error,
        // Up to 8 times the scale is clipped to 6 times, and the steps below are of 2.
        "MXFP4" => largest / 4.0,
        other => panic!("{other} needs a tolerance here"),
    }
}

fn three_rows() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-1.0f32..=1.0, 3 * 256)
}

proptest! {
    #[test]
    fn a_round_trip_stays_within_the_error_of_the_type(values in three_rows()) {
        for quant in QUANTS.iter().filter(|quant| quant.quantize.is_some()) {
            let back = round_trip(quant, &values);
            let block = (quant.layout.values_per_block as usize).max(32);
            for (values, back) in values.chunks(block).zip(back.chunks(block)) {
                let tolerance = tolerance(quant, values);
                for (value, back) in values.iter().zip(back) {
                    assert!((value - back).abs() <= tolerance, "{}: {value} became {back}", quant.layout.name);
                }
            }
        }
    }
}

#[test]
fn zeros_stay_zero_and_no_values_make_no_bytes() {
    for quant in QUANTS.iter().filter(|quant| quant.quantize.is_some()) {
        assert_eq!(round_trip(quant, &[0.0; 512]), [0.0; 512], "{}", quant.layout.name);
        assert_eq!(round_trip(quant, &[]), [0.0f32; 0]);
    }
}

/// A few blocks of every type with the hash of the values that the python package `gguf` reads from them, made by
/// `tests/oracle/quants.py`.
const GOLDEN: &str = include_str!("quants_golden.txt");

#[test]
fn every_type_reads_its_golden_blocks() {
    for quant in QUANTS {
        let (name, layout) = (quant.layout.name, quant.layout);
        let mut n_lines = 0;
        for line in GOLDEN.lines().filter(|line| line.split(' ').next() == Some(name)) {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes = unhex(words[3]);
            let n_blocks = bytes.len() / layout.bytes_per_block as usize;
            let mut values = vec![f32::NAN; n_blocks * layout.values_per_block as usize];
            (quant.dequantize)(&bytes, &mut values);
            let hash = fnv1a(values.iter().flat_map(|value| value.to_le_bytes()));
            assert_eq!(format!("{hash:016x}"), words[2], "{line}");
            n_lines += 1;
        }
        assert_eq!(n_lines, 6, "golden blocks of {name}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().as_chunks().0.iter().map(|&[high, low]| digit(high) << 4 | digit(low)).collect()
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The same 256 values in every type that can be made, against the bytes of the python package `gguf`.
#[test]
fn blocks_equal_those_of_other_tools() {
    let values: Vec<f32> =
        (0..256).map(|index| ((index * 37 % 64) as f32 - 31.5) * 0.031).collect();
    for quant in QUANTS {
        let Some(quantize) = quant.quantize else { continue };
        let name = quant.layout.name;
        let made = MADE.iter().find(|made| made.0 == name);
        let (_, hash) = made.unwrap_or_else(|| panic!("{name} needs the hash of its blocks here"));
        let mut bytes = Vec::new();
        quantize(&values, &mut bytes);
        assert_eq!(fnv1a(bytes.iter().copied()), *hash, "{name}: {bytes:02x?}");
    }
}

/// FNV-1a of the bytes that `gguf` makes.
const MADE: &[(&str, u64)] = &[
    ("F32", 0x3bfa_0d7b_2582_1a55),
    ("F16", 0x3ccb_773e_37c5_f4e5),
    ("BF16", 0xf2b0_15c8_62b2_dae5),
    ("Q4_0", 0x5218_a1c6_4f4c_ac2d),
    ("Q4_1", 0x4f3c_8b3a_99d2_fc65),
    ("Q5_0", 0xac14_65fd_4063_4bcd),
    ("Q5_1", 0xda9a_d40c_173a_74dd),
    ("Q8_0", 0x0512_c92c_3731_47c5),
    ("TQ1_0", 0x822f_fdd0_4ccd_fe93),
    ("TQ2_0", 0x7f65_9250_817a_8eac),
    ("MXFP4", 0x084a_567d_102c_e9a5),
];
