//! Vocabularies and chat templates that llama.cpp is tested with, taken as data out of a source archive. Never builds it.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use flate2::bufread::GzDecoder;
use frank_testkit::assets;
use tar::Archive;

use crate::cargo::execute;

/// The package with its digest, as pip's requirements files write it. pip compares the digest before it runs anything
/// of the archive: its build backend is asked for the metadata, which compiles nothing.
const REQUIREMENT: &str = "llama-cpp-python==0.3.36 \
    --hash=sha256:832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e\n";
/// Where the data lies in the archive, below its one folder.
const MODELS: &str = "vendor/llama.cpp/models";
/// Folder in the archive, beginnings and endings of the file names in it, and folder in the test cache.
const WANTED: &[(&str, &str, &[&str], &str)] = &[
    ("", "ggml-vocab-", &[".gguf", ".gguf.inp", ".gguf.out"], "vocabularies"),
    ("templates", "", &[".jinja"], "templates"),
];
/// Fewest files that a whole archive holds: 19 vocabularies, 15 pairs of cases, 70 templates.
const N_FILES_MIN: usize = 19 + 2 * 15 + 70;

/// Makes sure that [`assets::llama_cpp_data_path`] has the data.
pub(crate) fn install() -> Result<()> {
    let target = assets::llama_cpp_data_path();
    if target.is_dir() {
        return Ok(());
    }
    println!("install {} from a source archive", target.display());
    let work = assets::cache_dir().join("llama_cpp_python.new");
    remove(&work)?;
    let unpacked = work.join("unpacked");
    fs::create_dir_all(&unpacked).with_context(|| format!("create {}", unpacked.display()))?;
    let n_files = unpack(&download(&work)?, &unpacked)?;
    ensure!(n_files >= N_FILES_MIN, "{n_files} files in the archive, {N_FILES_MIN} expected");
    fs::rename(&unpacked, &target).with_context(|| format!("rename to {}", target.display()))?;
    remove(&work)
}

/// Removes a folder with all that is in it, where it is.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Fetches the archive and returns its path.
fn download(folder: &Path) -> Result<PathBuf> {
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENT).context("write the requirements")?;
    let mut pip = Command::new(assets::python_path());
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]);
    pip.args(["--no-deps", "--no-binary", "llama-cpp-python", "--require-hashes", "--requirement"]);
    execute(pip.arg(&requirements).arg("--dest").arg(folder))?;
    Ok(folder.join(format!("llama_cpp_python-{}.tar.gz", assets::LLAMA_CPP_PYTHON)))
}

/// Writes what is wanted of the archive below `target`, and returns how many files these are.
///
/// A file's name is taken from the archive only after it was found to be a bare name, so nothing lands elsewhere.
fn unpack(archive: &Path, target: &Path) -> Result<usize> {
    let failed = || format!("read {}", archive.display());
    for (.., folder) in WANTED {
        fs::create_dir_all(target.join(folder)).with_context(|| format!("create {folder}"))?;
    }
    let file = File::open(archive).with_context(failed)?;
    let mut archive = Archive::new(GzDecoder::new(BufReader::new(file)));
    let mut n_files = 0;
    for entry in archive.entries().with_context(failed)? {
        let mut entry = entry.with_context(failed)?;
        let path = entry.path().with_context(failed)?.to_string_lossy().into_owned();
        let Some(place) = place(&path).filter(|_| entry.header().entry_type().is_file()) else {
            continue;
        };
        let place = target.join(place);
        let mut file =
            File::create_new(&place).with_context(|| format!("create {}", place.display()))?;
        io::copy(&mut entry, &mut file).with_context(|| format!("write {}", place.display()))?;
        n_files += 1;
    }
    Ok(n_files)
}

/// Where a member of the archive belongs below the target, when it is wanted.
fn place(member: &str) -> Option<PathBuf> {
    let (_, path) = member.split_once('/')?;
    let path = path.strip_prefix(MODELS)?.strip_prefix('/')?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (.., target) = WANTED.iter().find(|(wanted, start, ends, _)| {
        *wanted == folder && name.starts_with(start) && ends.iter().any(|end| name.ends_with(end))
    })?;
    Some(Path::new(target).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_and_templates_are_wanted_and_nothing_else() {
        for (member, expected) in [
            ("models/ggml-vocab-a.gguf", Some("vocabularies/ggml-vocab-a.gguf")),
            ("models/ggml-vocab-a.gguf.inp", Some("vocabularies/ggml-vocab-a.gguf.inp")),
            ("models/ggml-vocab-a.gguf.out", Some("vocabularies/ggml-vocab-a.gguf.out")),
            ("models/templates/b.jinja", Some("templates/b.jinja")),
            ("models/templates/README.md", None),
            ("models/templates/../b.jinja", None),
            ("models/other.gguf", None),
            ("tests/c.jinja", None),
        ] {
            let member = format!("llama_cpp_python-0.3.36/vendor/llama.cpp/{member}");
            assert_eq!(place(&member), expected.map(PathBuf::from), "{member}");
        }
        assert_eq!(place("vendor/llama.cpp/models/ggml-vocab-a.gguf"), None);
    }

    #[test]
    fn the_requirement_is_of_the_version_that_the_cache_names() {
        assert!(REQUIREMENT.contains(&format!("=={} ", assets::LLAMA_CPP_PYTHON)));
    }
}
