//! Vocabularies and chat templates that llama.cpp is tested with, taken as data out of a source archive. Never builds it.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::bufread::GzDecoder;
use frank_testkit::assets;
use tar::Archive;

use super::remove_folder;
use super::source_package::SourcePackage;

const PACKAGE: SourcePackage = SourcePackage {
    name: "llama-cpp-python",
    version: assets::LLAMA_CPP_PYTHON,
    sha256: "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
};
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
    remove_folder(&work)?;
    let unpacked = work.join("unpacked");
    fs::create_dir_all(&unpacked).with_context(|| format!("create {}", unpacked.display()))?;
    let n_files = unpack(&PACKAGE.download(&work)?, &unpacked)?;
    ensure!(n_files >= N_FILES_MIN, "{n_files} files in the archive, {N_FILES_MIN} expected");
    fs::rename(&unpacked, &target).with_context(|| format!("rename to {}", target.display()))?;
    remove_folder(&work)
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
}
