//! Limits of the cgroups this process lives in, v1 and v2, nested and mixed. Reads only.
//!
//! A limit holds for everything below it, so each group from the process's own up to the mount point is asked,
//! and the one that leaves least counts. Both versions are asked on every machine: where a controller is not
//! mounted, or has no limit, there is no file or no number, and nothing is found.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// v1 spells "no limit" as the largest signed number, rounded down to a page (of at most 64 KiB).
const V1_NO_LIMIT_MIN: u64 = (i64::MAX as u64) & !0xffff;

/// The memory limit that leaves this process least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupMemory {
    /// Bytes that the group may hold. Under v2 the smaller of `memory.max` and `memory.high`: above the latter
    /// the kernel slows a process down until it seems to hang.
    pub limit: u64,
    /// Bytes that the group holds and that the kernel cannot simply drop: file pages are not counted.
    pub used: u64,
}

impl CgroupMemory {
    /// Bytes that the group may still take.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The memory limit of this process's cgroups, the one with the least left; `None` where there is no limit.
pub fn cgroup_memory() -> Option<CgroupMemory> {
    cgroup_memory_under(Path::new("/"))
}

/// [`cgroup_memory`] of the system whose files lie under `root`.
///
/// Reads `proc/self/cgroup`, `proc/self/mountinfo` and the groups that they name.
pub fn cgroup_memory_under(root: &Path) -> Option<CgroupMemory> {
    let v1 =
        group_dirs(root, Hierarchy::V1("memory")).into_iter().filter_map(|dir| memory_v1(&dir));
    let v2 = group_dirs(root, Hierarchy::V2).into_iter().filter_map(|dir| memory_v2(&dir));
    v1.chain(v2).min_by_key(CgroupMemory::left)
}

/// CPUs that the cgroups of the system under `root` let this process use at once, rounded up; `None` where
/// there is no limit.
pub fn cpu_quota_under(root: &Path) -> Option<usize> {
    let v1 = group_dirs(root, Hierarchy::V1("cpu")).into_iter().filter_map(|dir| cpu_v1(&dir));
    let v2 = group_dirs(root, Hierarchy::V2).into_iter().filter_map(|dir| cpu_v2(&dir));
    v1.chain(v2).min()
}

fn memory_v1(dir: &Path) -> Option<CgroupMemory> {
    let limit =
        read_number(dir, "memory.limit_in_bytes").filter(|&limit| limit < V1_NO_LIMIT_MIN)?;
    let held = read_number(dir, "memory.usage_in_bytes")?;
    let droppable = stat_sum(dir, ["total_active_file", "total_inactive_file"]);
    Some(CgroupMemory { limit, used: held.saturating_sub(droppable) })
}

fn memory_v2(dir: &Path) -> Option<CgroupMemory> {
    // "max" is not a number, and so no limit.
    let limits = [read_number(dir, "memory.max"), read_number(dir, "memory.high")];
    let limit = limits.into_iter().flatten().min()?;
    let held = read_number(dir, "memory.current")?;
    let droppable = stat_sum(dir, ["active_file", "inactive_file"]);
    Some(CgroupMemory { limit, used: held.saturating_sub(droppable) })
}

fn cpu_v1(dir: &Path) -> Option<usize> {
    // A quota of -1 is not a number here, and so no limit.
    whole_cpus(read_number(dir, "cpu.cfs_quota_us")?, read_number(dir, "cpu.cfs_period_us")?)
}

fn cpu_v2(dir: &Path) -> Option<usize> {
    let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    whole_cpus(quota.parse().ok()?, period.parse().ok()?)
}

fn whole_cpus(quota_us: u64, period_us: u64) -> Option<usize> {
    let cpus = (period_us > 0).then(|| quota_us.div_ceil(period_us))?;
    usize::try_from(cpus.max(1)).ok()
}

/// A tree of cgroups: a v1 controller's own, or the one of v2.
#[derive(Clone, Copy)]
enum Hierarchy {
    V1(&'static str),
    V2,
}

/// The folders of the groups that this process is in, its own first, the mount point last.
fn group_dirs(root: &Path, hierarchy: Hierarchy) -> Vec<PathBuf> {
    let read =
        |name: &str| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
    let (cgroups, mounts) = (read("cgroup"), read("mountinfo"));
    let Some(group) = group_path(&cgroups, hierarchy) else { return Vec::new() };
    let Some(mount) = mounts.lines().find_map(|line| mount_of(line, hierarchy)) else {
        return Vec::new();
    };
    let below_mount = below(&group, &mount.group);
    let mount_dir = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let own_dir = mount_dir.join(below_mount);
    own_dir.ancestors().take_while(|dir| dir.starts_with(&mount_dir)).map(Path::to_owned).collect()
}

/// The group of this process in `hierarchy`, from `/proc/self/cgroup` lines like `4:memory:/user/1`.
fn group_path(cgroups: &str, hierarchy: Hierarchy) -> Option<PathBuf> {
    cgroups.lines().find_map(|line| {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let matches = match hierarchy {
            Hierarchy::V1(name) => controllers.split(',').any(|controller| controller == name),
            Hierarchy::V2 => id == "0" && controllers.is_empty(),
        };
        matches.then(|| PathBuf::from(path))
    })
}

/// Where a cgroup tree is mounted, and which of its groups is seen there.
struct Mount {
    group: PathBuf,
    point: PathBuf,
}

/// The mount that a `/proc/self/mountinfo` line describes, when it is of `hierarchy`.
fn mount_of(line: &str, hierarchy: Hierarchy) -> Option<Mount> {
    let (mount_fields, type_fields) = line.split_once(" - ")?;
    let mut mount_fields = mount_fields.split(' ').skip(3);
    let (group, point) = (unescape(mount_fields.next()?), unescape(mount_fields.next()?));
    let mut type_fields = type_fields.split(' ');
    let (file_system, _source, options) =
        (type_fields.next()?, type_fields.next()?, type_fields.next()?);
    let matches = match hierarchy {
        Hierarchy::V1(name) => {
            file_system == "cgroup" && options.split(',').any(|option| option == name)
        }
        Hierarchy::V2 => file_system == "cgroup2",
    };
    matches.then(|| Mount { group: group.into(), point: point.into() })
}

/// `group` seen from a mount of `mounted`. In a container the two may not share a root; then the mount point is
/// the nearest group that can be seen.
fn below(group: &Path, mounted: &Path) -> PathBuf {
    let Ok(below) = group.strip_prefix(mounted) else { return PathBuf::new() };
    if below.components().any(|component| component == Component::ParentDir) {
        return PathBuf::new();
    }
    below.to_owned()
}

/// Turns the `\040` of mountinfo into the character that it stands for.
fn unescape(field: &str) -> String {
    let mut pieces = field.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&piece[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(piece);
            }
        }
    }
    text
}

fn read_number(dir: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
}

/// Sum of the named lines of `memory.stat`; a missing one counts as 0.
fn stat_sum(dir: &Path, names: [&str; 2]) -> u64 {
    let text = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(' '));
    fields
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_cpu_counts_as_one() {
        assert_eq!(whole_cpus(150_000, 100_000), Some(2));
        assert_eq!(whole_cpus(200_000, 100_000), Some(2));
        assert_eq!(whole_cpus(1_000, 100_000), Some(1));
        assert_eq!(whole_cpus(100_000, 0), None);
    }

    #[test]
    fn octal_escapes_of_mount_points_are_read() {
        assert_eq!(unescape(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(unescape(r"/mnt/\9é"), r"/mnt/\9é");
    }
}
