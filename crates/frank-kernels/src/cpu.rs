//! Which instruction set this process uses, found once at run time.

use std::sync::OnceLock;

/// Instruction sets that kernels are compiled for, weakest first. All give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The baseline of the target; the reference for the others.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512Vnni,
    /// As before, and tiles of 8-bit integers (AMX) for products with many rows.
    Amx,
}

impl Isa {
    /// Short name for logs and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512Vnni => "avx512-vnni",
            Self::Amx => "amx-int8",
        }
    }
}

/// The strongest instruction set that this CPU has and this build holds.
pub(crate) fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(detect)
}

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    match (avx2, avx512) {
        (true, true) if frank_os::amx_int8_allowed() => Isa::Amx,
        (true, true) => Isa::Avx512Vnni,
        (true, false) => Isa::Avx2,
        (false, _) => Isa::Scalar,
    }
}

#[cfg(not(all(target_arch = "x86_64", not(frank_scalar))))]
fn detect() -> Isa {
    Isa::Scalar
}

/// Defines `fn name(isa: Isa, args…)` that runs one `#[inline(always)]` body compiled for each instruction set.
///
/// Rust floats are strict, so the compiler may vectorize the body but never reorder its sums: the results are
/// the same bits for every set. An `isa` above what the CPU has is lowered to that.
macro_rules! for_each_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:path) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::cpu::Isa, $($arg: $ty),*) {
            #[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $ty),*) {
                    $body($($arg),*);
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
                fn avx512($($arg: $ty),*) {
                    $body($($arg),*);
                }
                match isa.min($crate::cpu::isa()) {
                    // SAFETY: `isa()` found these features on this CPU.
                    $crate::cpu::Isa::Avx512Vnni | $crate::cpu::Isa::Amx => return unsafe { avx512($($arg),*) },
                    // SAFETY: `isa()` found these features on this CPU.
                    $crate::cpu::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::cpu::Isa::Scalar => {}
                }
            }
            let _ = isa;
            $body($($arg),*);
        }
    };
}
pub(crate) use for_each_isa;
