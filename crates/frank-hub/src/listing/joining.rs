//! What headers say about files that were cut apart or glued together. Never joins anything.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use frank_gguf::{GgufError, Header, SplitInfo, parse_part_name};

/// What every GGUF file begins with.
const MAGIC: &[u8; 4] = b"GGUF";
/// How much is read at a time while a header is parsed.
const HEADER_CHUNK_BYTES: usize = 256 * 1024;

/// Why fragments do not make a model.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The first fragment is not the beginning of a model.
    #[error("fragment 1 does not begin a GGUF file, so the fragments are not slices of one")]
    NotGguf,
    /// The first file is a part of a split, which must not be joined.
    #[error(
        "fragment 1 is part {part} of {count} of a split by its header: such parts stay apart, joining them makes no model"
    )]
    IsSplit {
        /// Part number as in file names, from 1.
        part: u16,
        /// Number of parts.
        count: u16,
    },
    /// A later file has a header of its own.
    #[error("fragment {fragment} begins a GGUF file of its own, so it is no slice of another")]
    OwnHeader {
        /// Which one, from 1.
        fragment: usize,
    },
    /// The joined header holds something that cannot be, or the fragments end before the model does.
    #[error("the joined fragments are no model: {source}")]
    Header {
        /// What is wrong and where.
        source: GgufError,
    },
    /// The joined file could not be read.
    #[error("cannot read the joined fragments")]
    Read {
        /// What the system said.
        #[from]
        source: io::Error,
    },
}

/// A file whose header says that it is a part, and whose name does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file_name}: header says {count} parts, file name is not part {part} of {count}")]
pub struct GluedSplit {
    /// Name of the file.
    pub file_name: String,
    /// Part number by the header, from 1.
    pub part: u16,
    /// Number of parts by the header.
    pub count: u16,
}

impl GluedSplit {
    /// The way out.
    pub fn hint(&self) -> String {
        let GluedSplit { part, count, .. } = self;
        format!(
            "a split model stays in its {count} parts, beside each other and named as published \
             (…-{part:05}-of-{count:05}.gguf); parts that were joined with `cat` are not a model"
        )
    }
}

/// Whether fragments that lie one behind the other in `joined` were slices of one model.
///
/// `fragment_bytes` are their sizes, in order; the joined file may be longer only by what is not theirs. The first has to
/// begin a GGUF file that is no part of a split, no other may begin one, and together they have to hold every tensor.
/// # Errors
/// [`JoinError`] says which of them is wrong.
pub fn may_join(joined: &mut (impl Read + Seek), fragment_bytes: &[u64]) -> Result<(), JoinError> {
    let mut start = 0u64;
    for (index, bytes) in fragment_bytes.iter().enumerate() {
        let is_model = begins_gguf(joined, start, *bytes)?;
        match (index, is_model) {
            (0, false) => return Err(JoinError::NotGguf),
            (1.., true) => return Err(JoinError::OwnHeader { fragment: index + 1 }),
            _ => {}
        }
        start = start.saturating_add(*bytes);
    }
    joined.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(HEADER_CHUNK_BYTES, joined.take(start));
    let at_fault = |source| JoinError::Header { source };
    let header = Header::read(&mut reader, start).map_err(at_fault)?;
    let split = header.split().map_err(at_fault)?;
    if split.count > 1 {
        return Err(JoinError::IsSplit { part: split.no + 1, count: split.count });
    }
    header.check_data(start).map_err(at_fault)
}

/// Whether a file may have the name it has: a part of a split only that of this part.
///
/// Parts that were glued into one file keep the header of the first, and no loader finds the tensors of the others.
/// # Errors
/// [`GluedSplit`] when the header is that of a part and the name is another.
pub fn glued_split(split: SplitInfo, file_name: &str) -> Result<(), GluedSplit> {
    let named = parse_part_name(file_name);
    let is_named = named.is_some_and(|name| (name.no, name.count) == (split.no, split.count));
    if split.count <= 1 || is_named {
        return Ok(());
    }
    let (part, count) = (split.no + 1, split.count);
    Err(GluedSplit { file_name: file_name.to_owned(), part, count })
}

fn begins_gguf(joined: &mut (impl Read + Seek), start: u64, bytes: u64) -> io::Result<bool> {
    let mut magic = Vec::new();
    joined.seek(SeekFrom::Start(start))?;
    joined.take(bytes.min(MAGIC.len() as u64)).read_to_end(&mut magic)?;
    Ok(magic == MAGIC)
}
