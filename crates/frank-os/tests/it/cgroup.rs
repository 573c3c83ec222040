//! Cgroup limits on made-up trees: v1, v2, both, nested, in containers.

use std::path::Path;

use frank_os::{CgroupMemory, cgroup_memory_under, cpu_quota_under};
use tempfile::TempDir;

const V1_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
/// How v1 of a machine with 4 KiB pages spells "no limit".
const V1_NO_LIMIT: &str = "9223372036854771712\n";

/// A system's files in a temporary folder.
struct System {
    root: TempDir,
}

impl System {
    fn new(cgroup: &str, mountinfo: &str) -> Self {
        let system = Self { root: tempfile::tempdir().expect("a temporary folder") };
        system.file("proc/self/cgroup", cgroup).file("proc/self/mountinfo", mountinfo)
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.path().join(path);
        let dir = path.parent().expect("below the root");
        std::fs::create_dir_all(dir).expect("a new folder");
        std::fs::write(path, text).expect("a new file");
        self
    }

    fn v1_memory(self, group: &str, limit: &str, usage: &str) -> Self {
        let dir = format!("sys/fs/cgroup/memory{group}");
        self.file(&format!("{dir}/memory.limit_in_bytes"), limit)
            .file(&format!("{dir}/memory.usage_in_bytes"), usage)
    }

    fn v2_memory(self, group: &str, max: &str, current: &str) -> Self {
        let dir = format!("sys/fs/cgroup{group}");
        self.file(&format!("{dir}/memory.max"), max).file(&format!("{dir}/memory.current"), current)
    }

    fn memory(&self) -> Option<(u64, u64)> {
        cgroup_memory_under(self.root.path()).map(|CgroupMemory { limit, used }| (limit, used))
    }

    fn cpus(&self) -> Option<usize> {
        cpu_quota_under(self.root.path())
    }
}

#[test]
fn a_v2_limit_is_found() {
    let system = System::new("0::/app.slice/frank.service\n", V2_MOUNTS).v2_memory(
        "/app.slice/frank.service",
        "1000\n",
        "400\n",
    );
    assert_eq!(system.memory(), Some((1000, 400)));
}

#[test]
fn a_v1_limit_is_found() {
    let system = System::new("9:cpu,cpuacct:/x\n4:memory:/box/1\n0::/\n", V1_MOUNTS)
        .v1_memory("/box/1", "1000\n", "1\n");
    assert_eq!(system.memory(), Some((1000, 1)));
}

#[test]
fn the_tightest_limit_of_all_ancestors_counts() {
    let v2 = |parent: (&str, &str), child: (&str, &str)| {
        let system = System::new("0::/a/b/c\n", V2_MOUNTS).v2_memory("/a", parent.0, parent.1);
        system.v2_memory("/a/b", "max\n", "5\n").v2_memory("/a/b/c", child.0, child.1).memory()
    };
    assert_eq!(v2(("1000", "10"), ("2000", "5")), Some((1000, 10)), "the parent's is smaller");
    assert_eq!(v2(("2000", "10"), ("1000", "5")), Some((1000, 5)), "the child's is smaller");
    assert_eq!(
        v2(("2000", "1900"), ("1000", "5")),
        Some((2000, 1900)),
        "siblings used up the parent's"
    );
    assert_eq!(v2(("1000", "10"), ("max", "5")), Some((1000, 10)), "only the parent has one");

    let v1 = System::new("4:memory:/a/b\n", V1_MOUNTS)
        .v1_memory("", V1_NO_LIMIT, "90\n")
        .v1_memory("/a", "700", "50")
        .v1_memory("/a/b", V1_NO_LIMIT, "5");
    assert_eq!(v1.memory(), Some((700, 50)));
}

#[test]
fn no_limit_is_none_however_it_is_spelled() {
    assert_eq!(System::new("0::/a\n", V2_MOUNTS).v2_memory("/a", "max\n", "400\n").memory(), None);
    assert_eq!(
        System::new("0::/a\n", V2_MOUNTS).memory(),
        None,
        "the root group has no memory.max"
    );
    for spelled in [V1_NO_LIMIT, "9223372036854710272\n", "18446744073709551615\n", "-1\n"] {
        let system = System::new("4:memory:/a\n", V1_MOUNTS).v1_memory("/a", spelled, "400\n");
        assert_eq!(system.memory(), None, "{spelled}");
    }
    assert_eq!(System::new("", "").memory(), None, "no cgroups at all");
    assert_eq!(cgroup_memory_under(Path::new("/no/such/root")), None);
}

#[test]
fn in_a_hybrid_system_the_version_that_owns_memory_is_asked() {
    let unified =
        format!("{V1_MOUNTS}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let v1_memory =
        System::new("4:memory:/box\n0::/box\n", &unified).v1_memory("/box", "1000", "10");
    assert_eq!(v1_memory.memory(), Some((1000, 10)));

    let v1_cpu_only = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    let mounts =
        format!("{v1_cpu_only}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let v2_memory = System::new("3:cpu:/box\n0::/box\n", &mounts)
        .file("sys/fs/cgroup/unified/box/memory.max", "900")
        .file("sys/fs/cgroup/unified/box/memory.current", "9");
    assert_eq!(v2_memory.memory(), Some((900, 9)));
}

#[test]
fn in_a_container_paths_are_seen_from_the_mount() {
    // The mount shows only the container's part of the tree, while /proc names it from the host's root.
    let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let v1 = System::new("4:memory:/docker/abc/worker\n", mounts)
        .v1_memory("", "1000", "10")
        .v1_memory("/worker", "5000", "10");
    assert_eq!(v1.memory(), Some((1000, 10)));

    let foreign = System::new("4:memory:/other\n", mounts).v1_memory("", "1000", "10");
    assert_eq!(
        foreign.memory(),
        Some((1000, 10)),
        "a path outside of the mount: its root is all there is"
    );

    let escaped = System::new("0::/../../host\n", V2_MOUNTS).v2_memory("", "800", "8");
    assert_eq!(escaped.memory(), Some((800, 8)), "a cgroup namespace entered from outside");
}

#[test]
fn a_mount_point_with_a_space_is_found() {
    let mounts = "30 23 0:26 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n";
    let system = System::new("0::/\n", mounts)
        .file("sys/fs/my groups/memory.max", "1000")
        .file("sys/fs/my groups/memory.current", "10");
    assert_eq!(system.memory(), Some((1000, 10)));
}

#[test]
fn file_pages_do_not_count_as_used() {
    let stat = "anon 300\nfile 600\ninactive_file 400\nactive_file 150\n";
    let v2 = System::new("0::/a\n", V2_MOUNTS)
        .v2_memory("/a", "1000", "900")
        .file("sys/fs/cgroup/a/memory.stat", stat);
    assert_eq!(v2.memory(), Some((1000, 350)));

    let stat = "inactive_file 1\ntotal_inactive_file 400\ntotal_active_file 150\n";
    let v1 = System::new("4:memory:/a\n", V1_MOUNTS)
        .v1_memory("/a", "1000", "900")
        .file("sys/fs/cgroup/memory/a/memory.stat", stat);
    assert_eq!(v1.memory(), Some((1000, 350)));
}

#[test]
fn the_throttling_limit_of_v2_counts_too() {
    let system = System::new("0::/a\n", V2_MOUNTS)
        .v2_memory("/a", "1000", "10")
        .file("sys/fs/cgroup/a/memory.high", "600\n");
    assert_eq!(system.memory(), Some((600, 10)));
}

#[test]
fn a_group_over_its_limit_has_nothing_left() {
    let system = System::new("0::/a\n", V2_MOUNTS).v2_memory("/a", "1000", "1500");
    assert_eq!(cgroup_memory_under(system.root.path()).unwrap().left(), 0);
}

#[test]
fn cpu_quotas_of_both_versions_are_rounded_up() {
    let v2 =
        |text: &str| System::new("0::/a\n", V2_MOUNTS).file("sys/fs/cgroup/a/cpu.max", text).cpus();
    assert_eq!(v2("150000 100000\n"), Some(2));
    assert_eq!(v2("max 100000\n"), None);
    assert_eq!(v2("100000\n"), None);

    let v1 = |quota: &str| {
        let dir = "sys/fs/cgroup/cpu,cpuacct/a";
        let system = System::new("9:cpu,cpuacct:/a\n", V1_MOUNTS)
            .file(&format!("{dir}/cpu.cfs_quota_us"), quota);
        system.file(&format!("{dir}/cpu.cfs_period_us"), "100000\n").cpus()
    };
    assert_eq!(v1("250000\n"), Some(3));
    assert_eq!(v1("-1\n"), None);
}

#[test]
fn the_smallest_cpu_quota_of_all_ancestors_counts() {
    let system = System::new("0::/a/b\n", V2_MOUNTS)
        .file("sys/fs/cgroup/a/cpu.max", "200000 100000")
        .file("sys/fs/cgroup/a/b/cpu.max", "800000 100000");
    assert_eq!(system.cpus(), Some(2));
}
