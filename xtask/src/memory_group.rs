//! A control group that caps the memory of a child process, page cache included: version 1 where its memory controller can
//! be written, version 2 where it was delegated. Never caps this process.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
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
    peak: Number,
    /// Times that the limit was hit.
    hits: Number,
    kills: Number,
    held: Number,
    anonymous: Number,
    page_cache: Number,
    kernel: Number,
}

/// A number that the kernel tells: a file, or the line of a file that begins with a word.
#[derive(Debug)]
enum Number {
    File(&'static str),
    Line(&'static str, &'static str),
}

const V1: Files = Files {
    mount: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    no_swap: "memory.swappiness",
    peak: Number::File("memory.max_usage_in_bytes"),
    hits: Number::File("memory.failcnt"),
    kills: Number::Line("memory.oom_control", "oom_kill"),
    held: Number::File("memory.usage_in_bytes"),
    anonymous: Number::Line("memory.stat", "rss"),
    page_cache: Number::Line("memory.stat", "cache"),
    kernel: Number::File("memory.kmem.usage_in_bytes"),
};

const V2: Files = Files {
    mount: "/sys/fs/cgroup",
    limit: "memory.max",
    no_swap: "memory.swap.max",
    peak: Number::File("memory.peak"),
    hits: Number::Line("memory.events", "max"),
    kills: Number::Line("memory.events", "oom_kill"),
    held: Number::File("memory.current"),
    anonymous: Number::Line("memory.stat", "anon"),
    page_cache: Number::Line("memory.stat", "file"),
    kernel: Number::Line("memory.stat", "kernel"),
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

/// Bytes that a group holds, and of what kind they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) anonymous: u64,
    pub(crate) page_cache: u64,
    /// Page tables, stacks, buffers of sockets and other objects of the kernel.
    pub(crate) kernel: u64,
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
        group.limit(limit_bytes)?;
        Ok(group)
    }

    fn limit(&self, bytes: u64) -> Result<()> {
        self.write(self.files.limit, &bytes.to_string())?;
        // Where it is missing there is no swap to keep from.
        drop(self.write(self.files.no_swap, "0"));
        // A kernel without a peak cannot say what a soak asks for.
        self.usage()?;
        Ok(())
    }

    /// Writes a file that the kernel has made.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).truncate(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("write {}", path.display()))
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
        Ok(GroupUsage {
            peak_bytes: self.files.peak.read(&self.folder)?,
            limit_hits: self.files.hits.read(&self.folder)?,
            oom_kills: self.files.kills.read(&self.folder)?,
        })
    }

    /// What it holds now.
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn held(&self) -> Result<Held> {
        Ok(Held {
            bytes: self.files.held.read(&self.folder)?,
            anonymous: self.files.anonymous.read(&self.folder)?,
            page_cache: self.files.page_cache.read(&self.folder)?,
            kernel: self.files.kernel.read(&self.folder)?,
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

impl Number {
    fn read(&self, group: &Path) -> Result<u64> {
        let (Self::File(file) | Self::Line(file, _)) = self;
        let path = group.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        self.find(&text).with_context(|| format!("no {self:?} in {}", path.display()))
    }

    fn find(&self, text: &str) -> Option<u64> {
        match self {
            Self::File(_) => text.trim().parse().ok(),
            Self::Line(_, word) => text.lines().find_map(|line| {
                let (name, value) = line.split_once(' ')?;
                (name == *word).then(|| value.trim().parse().ok())?
            }),
        }
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
    fn a_number_is_the_whole_file_or_has_a_line_of_its_own() {
        let events = "low 0\nmax 12\noom 1\noom_kill 3\n";
        let line = |word| Number::Line("memory.events", word).find(events);
        assert_eq!(Number::File("memory.peak").find("4096\n"), Some(4096));
        assert_eq!(Number::File("memory.max").find("max\n"), None);
        assert_eq!([line("max"), line("oom_kill"), line("high")], [Some(12), Some(3), None]);
    }

    /// A folder with the files that a kernel makes in a group, and that group.
    fn made(files: &'static Files, contents: &[(&str, &str)]) -> (tempfile::TempDir, MemoryGroup) {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = parent.path().join("group");
        fs::create_dir(&folder).expect("a folder");
        for (name, text) in contents {
            fs::write(folder.join(name), text).expect("a file");
        }
        (parent, MemoryGroup { folder, files })
    }

    /// Does what the kernel does with the files of a group whose folder is removed.
    fn remove(group: MemoryGroup) {
        for entry in fs::read_dir(&group.folder).expect("a folder") {
            fs::remove_file(entry.expect("an entry").path()).expect("it is removed");
        }
        drop(group);
    }

    const V2_STAT: &str = "anon 700\nfile 200\nkernel 100\nkernel_stack 16\nfile_mapped 8\n";

    #[test]
    fn a_group_of_version_2_is_limited_and_read_by_the_names_of_version_2() {
        let (parent, group) = made(
            &V2,
            &[
                ("memory.max", "max\n"),
                ("memory.swap.max", "max\n"),
                ("memory.peak", "1100\n"),
                ("memory.current", "1000\n"),
                ("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\n"),
                ("memory.stat", V2_STAT),
            ],
        );
        group.limit(4096).expect("it is limited");
        let written = |name| fs::read_to_string(group.folder.join(name)).expect("a file");
        assert_eq!([written("memory.max"), written("memory.swap.max")], ["4096", "0"]);
        let usage = GroupUsage { peak_bytes: 1100, limit_hits: 12, oom_kills: 3 };
        assert_eq!(group.usage().expect("it tells"), usage);
        let held = Held { bytes: 1000, anonymous: 700, page_cache: 200, kernel: 100 };
        assert_eq!(group.held().expect("it tells"), held);
        remove(group);
        assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_kernel_that_keeps_no_peak_makes_no_group() {
        let (_parent, group) = made(&V2, &[("memory.max", "max\n"), ("memory.events", "max 0\n")]);
        let error = group.limit(4096).expect_err("no peak");
        assert!(error.to_string().ends_with("memory.peak"), "{error:#}");
        remove(group);
    }

    #[test]
    fn a_folder_that_is_no_group_is_left_as_it_was() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        for files in [&V1, &V2] {
            let error = MemoryGroup::within(parent.path(), "group", files, 4096);
            let error = error.expect_err("no kernel made its files").to_string();
            assert!(error.starts_with("write ") && error.ends_with(files.limit), "{error}");
            assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
        }
    }
}
