//! A model on disk: all its parts found, opened and checked against each other. Never interprets a weight.

mod parts;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frank_gguf::{GgufError, ModelHeader, TensorInfo};
use frank_os::{DataFile, OsError};

use crate::fetch::FailureKind;
use parts::{Found, Part, find_all};

/// How every GGUF file begins.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

/// Whether a file is called as weights of another format are, which frank keeps and does not open.
pub(crate) fn is_safetensors(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".safetensors")
}

/// The open files of a model and the one header that they make together.
#[derive(Debug)]
pub struct ModelFile {
    /// Metadata of the first part and the tensors of all parts.
    pub header: ModelHeader,
    files: Vec<Arc<DataFile>>,
    paths: Vec<PathBuf>,
    missing: Vec<String>,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path leads nowhere.
    #[error("{}: no such file", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is no file, or the operating system refuses it.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The folder of a split model cannot be listed.
    #[error("cannot list the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{}: not a GGUF file: it starts with {start:?}", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// Its first bytes, as text where they are text.
        start: String,
    },
    /// The header holds something that cannot be.
    #[error("{}: {source}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: GgufError,
    },
    /// The file ends before its last tensor does.
    #[error(
        "{}: the file is cut off: {missing_bytes} bytes are missing, from tensor {tensor:?} on",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first tensor in the table that is not whole.
        tensor: String,
        /// Bytes between the end of the file and the end of the last tensor.
        missing_bytes: u64,
    },
    /// Something was put behind the model.
    #[error(
        "{}: the file goes on with {extra_bytes} bytes behind its last tensor, where only zeros up to the alignment \
         belong",
        path.display()
    )]
    Behind {
        /// The file.
        path: PathBuf,
        /// Bytes between the end of the last tensor and that of the file.
        extra_bytes: u64,
    },
    /// Parts of a split model were glued into one file, where only the first of them can be found again.
    #[error(
        "{}: the header is that of part {part} of {count}, but {extra_bytes} bytes follow its last \
         tensor: parts that were joined with `cat` are not a model",
        path.display()
    )]
    JoinedParts {
        /// The file.
        path: PathBuf,
        /// Part number as in file names, from 1.
        part: u16,
        /// Number of parts.
        count: u16,
        /// Bytes behind the part's own end.
        extra_bytes: u64,
    },
    /// Not all parts are there. All that are not are listed.
    #[error("{} lacks {} of {count} parts: {}", folder.display(), missing.len(), listed(missing))]
    MissingParts {
        /// The folder that was searched.
        folder: PathBuf,
        /// Number of parts.
        count: u16,
        /// File names, or numbers where the names cannot be known.
        missing: Vec<String>,
    },
    /// Two files say that they are the same part.
    #[error("part {part} of {count} is there twice: {} and {}", a.display(), b.display())]
    SamePart {
        /// Part number as in file names, from 1.
        part: u16,
        /// Number of parts.
        count: u16,
        /// The one file.
        a: PathBuf,
        /// The other file.
        b: PathBuf,
    },
    /// The parts do not make one model.
    #[error("{} and its other parts: {source}", path.display())]
    Parts {
        /// The path as given.
        path: PathBuf,
        /// What does not fit together.
        source: GgufError,
    },
}

/// Names as one line can carry them: the first of them, and how many more there are.
fn listed(names: &[String]) -> String {
    /// As many as a model of 400 GB has in parts of 8.
    const LISTED_MAX: usize = 64;
    let (listed, more) = names.split_at(names.len().min(LISTED_MAX));
    let listed = listed.join(", ");
    if more.is_empty() { listed } else { format!("{listed} and {} more", more.len()) }
}

impl OpenError {
    /// The kind of this failure: a file that was at fault from the start is bad input.
    pub fn kind(&self) -> FailureKind {
        match self {
            OpenError::Os(OsError::Read { .. } | OsError::PastEnd { .. }) => FailureKind::Failed,
            _ => FailureKind::Input,
        }
    }

    /// The way out, where there is one that always applies.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OpenError::Truncated { .. } => Some("fetch the file again"),
            OpenError::Behind { .. } => {
                Some("fetch the file again, and compare it with what its publisher says of it")
            }
            OpenError::JoinedParts { .. } => Some(
                "keep the parts as they were published, beside each other, and give one of them",
            ),
            OpenError::MissingParts { .. } => {
                Some("all parts have to lie in one folder under the names they were published with")
            }
            OpenError::SamePart { .. } => Some("move one of the two files to another folder"),
            _ => None,
        }
    }
}

impl ModelFile {
    /// Opens a model of which `path` is any part, and checks that every tensor is there in full.
    ///
    /// Which part a file is, its `split.*` keys say. The other parts are those of the same name but for the
    /// number, or, when the file was renamed, those in its folder that belong to it by their headers.
    /// # Errors
    /// [`OpenError`] names the file, and the tensor or the parts at fault.
    pub fn open(path: &Path) -> Result<ModelFile, OpenError> {
        let found = find_all(path)?;
        found.check_all()?;
        found.parts.iter().try_for_each(Part::check_data)?;
        ModelFile::of(path, found)
    }

    /// Checks a file alone, which may be one part of several: that every tensor of its own header is there in full, and that
    /// nothing was put behind the last one, be it another part, another model or a page about an error. Whoever only reads
    /// tensors never sees that, so [`ModelFile::open`] lets it pass.
    /// # Errors
    /// [`OpenError`], but never for parts that are missing.
    pub fn check_part(path: &Path) -> Result<(), OpenError> {
        let part = Part::open(path)?;
        part.check_end()?;
        part.check_data()?;
        part.check_behind()
    }

    /// Opens a model for planning: files that are sparse, or cut off behind the header, are welcome, and so are models of
    /// which parts are missing, as long as the first is there.
    /// # Errors
    /// [`OpenError`], but never for missing data.
    pub fn open_header(path: &Path) -> Result<ModelFile, OpenError> {
        let found = find_all(path)?;
        if !found.has_first() {
            found.check_all()?;
        }
        ModelFile::of(path, found)
    }

    fn of(path: &Path, Found { parts, missing, .. }: Found) -> Result<ModelFile, OpenError> {
        let (mut headers, mut files, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for Part { path, file, header, .. } in parts {
            headers.push((header, file.len()));
            files.push(Arc::new(file));
            paths.push(path);
        }
        let merged = if missing.is_empty() {
            ModelHeader::merge(headers)
        } else {
            ModelHeader::merge_found(headers)
        };
        let header = merged.map_err(|source| OpenError::Parts { path: path.to_owned(), source })?;
        Ok(ModelFile { header, files, paths, missing })
    }

    /// Fills `buf` with the bytes of `tensor` from `offset` on.
    /// # Errors
    /// [`OpenError::Os`] when the file has no such bytes (any more) or the drive fails.
    /// # Panics
    /// When the range leaves the tensor, or the tensor is not one of this model.
    pub fn read(&self, tensor: &TensorInfo, offset: u64, buf: &mut [u8]) -> Result<(), OpenError> {
        let end = offset.saturating_add(buf.len() as u64);
        if let Some(bytes) = tensor.bytes() {
            assert!(end <= bytes, "{}: range ends at {end} of {bytes} bytes", tensor.name);
        }
        let start = self.header.parts[tensor.part].data_start.saturating_add(tensor.offset);
        Ok(self.files[tensor.part].read_at(start.saturating_add(offset), buf)?)
    }

    /// The open files in part order, for whoever reads on after the model was loaded.
    pub fn data_files(&self) -> Vec<Arc<DataFile>> {
        self.files.clone()
    }

    /// Names of the parts that were not found, or their numbers where the names cannot be known.
    pub fn missing_parts(&self) -> &[String] {
        &self.missing
    }

    /// The files in part order. There is at least one.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}
