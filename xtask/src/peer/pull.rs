//! The speed of `frank pull` beside that of aria2c: one large file from one server on loopback, in turns, each with its
//! digest checked; and how much memory frank takes for it. Never what a real network does.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use frank_os::free_disk;
use frank_testkit::assets;
use frank_testkit::mock_hub::{Content, MockHub, Repository};
use tempfile::TempDir;

use crate::cargo::shown;
use crate::server_process::built_frank;
use crate::soak::memory::{mib, peak_bytes};
use crate::statistics::Spread;
use crate::{install, machine};

const FILE_BYTES: u64 = 4 << 30;
/// As many as frank uses at most.
const CONNECTIONS: &str = "16";
const REPOSITORY: &str = "org/large-GGUF";
const FILE: &str = "large-Q4_K_M.gguf";
/// What frank has to reach of the rate of aria2c.
const SHARE_MIN: f64 = 0.9;
const PEAK_BYTES_MAX: u64 = 64 << 20;
/// The peak of a process is gone with it, so it is read this often.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// A folder in memory, so that no drive decides.
const MEMORY_FOLDER: &str = "/dev/shm";

/// Measures both programs with the file in memory, then on the drive of the test cache, and prints what came out.
/// # Errors
/// Something could not be measured, or frank is too slow or takes too much memory.
pub(super) fn compare(root: &Path, rounds: u64) -> Result<()> {
    install::aria2c()?;
    let frank = built_frank(root, "release")?;
    println!("machine: {}", machine::describe()?);
    let memory = folder_in(Path::new(MEMORY_FOLDER), 2 * FILE_BYTES)?;
    println!("\nmake a file of {} MiB in {}", mib(FILE_BYTES as f64), memory.path().display());
    let source = Source::make(memory.path())?;
    let disk = folder_in(&assets::cache_dir(), FILE_BYTES)?;
    let mut missed = Vec::new();
    for (place, folder) in [("in memory", memory.path()), ("on the drive", disk.path())] {
        let bench = Bench { frank: Path::new(frank.get_program()), source: &source, folder };
        missed.extend(bench.compare(place, rounds)?);
    }
    ensure!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
    Ok(())
}

/// A new folder below `parent` with room for `bytes`. Removed when it is dropped.
fn folder_in(parent: &Path, bytes: u64) -> Result<TempDir> {
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    let free = free_disk(parent)?;
    let (need, free) = (mib(bytes as f64), mib(free as f64));
    ensure!(need < free, "{}: {need:.0} MiB needed, {free:.0} MiB free", parent.display());
    TempDir::with_prefix_in("frank-pull-", parent)
        .with_context(|| format!("make a folder in {}", parent.display()))
}

/// The file and who serves it.
struct Source {
    hub: MockHub,
    sha256: String,
}

impl Source {
    /// Random bytes, which the kernel sends by itself: no thread of the server copies one.
    fn make(folder: &Path) -> Result<Source> {
        let path = folder.join("source");
        let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let mut random = File::open("/dev/urandom")?.take(FILE_BYTES);
        io::copy(&mut random, &mut file).with_context(|| format!("write {}", path.display()))?;
        let sha256 = sha256sum(&path)?;
        let repository =
            Repository::new(REPOSITORY).lfs_named(FILE, Content::file(&path)?, &sha256);
        Ok(Source { hub: MockHub::start(vec![repository]), sha256 })
    }

    fn address(&self) -> String {
        self.hub.web_address(REPOSITORY, FILE)
    }
}

/// By the program, since a debug build of ours takes minutes for it.
fn sha256sum(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(path).output().context("run sha256sum")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let digest = said.split(' ').next().filter(|_| output.status.success());
    digest.map(str::to_owned).with_context(|| format!("sha256sum of {}", path.display()))
}

/// Both programs with one folder.
struct Bench<'a> {
    frank: &'a Path,
    source: &'a Source,
    folder: &'a Path,
}

/// A download that went well.
struct Measured {
    seconds: f64,
    /// With the file safe on its drive, which only frank waits for by itself.
    safe_seconds: f64,
    peak_bytes: u64,
}

impl Bench<'_> {
    /// Compares both, and returns what frank missed.
    fn compare(&self, place: &str, rounds: u64) -> Result<Vec<String>> {
        let (mut of_frank, mut of_aria2c) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            println!("{place}, round {round}, {}", machine::load()?);
            // Whoever comes second finds the machine as the first one left it, so they change places.
            if round % 2 == 0 {
                of_aria2c.push(self.aria2c()?);
                of_frank.push(self.frank()?);
            } else {
                of_frank.push(self.frank()?);
                of_aria2c.push(self.aria2c()?);
            }
        }
        let rate = |runs: &[Measured], seconds: fn(&Measured) -> f64| {
            let mib = mib(FILE_BYTES as f64);
            Spread::of(&runs.iter().map(|run| mib / seconds(run)).collect::<Vec<_>>())
        };
        let ours = rate(&of_frank, |run| run.seconds);
        let theirs = rate(&of_aria2c, |run| run.seconds);
        let safe = rate(&of_aria2c, |run| run.safe_seconds);
        let peak = of_frank.iter().map(|run| run.peak_bytes).max().unwrap_or(0);
        println!("\n{place}, MiB/s, rounds: {rounds}, median (range)");
        println!(
            "  frank pull               {ours:.0}, at most {:.1} MiB of memory",
            mib(peak as f64)
        );
        println!(
            "  aria2c -x16              {theirs:.0}, frank: {:.2}",
            ours.median / theirs.median
        );
        println!("  aria2c -x16, then fsync  {safe:.0}, frank: {:.2}", ours.median / safe.median);
        Ok(missed(place, ours.median / safe.median, peak))
    }

    fn frank(&self) -> Result<Measured> {
        let data = self.folder.join("data");
        let mut command = Command::new(self.frank);
        command.arg("pull").arg(format!("{}#sha256={}", self.source.address(), self.source.sha256));
        command.env("XDG_DATA_HOME", &data);
        let (seconds, peak_bytes) = timed(&mut command)?;
        fs::remove_dir_all(&data).with_context(|| format!("remove {}", data.display()))?;
        Ok(Measured { seconds, safe_seconds: seconds, peak_bytes })
    }

    fn aria2c(&self) -> Result<Measured> {
        let path = self.folder.join(FILE);
        let mut command = Command::new("aria2c");
        command.args(["--no-conf", "--quiet", "--file-allocation=none"]);
        command.args(["-x", CONNECTIONS, "-s", CONNECTIONS]);
        command.arg(format!("--checksum=sha-256={}", self.source.sha256));
        command.arg("--dir").arg(self.folder).args(["--out", FILE, &self.source.address()]);
        let start = Instant::now();
        let (seconds, peak_bytes) = timed(&mut command)?;
        File::open(&path)
            .and_then(|file| file.sync_all())
            .with_context(|| format!("sync {}", path.display()))?;
        let safe_seconds = start.elapsed().as_secs_f64();
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        Ok(Measured { seconds, safe_seconds, peak_bytes })
    }
}

fn missed(place: &str, share: f64, peak: u64) -> Vec<String> {
    let slow =
        (share < SHARE_MIN).then(|| format!("{place}: {share:.2} of aria2c, {SHARE_MIN} wanted"));
    let large = (peak > PEAK_BYTES_MAX).then(|| {
        let (got, want) = (mib(peak as f64), mib(PEAK_BYTES_MAX as f64));
        format!("{place}: {got:.1} MiB of memory, {want:.0} MiB at most wanted")
    });
    slow.into_iter().chain(large).collect()
}

/// Runs a program to its end. Returns the seconds it took, and the peak of its memory in bytes.
fn timed(command: &mut Command) -> Result<(f64, u64)> {
    let shown = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("run {shown}"))?;
    let mut peak = 0;
    loop {
        peak = peak_bytes(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait()? {
            let seconds = start.elapsed().as_secs_f64();
            if !status.success() {
                bail!("{shown}: {status}");
            }
            return Ok((seconds, peak));
        }
        thread::sleep(SAMPLE_EVERY);
    }
}
