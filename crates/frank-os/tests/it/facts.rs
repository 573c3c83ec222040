//! Facts of this machine: present, and consistent with each other.

use std::path::Path;

use frank_os::{cgroup_memory, cpu_count, free_disk, host_memory, process_memory};

#[test]
fn host_memory_is_plausible() {
    let memory = host_memory().unwrap();
    assert!(memory.total > 0 && memory.available <= memory.total, "{memory:?}");
}

#[test]
fn process_memory_is_part_of_the_host() {
    let memory = process_memory().unwrap();
    assert!(memory.rss > 0 && memory.rss <= memory.rss_peak, "{memory:?}");
    assert!(memory.rss_peak <= host_memory().unwrap().total, "{memory:?}");
}

#[test]
fn cpus_are_counted_within_what_the_system_offers() {
    let online =
        std::fs::read_to_string("/proc/cpuinfo").unwrap().matches("processor").count().max(1);
    assert!((1..=online).contains(&cpu_count()), "{} of {online}", cpu_count());
}

#[test]
fn the_own_cgroup_can_be_read_on_this_machine() {
    if let Some(memory) = cgroup_memory() {
        assert!(memory.limit > 0, "{memory:?}");
    }
}

#[test]
fn free_disk_answers_for_a_folder_and_names_a_missing_one() {
    assert!(free_disk(&std::env::temp_dir()).unwrap() > 0);
    let error = free_disk(Path::new("/no/such/folder")).unwrap_err();
    assert_eq!(error.to_string(), "cannot ask for the free space of /no/such/folder");
    assert!(free_disk(Path::new("a\0b")).is_err());
}
