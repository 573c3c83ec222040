//! Whether this process may use the tile registers (AMX) of x86-64 CPUs. Never what is computed with them.

use std::sync::OnceLock;

/// Whether the CPU multiplies tiles of 8-bit integers and the kernel lets this process use them.
///
/// The first call asks for permission, once for all threads of the process, those that run already included. The
/// kernel refuses where a signal stack is too small for the larger registers.
pub fn amx_int8_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(ask)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask() -> bool {
    /// From the kernel's `asm/prctl.h`.
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    /// The number of the tiles' data among the parts of a CPU's state.
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    if !has_int8_tiles() {
        return false;
    }
    // SAFETY: this operation takes the number of a part of the state and neither reads nor writes memory of ours.
    let status =
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
    status == 0
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask() -> bool {
    false
}

/// `amx-tile` and `amx-int8`, from the second page of extended features.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_int8_tiles() -> bool {
    const EXTENDED_FEATURES: u32 = 7;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    let highest = std::arch::x86_64::__cpuid(0).eax;
    if highest < EXTENDED_FEATURES {
        return false;
    }
    let features = std::arch::x86_64::__cpuid_count(EXTENDED_FEATURES, 0).edx;
    features & (TILE | INT8) == (TILE | INT8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_does_not_change_between_threads() {
        let here = amx_int8_allowed();
        let there = std::thread::spawn(amx_int8_allowed).join().expect("the thread answers");
        assert_eq!(here, there);
    }

    #[test]
    fn a_machine_whose_cpu_lists_int8_tiles_is_asked_and_says_yes_where_the_kernel_knows_them() {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // The kernel lists a feature only where it can save the registers that belong to it.
        let listed = cpu.split_whitespace().any(|flag| flag == "amx_int8");
        assert_eq!(amx_int8_allowed(), listed);
    }
}
