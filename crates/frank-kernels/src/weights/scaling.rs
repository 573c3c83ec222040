//! What the dots of a part, 32 values of a block, add to an output: the float side of interleaved types, in the order
//! of operations that each type documents.

use crate::activations::QuantBlock;
use crate::lanes::Lanes;

/// A form that the scales of a type have.
pub(crate) trait Scaling {
    /// Whether each half of a part has a dot of its own.
    const HALVES: bool;
    /// Registers of scales.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    const N: usize;
    /// The scales of a part of `N` weight rows.
    type Of<L: Lanes>: Copy + AsRef<[L::Floats]> + AsMut<[L::Floats]>;

    /// Scales of nothing.
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    fn zeros<L: Lanes>(lanes: L) -> Self::Of<L>;

    /// `acc` and what a part adds. `dots` are those of both halves; a type without halves reads the first, which is of
    /// all 32 values. `#[inline(always)]`, as all of these.
    fn add<L: Lanes>(
        lanes: L,
        scales: &Self::Of<L>,
        dots: [L::Words; 2],
        a: &QuantBlock,
        acc: L::Floats,
    ) -> L::Floats;
}

/// `[d]`: `acc = fma(d * s, dot, acc)`.
pub(crate) struct Scaled;

/// `[d, m]`: `acc = fma(d * s, dot, acc)`, then `acc = fma(m, s * Σ a, acc)`.
pub(crate) struct Shifted;

/// `[d, sc0, sc1]`: `acc = fma(d * s, t, acc)` with `t = fma(sc1, dot1, sc0 * dot0)`.
pub(crate) struct Halves;

/// `[d, m, sc0, sc1, m0, m1]`: `acc = fma(d * s, t, acc)` with `t` as for [`Halves`], then `acc = fma(m * s, u, acc)` with
/// `u = fma(m1, Σ a1, m0 * Σ a0)`.
pub(crate) struct ShiftedHalves;

impl Scaling for Scaled {
    const HALVES: bool = false;
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    const N: usize = 1;
    type Of<L: Lanes> = [L::Floats; 1];

    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    fn zeros<L: Lanes>(lanes: L) -> [L::Floats; 1] {
        [lanes.splat(0.0)]
    }

    #[inline(always)]
    fn add<L: Lanes>(
        lanes: L,
        [d]: &[L::Floats; 1],
        [dot, _]: [L::Words; 2],
        a: &QuantBlock,
        acc: L::Floats,
    ) -> L::Floats {
        lanes.fma(lanes.mul(*d, lanes.splat(a.scale)), lanes.to_floats(dot), acc)
    }
}

impl Scaling for Shifted {
    const HALVES: bool = false;
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    const N: usize = 2;
    type Of<L: Lanes> = [L::Floats; 2];

    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    fn zeros<L: Lanes>(lanes: L) -> [L::Floats; 2] {
        [lanes.splat(0.0); 2]
    }

    #[inline(always)]
    fn add<L: Lanes>(
        lanes: L,
        [d, m]: &[L::Floats; 2],
        dots: [L::Words; 2],
        a: &QuantBlock,
        acc: L::Floats,
    ) -> L::Floats {
        let acc = Scaled::add(lanes, &[*d], dots, a, acc);
        lanes.fma(*m, lanes.splat(a.offset), acc)
    }
}

impl Scaling for Halves {
    const HALVES: bool = true;
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    const N: usize = 3;
    type Of<L: Lanes> = [L::Floats; 3];

    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    fn zeros<L: Lanes>(lanes: L) -> [L::Floats; 3] {
        [lanes.splat(0.0); 3]
    }

    #[inline(always)]
    fn add<L: Lanes>(
        lanes: L,
        [d, sc0, sc1]: &[L::Floats; 3],
        [dot0, dot1]: [L::Words; 2],
        a: &QuantBlock,
        acc: L::Floats,
    ) -> L::Floats {
        let t = lanes.mul(*sc0, lanes.to_floats(dot0));
        let t = lanes.fma(*sc1, lanes.to_floats(dot1), t);
        lanes.fma(lanes.mul(*d, lanes.splat(a.scale)), t, acc)
    }
}

impl Scaling for ShiftedHalves {
    const HALVES: bool = true;
    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    const N: usize = 6;
    type Of<L: Lanes> = [L::Floats; 6];

    #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
    #[inline(always)]
    fn zeros<L: Lanes>(lanes: L) -> [L::Floats; 6] {
        [lanes.splat(0.0); 6]
    }

    #[inline(always)]
    fn add<L: Lanes>(
        lanes: L,
        [d, m, sc0, sc1, m0, m1]: &[L::Floats; 6],
        dots: [L::Words; 2],
        a: &QuantBlock,
        acc: L::Floats,
    ) -> L::Floats {
        let acc = Halves::add(lanes, &[*d, *sc0, *sc1], dots, a, acc);
        let [sum0, sum1] = a.half_sums.map(|sum| integer(lanes, sum.into()));
        let u = lanes.fma(*m1, sum1, lanes.mul(*m0, sum0));
        lanes.fma(lanes.mul(*m, lanes.splat(a.scale)), u, acc)
    }
}

/// One integer below 2^24 in size in every lane.
#[inline(always)]
fn integer<L: Lanes>(lanes: L, n: i32) -> L::Floats {
    lanes.to_floats(lanes.splat_word(n.cast_unsigned()))
}
