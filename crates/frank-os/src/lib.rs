//! The operating system behind safe functions: memory, files, /proc, cgroups. Never policy, retries or logging.
#![expect(
    unsafe_code,
    reason = "mmap, madvise, sched_getaffinity and statvfs have no safe form in the standard library"
)]

mod cgroup;
mod cpu;
mod data_file;
mod disk;
mod error;
mod host;
mod meminfo;
mod memory;
mod process;

pub use cgroup::{CgroupMemory, cgroup_memory, cgroup_memory_under, cpu_quota_under};
pub use cpu::cpu_count;
pub use data_file::DataFile;
pub use disk::free_disk;
pub use error::OsError;
pub use host::host_name;
pub use meminfo::{HostMemory, host_memory};
pub use memory::{AnonBuffer, HUGE_PAGE_BYTES, PAGE_BYTES};
pub use process::{ProcessMemory, process_memory};
