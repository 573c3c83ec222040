//! The operating system behind safe functions: memory, files, /proc, cgroups. Never policy or logging, and no retries
//! but of reads in a queue.
#![expect(
    unsafe_code,
    reason = "mmap, madvise, mallopt, sched_getaffinity, statvfs, fcntl, posix_fadvise, arch_prctl, linkat, io_uring, process_vm_readv and pread into shared memory have no safe form in the standard library"
)]

mod amx;
mod cgroup;
mod cpu;
mod data_file;
mod disk;
mod error;
mod faults;
mod file_state;
mod heap;
mod host;
mod meminfo;
mod memory;
mod nameless_file;
mod populate;
mod process;
mod read_queue;
mod scratch_file;
mod small_file;
mod threads;
mod topology;

pub use amx::amx_int8_allowed;
pub use cgroup::{CgroupMemory, cgroup_memory, cgroup_memory_under, cpu_quota_under};
pub use cpu::cpu_count;
pub use data_file::{DataFile, open_regular};
pub use disk::{free_disk, is_in_memory};
pub use error::OsError;
pub use faults::{FaultWindow, Faults};
pub use heap::share_one_arena;
pub use host::host_name;
pub use meminfo::{HostMemory, host_memory};
pub use memory::{AnonBuffer, HUGE_PAGE_BYTES, PAGE_BYTES};
pub use nameless_file::NamelessFile;
pub use populate::populate;
pub use process::{ProcessMemory, ignores_hangup, process_memory, program_bytes};
pub use read_queue::{Finished, IoBackend, QueueOptions, ReadQueue};
pub use scratch_file::{DIRECT_ALIGNMENT, ScratchFile};
pub use small_file::{SmallFileError, read_small_file};
pub use threads::spare_threads;
pub use topology::{cpu_flags, cpu_model, last_cache_bytes, numa_node_count};
