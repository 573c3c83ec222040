//! Writing a model anew: the same bytes in tensors of another order or cut, in one file that gets its name when it was
//! read back. Never changes a value.

mod unfinished;

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use frank_gguf::{GgufError, Metadata, ModelHeader, TensorInfo, Value, encode_header, lay_out};
use frank_os::OsError;

use self::unfinished::Unfinished;
use crate::fetch::FailureKind;
use crate::model_file::{ModelFile, OpenError};

/// Bytes that are read, compared and written at a time.
const CHUNK_BYTES: u64 = 4 << 20;

/// Bytes written until the system is made to store them, so that a file of any size is never in its memory as a whole.
const SYNC_BYTES: u64 = 256 << 20;

/// One tensor of the new file: a run of bytes of a tensor of the old one, of the same type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorCopy {
    /// Its name.
    pub name: String,
    /// Its dimensions in ggml order.
    pub dims: Vec<u64>,
    /// Index of the tensor in the old model that it is taken from.
    pub source: usize,
    /// Where it begins there, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl TensorCopy {
    /// Tensor `index` of `header` as it is.
    ///
    /// # Panics
    /// When the header has no such tensor.
    pub fn whole(header: &ModelHeader, index: usize) -> Self {
        let TensorInfo { name, dims, .. } = &header.tensors[index];
        let bytes = header.stored_bytes(index);
        Self { name: name.clone(), dims: dims.clone(), source: index, offset: 0, bytes }
    }
}

/// What a rewrite is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteStage {
    /// Bytes are copied.
    Copy,
    /// Both files are read and compared.
    Verify,
}

/// How far a rewrite has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriteProgress {
    /// What is being done.
    pub stage: RewriteStage,
    /// Bytes of tensors that this stage is through with.
    pub done: u64,
    /// Bytes of all tensors.
    pub total: u64,
}

/// Told of every step; breaks to have the rewrite end and leave nothing.
pub type Watch<'a> = &'a dyn Fn(RewriteProgress) -> ControlFlow<()>;

/// Why a model was not written anew. Nothing is left behind then, unless the new file had its name and only its folder
/// could not be brought to the drive.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// Something is there already, be it the model itself.
    #[error("{}: it exists already", path.display())]
    Exists {
        /// The new file.
        path: PathBuf,
    },
    /// The drive is too small.
    #[error("{}: {need} bytes needed, {free} bytes free", path.display())]
    DiskFull {
        /// Folder on that drive.
        path: PathBuf,
        /// Bytes of the new file.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The operating system does not say how large the drive is, or cannot read a file.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The old model cannot be read, or the new one is none.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new header would break a rule of the format.
    #[error(transparent)]
    Header(#[from] GgufError),
    /// Tensors whose sizes are not known, or are more than a file holds.
    #[error("the tensors of {} cannot be laid out anew", path.display())]
    Sizes {
        /// The old model.
        path: PathBuf,
    },
    /// A file could not be written or renamed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The new file, or its folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// What was read back is not what was written.
    #[error("{}: {what} was not read back as it was written", path.display())]
    Differs {
        /// The new file.
        path: PathBuf,
        /// A tensor, or the header.
        what: String,
    },
    /// The watcher broke it off.
    #[error("interrupted")]
    Interrupted,
}

impl RewriteError {
    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Exists { .. } | Self::Header(_) | Self::Sizes { .. } => FailureKind::Input,
            Self::Open(error) => error.kind(),
            Self::DiskFull { .. } | Self::Os(_) | Self::Io { .. } => FailureKind::Failed,
            Self::Differs { .. } => FailureKind::Verification,
            Self::Interrupted => FailureKind::Interrupted,
        }
    }
}

/// Writes the tensors `copies` of `model` to the new file `path`, each on a multiple of `alignment` (a power of two), with
/// the model's metadata but for the keys of a split. Reads both back and compares them, byte for byte, before the file
/// gets its name. Returns its bytes.
///
/// Holds a few mebibytes of tensors at a time.
///
/// # Errors
/// [`RewriteError`]; whether there is room is asked before a byte is written, and `path` is never replaced.
pub fn rewrite(
    model: &ModelFile,
    copies: &[TensorCopy],
    alignment: u32,
    path: &Path,
    watch: Watch<'_>,
) -> Result<u64, RewriteError> {
    let refused = || RewriteError::Exists { path: path.to_owned() };
    if path.symlink_metadata().is_ok() {
        return Err(refused());
    }
    let new = NewFile::of(model, copies, alignment)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    check_room(folder, new.file_bytes())?;
    let io = |doing| move |source| RewriteError::Io { doing, path: path.to_owned(), source };
    let unfinished = Unfinished::create_in(folder).map_err(io("create"))?;
    new.write(model, &mut Steps::new(RewriteStage::Copy, &new, watch), unfinished.as_file())
        .map_err(|error| named(error, path))?;
    unfinished.as_file().sync_all().map_err(io("store"))?;
    let mut steps = Steps::new(RewriteStage::Verify, &new, watch);
    new.verify(model, &mut steps, &unfinished.path(), path)?;
    match unfinished.finish(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(refused()),
        Err(error) => return Err(io("give the new file the name")(error)),
    }
    // The name is stored too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("store"))?;
    Ok(new.file_bytes())
}

fn check_room(folder: &Path, need: u64) -> Result<(), RewriteError> {
    let free = frank_os::free_disk(folder)?;
    if need <= free {
        return Ok(());
    }
    Err(RewriteError::DiskFull { path: folder.to_owned(), need, free })
}

/// What stops the copying.
enum WriteError {
    Open(OpenError),
    Io(io::Error),
    Interrupted,
}

impl From<OpenError> for WriteError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn named(error: WriteError, path: &Path) -> RewriteError {
    match error {
        WriteError::Open(error) => error.into(),
        WriteError::Io(source) => {
            RewriteError::Io { doing: "write", path: path.to_owned(), source }
        }
        WriteError::Interrupted => RewriteError::Interrupted,
    }
}

/// The header of the new file, and what its tensors are made of.
struct NewFile<'a> {
    tensors: Vec<TensorInfo>,
    copies: &'a [TensorCopy],
    header: Vec<u8>,
    data_bytes: u64,
}

impl<'a> NewFile<'a> {
    fn of(
        model: &ModelFile,
        copies: &'a [TensorCopy],
        alignment: u32,
    ) -> Result<Self, RewriteError> {
        let old = &model.header.tensors;
        let tensor = |copy: &TensorCopy| TensorInfo {
            name: copy.name.clone(),
            dims: copy.dims.clone(),
            type_id: old[copy.source].type_id,
            offset: 0,
            part: 0,
        };
        let mut tensors: Vec<TensorInfo> = copies.iter().map(tensor).collect();
        let sizes = || RewriteError::Sizes { path: model.paths()[0].clone() };
        let data_bytes = lay_out(&mut tensors, alignment.into()).ok_or_else(sizes)?;
        if tensors.iter().zip(copies).any(|(tensor, copy)| tensor.bytes() != Some(copy.bytes)) {
            return Err(sizes());
        }
        let metadata = metadata(&model.header.metadata, alignment)?;
        let header = encode_header(&metadata, &tensors);
        Ok(Self { tensors, copies, header, data_bytes })
    }

    fn file_bytes(&self) -> u64 {
        (self.header.len() as u64).saturating_add(self.data_bytes)
    }

    fn write(
        &self,
        model: &ModelFile,
        steps: &mut Steps<'_>,
        mut file: &File,
    ) -> Result<(), WriteError> {
        file.write_all(&self.header)?;
        let mut chunk = Vec::new();
        let (mut end, mut stored) = (0, 0);
        for (tensor, copy) in self.tensors.iter().zip(self.copies) {
            // Tensors come in the order of their places, with less than the alignment between them.
            file.write_all(&vec![0; (tensor.offset - end) as usize])?;
            for (offset, n_bytes) in chunks(copy.bytes) {
                read(model, copy, offset, n_bytes, &mut chunk)?;
                file.write_all(&chunk)?;
                if steps.add(n_bytes).is_break() {
                    return Err(WriteError::Interrupted);
                }
            }
            end = tensor.offset + copy.bytes;
            if end - stored >= SYNC_BYTES {
                file.sync_data()?;
                stored = end;
            }
        }
        Ok(())
    }

    /// Reads the new file, which lies at `unfinished` as yet, as any other model and compares it with the old one.
    fn verify(
        &self,
        model: &ModelFile,
        steps: &mut Steps<'_>,
        unfinished: &Path,
        path: &Path,
    ) -> Result<(), RewriteError> {
        let differs =
            |what: &str| RewriteError::Differs { path: path.to_owned(), what: what.to_owned() };
        let written = ModelFile::open(unfinished)?;
        // What is compared comes from the drive, where it is stored by now.
        for file in written.data_files() {
            file.forget_cached(0, self.file_bytes());
        }
        let ModelHeader { metadata, tensors, .. } = &written.header;
        // Bytes, because a NaN among the metadata is not equal to itself.
        if encode_header(metadata, tensors) != self.header {
            return Err(differs("the header"));
        }
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (tensor, copy) in self.tensors.iter().zip(self.copies) {
            for (offset, n_bytes) in chunks(copy.bytes) {
                read(model, copy, offset, n_bytes, &mut old)?;
                new.resize(old.len(), 0);
                written.read(tensor, offset, &mut new)?;
                if old != new {
                    return Err(differs(&format!("tensor {}", tensor.name)));
                }
                if steps.add(n_bytes).is_break() {
                    return Err(RewriteError::Interrupted);
                }
            }
        }
        Ok(())
    }
}

/// The keys of a whole model with this alignment.
fn metadata(old: &Metadata, alignment: u32) -> Result<Metadata, GgufError> {
    const KEY: &str = "general.alignment";
    let kept = old.iter().filter(|(key, _)| *key != KEY && !key.starts_with("split."));
    let kept = kept.map(|(key, value)| (key.to_owned(), value.clone()));
    let alignment = (KEY.to_owned(), Value::U32(alignment));
    Metadata::new(kept.chain([alignment]).collect())
}

/// Fills `chunk` with bytes of a copy.
fn read(
    model: &ModelFile,
    copy: &TensorCopy,
    offset: u64,
    n_bytes: u64,
    chunk: &mut Vec<u8>,
) -> Result<(), OpenError> {
    chunk.resize(n_bytes as usize, 0);
    model.read(&model.header.tensors[copy.source], copy.offset + offset, chunk)
}

/// The chunks of so many bytes: where each begins and its length.
fn chunks(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..bytes).step_by(CHUNK_BYTES as usize);
    starts.map(move |start| (start, CHUNK_BYTES.min(bytes - start)))
}

/// Counts the bytes of a stage for its watcher.
struct Steps<'a> {
    progress: RewriteProgress,
    watch: Watch<'a>,
}

impl<'a> Steps<'a> {
    fn new(stage: RewriteStage, new: &NewFile<'_>, watch: Watch<'a>) -> Self {
        let total = new.copies.iter().map(|copy| copy.bytes).sum();
        Self { progress: RewriteProgress { stage, done: 0, total }, watch }
    }

    fn add(&mut self, n_bytes: u64) -> ControlFlow<()> {
        self.progress.done += n_bytes;
        (self.watch)(self.progress)
    }
}
