//! How many CPUs this process may use. Never which ones, and never pins a thread.

use std::path::Path;

use crate::cgroup::cpu_quota_under;

/// Words of the affinity mask: room for 8192 CPUs, the most that the kernel can be built for.
const MASK_WORDS: usize = 8192 / 64;

/// CPUs that this process may use at once, at least 1: its affinity, and the CPU quota of its cgroup (rounded
/// up, since 1.5 CPUs keep two threads busier than one).
pub fn cpu_count() -> usize {
    let allowed = affinity_count().unwrap_or_else(all_cpus);
    cpu_quota_under(Path::new("/")).map_or(allowed, |quota| allowed.min(quota)).max(1)
}

/// CPUs in the affinity mask of the calling thread; `None` when the kernel does not say.
fn affinity_count() -> Option<usize> {
    let mut mask = [0u64; MASK_WORDS];
    let mask_len = std::mem::size_of_val(&mask);
    // SAFETY: pid 0 is the calling thread; the kernel writes at most `mask_len` bytes, which is the size of `mask`.
    let status = unsafe { libc::sched_getaffinity(0, mask_len, mask.as_mut_ptr().cast()) };
    if status != 0 {
        return None;
    }
    Some(mask.iter().map(|word| word.count_ones() as usize).sum())
}

fn all_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
