//! A control group that caps the memory of a child process, page cache included: version 1 where its memory controller can
//! be written, version 2 where it was delegated. Never caps this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

const OWN_GROUPS: &str = "/proc/self/cgroup";
/// A group can be removed once the kernel has let go of its last process.
const REMOVE_TRIES: u32 = 50;
const REMOVE_POLL: Duration = Duration::from_millis(20);
/// Joins the group named by its first argument and becomes the program of the others.
const JOIN: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;

/// A group with a limit. Removed when it is dropped, which its processes have to have ended before.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    files: &'static Files,
}

/// What the two versions call the same things.
#[derive(Debug)]
struct Files {
    mount: &'static str,
    limit: &'static str,
    /// Written so that nothing is swapped instead of being within the limit, where the kernel has it.
    no_swap: &'static str,
    peak: &'static str,
    /// Times that the limit was hit.
    hits: (&'static str, Option<&'static str>),
    kills: (&'static str, &'static str),
}

const V1: Files = Files {
    mount: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    no_swap: "memory.swappiness",
    peak: "memory.max_usage_in_bytes",
    hits: ("memory.failcnt", None),
    kills: ("memory.oom_control", "oom_kill"),
};

const V2: Files = Files {
    mount: "/sys/fs/cgroup",
    limit: "memory.max",
    no_swap: "memory.swap.max",
    peak: "memory.peak",
    hits: ("memory.events", Some("max")),
    kills: ("memory.events", "oom_kill"),
};

/// What a group has seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupUsage {
    /// Most bytes that it held at a time.
    pub(crate) peak_bytes: u64,
    /// Times that it wanted more than its limit.
    pub(crate) limit_hits: u64,
    /// Processes that were killed for it.
    pub(crate) oom_kills: u64,
}

impl MemoryGroup {
    /// A new group below that of this process, or below the nearest one above it that can be written.
    /// # Errors
    /// None can be made; the error says what each version refused.
    pub(crate) fn create(limit_bytes: u64) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("frank-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let groups =
            fs::read_to_string(OWN_GROUPS).with_context(|| format!("read {OWN_GROUPS}"))?;
        let mut refused = Vec::new();
        for (files, own) in [(&V1, own_v1(&groups)), (&V2, own_v2(&groups))] {
            let Some(own) = own else { continue };
            for parent in own.ancestors() {
                let parent = below(files.mount, parent);
                match Self::within(&parent, &name, files, limit_bytes) {
                    Ok(group) => return Ok(group),
                    Err(error) => refused.push(format!("{error:#}")),
                }
            }
        }
        if refused.is_empty() {
            refused.push(format!("{OWN_GROUPS} names no memory controller"));
        }
        bail!("no control group for memory can be made: {}", refused.join("; "))
    }

    fn within(parent: &Path, name: &str, files: &'static Files, limit_bytes: u64) -> Result<Self> {
        let folder = parent.join(name);
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        let group = Self { folder, files };
        let limit = group.folder.join(files.limit);
        fs::write(&limit, limit_bytes.to_string())
            .with_context(|| format!("write {}", limit.display()))?;
        // Where it is missing there is no swap to keep from.
        drop(fs::write(group.folder.join(files.no_swap), "0"));
        // A kernel without a peak cannot say what a soak asks for.
        group.usage()?;
        Ok(group)
    }

    /// The same command, inside the group from its first instruction.
    pub(crate) fn enter(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", JOIN]).arg(&self.folder);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// What it has seen so far.
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn usage(&self) -> Result<GroupUsage> {
        let number = |file: &str, key: Option<&str>| {
            let path = self.folder.join(file);
            let text =
                fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            number(&text, key).with_context(|| format!("{key:?} in {}", path.display()))
        };
        Ok(GroupUsage {
            peak_bytes: number(self.files.peak, None)?,
            limit_hits: number(self.files.hits.0, self.files.hits.1)?,
            oom_kills: number(self.files.kills.0, Some(self.files.kills.1))?,
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(REMOVE_POLL);
        }
        eprintln!("warning: {} could not be removed", self.folder.display());
    }
}

/// A group's path as the kernel names it, from the root, below the place where groups are mounted.
fn below(mount: &str, group: &Path) -> PathBuf {
    Path::new(mount).join(group.strip_prefix("/").unwrap_or(group))
}

/// The group of this process in version 1's memory controller.
fn own_v1(groups: &str) -> Option<&Path> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == "memory").then_some(Path::new(path))
    })
}

/// The group of this process in version 2.
fn own_v2(groups: &str) -> Option<&Path> {
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(Path::new)
}

/// The number of a file that is one, or of the line that begins with `key`.
fn number(text: &str, key: Option<&str>) -> Option<u64> {
    match key {
        None => text.trim().parse().ok(),
        Some(key) => text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse().ok())?
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "9:name=systemd:/\n4:memory,hugetlb:/a/b\n3:cpu:/c\n0::/d\n";

    #[test]
    fn the_own_group_is_that_of_the_memory_controller() {
        assert_eq!(own_v1(MIXED), Some(Path::new("/a/b")));
        assert_eq!(own_v2(MIXED), Some(Path::new("/d")));
        assert_eq!(own_v1("3:memory_recursive:/a\n0::/"), None);
        assert_eq!(own_v2("4:memory:/a"), None);
    }

    #[test]
    fn groups_are_looked_for_from_the_own_one_up_to_the_mount() {
        let found: Vec<_> = Path::new("/a/b").ancestors().map(|one| below("/m", one)).collect();
        assert_eq!(found, [Path::new("/m/a/b"), Path::new("/m/a"), Path::new("/m")]);
    }

    #[test]
    fn a_number_is_the_whole_file_or_has_a_key_of_its_own() {
        let events = "low 0\nmax 12\noom 1\noom_kill 3\n";
        assert_eq!(number("4096\n", None), Some(4096));
        assert_eq!(number(events, Some("max")), Some(12));
        assert_eq!(number(events, Some("oom_kill")), Some(3));
        assert_eq!(number(events, Some("high")), None);
        assert_eq!(number("max\n", None), None);
    }
}
