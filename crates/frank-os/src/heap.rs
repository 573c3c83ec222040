//! The allocator of the C library, kept to one arena.

/// Lets all threads share one arena of the heap. To be called before the first thread is started.
///
/// glibc otherwise gives threads up to eight arenas for each core. What a thread frees stays in its arena, and whatever
/// thread serves the next request allocates in another one, so that a server grows for hours without holding more.
/// Elsewhere than on glibc this does nothing.
pub fn share_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes two integers, and no other thread allocates yet. It only sets a bound.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
