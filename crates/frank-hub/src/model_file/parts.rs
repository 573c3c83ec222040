//! Finding the files of one model in a folder, by name or by header. Never looks into another folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use frank_gguf::{GgufError, Header, PartName, SplitInfo, parse_part_name, part_name};
use frank_os::{DataFile, OsError};

use super::OpenError;

/// How much of a file is read at a time while its header is parsed.
const HEADER_CHUNK_BYTES: usize = 256 * 1024;

/// How much of a file that is no model is shown.
const START_BYTES_SHOWN: usize = 32;

/// One file of a model.
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) file: DataFile,
    pub(super) header: Header,
    split: SplitInfo,
}

/// The parts of a model that are there.
pub(super) struct Found {
    /// In order; at least one.
    pub(super) parts: Vec<Part>,
    /// The others: file names, or numbers where the names cannot be known.
    pub(super) missing: Vec<String>,
    folder: PathBuf,
}

impl Found {
    /// Refuses a model that is not all there.
    pub(super) fn check_all(&self) -> Result<(), OpenError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let (folder, missing) = (self.folder.clone(), self.missing.clone());
        Err(OpenError::MissingParts { folder, count: self.parts[0].split.count, missing })
    }

    /// Whether the part that has the model's keys is there.
    pub(super) fn has_first(&self) -> bool {
        self.parts[0].split.no == 0
    }
}

/// All parts of the model of which `path` is one, as far as they are in its folder.
pub(super) fn find_all(path: &Path) -> Result<Found, OpenError> {
    let given = Part::open(path)?;
    given.check_end()?;
    if given.split.count == 1 {
        return Ok(Found { parts: vec![given], missing: Vec::new(), folder: PathBuf::new() });
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let siblings = match name_of_part(path, given.split.count) {
        Some(name) => siblings_by_name(&given, name.stem, folder)?,
        None => siblings_by_header(&given, folder)?,
    };
    in_order(given, siblings, folder)
}

impl Part {
    pub(super) fn open(path: &Path) -> Result<Part, OpenError> {
        let file = match DataFile::open(path) {
            Err(OsError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::NotFound { path: path.to_owned() });
            }
            other => other?,
        };
        let at_fault = |source| match source {
            GgufError::NotGguf { .. } => {
                OpenError::NotGguf { path: path.to_owned(), start: start_of(&file) }
            }
            source => OpenError::Header { path: path.to_owned(), source },
        };
        let mut reader =
            BufReader::with_capacity(HEADER_CHUNK_BYTES, FromStart { file: &file, position: 0 });
        let header = Header::read(&mut reader, file.len()).map_err(at_fault)?;
        let split = header.split().map_err(at_fault)?;
        Ok(Part { path: path.to_owned(), file, header, split })
    }

    /// Refuses a file that ends inside a tensor.
    pub(super) fn check_data(&self) -> Result<(), OpenError> {
        let error = match self.header.check_data(self.file.len()) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        Err(match (error, self.header.end_of_data()) {
            (GgufError::OutsideFile { tensor, .. }, Some(end)) => OpenError::Truncated {
                path: self.path.clone(),
                tensor,
                missing_bytes: end.saturating_sub(self.file.len()),
            },
            (source, _) => OpenError::Header { path: self.path.clone(), source },
        })
    }

    /// Refuses a part that goes on behind its own end.
    pub(super) fn check_end(&self) -> Result<(), OpenError> {
        let SplitInfo { no, count, .. } = self.split;
        let end = self
            .header
            .end_of_data()
            .and_then(|end| end.checked_next_multiple_of(self.header.alignment));
        match end {
            Some(end) if count > 1 && self.file.len() > end => Err(OpenError::JoinedParts {
                path: self.path.clone(),
                part: no + 1,
                count,
                extra_bytes: self.file.len() - end,
            }),
            _ => Ok(()),
        }
    }
}

impl Part {
    /// Refuses what lies behind the last tensor. Writers fill the last block up to the alignment with zeros, or leave that;
    /// where the end of the tensors is not known, nothing can be said.
    pub(super) fn check_behind(&self) -> Result<(), OpenError> {
        let Some(end) = self.header.end_of_data() else { return Ok(()) };
        let extra_bytes = self.file.len().saturating_sub(end);
        let padded = end.checked_next_multiple_of(self.header.alignment);
        if padded.is_some_and(|padded| self.file.len() <= padded) && self.is_zero(end)? {
            return Ok(());
        }
        Err(OpenError::Behind { path: self.path.clone(), extra_bytes })
    }

    /// Whether all bytes from `start` on are zeros.
    fn is_zero(&self, start: u64) -> Result<bool, OpenError> {
        let (mut position, mut chunk) = (start, vec![0; HEADER_CHUNK_BYTES]);
        while position < self.file.len() {
            let left = usize::try_from(self.file.len() - position).unwrap_or(usize::MAX);
            let chunk = &mut chunk[..left.min(HEADER_CHUNK_BYTES)];
            self.file.read_at(position, chunk)?;
            if chunk.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            position += chunk.len() as u64;
        }
        Ok(true)
    }
}

/// The first bytes of a file, as text where they are text.
fn start_of(file: &DataFile) -> String {
    let mut start = [0; START_BYTES_SHOWN];
    let n = usize::try_from(file.len()).map_or(start.len(), |bytes| bytes.min(start.len()));
    match file.read_at(0, &mut start[..n]) {
        Ok(()) => String::from_utf8_lossy(&start[..n]).into_owned(),
        Err(_) => String::new(),
    }
}

/// A file as a stream from its start.
struct FromStart<'a> {
    file: &'a DataFile,
    position: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.file.len().saturating_sub(self.position);
        let n = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.file.read_at(self.position, &mut buf[..n]).map_err(io::Error::other)?;
        self.position += n as u64;
        Ok(n)
    }
}

/// The name of `path` taken apart, when it agrees with what the header says about the number of parts.
fn name_of_part(path: &Path, count: u16) -> Option<PartName<'_>> {
    parse_part_name(path.file_name()?.to_str()?).filter(|name| name.count == count)
}

/// The parts beside `given` that have its name but for the number. One that cannot be read is an error.
fn siblings_by_name(given: &Part, stem: &str, folder: &Path) -> Result<Vec<Part>, OpenError> {
    let count = given.split.count;
    let mut candidates = other_files(&given.path, folder)?;
    candidates.retain(|path| name_of_part(path, count).is_some_and(|name| name.stem == stem));
    let parts: Vec<Part> =
        candidates.iter().map(|path| Part::open(path)).collect::<Result<_, _>>()?;
    parts.iter().try_for_each(Part::check_end)?;
    Ok(parts)
}

/// The parts in `folder` that belong with `given` by their headers. What cannot be read is none of them.
fn siblings_by_header(given: &Part, folder: &Path) -> Result<Vec<Part>, OpenError> {
    let mut candidates = other_files(&given.path, folder)?;
    candidates
        .retain(|candidate| candidate.extension().is_some_and(|extension| extension == "gguf"));
    let parts = candidates.iter().filter_map(|path| Part::open(path).ok());
    Ok(parts.filter(|part| part.split.no != given.split.no && part.check_end().is_ok()).collect())
}

/// The files of `folder` but for `path`, sorted.
fn other_files(path: &Path, folder: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
    let mut files =
        entries.map_err(|source| OpenError::Folder { path: folder.to_owned(), source })?;
    files.retain(|file| file.file_name() != path.file_name());
    files.sort();
    Ok(files)
}

/// The parts by their numbers, each at most once.
fn in_order(given: Part, siblings: Vec<Part>, folder: &Path) -> Result<Found, OpenError> {
    let SplitInfo { count, tensors_count, .. } = given.split;
    let mut parts = BTreeMap::from([(given.split.no, given)]);
    for part in siblings {
        let SplitInfo { no, .. } = part.split;
        if (part.split.count, part.split.tensors_count) != (count, tensors_count) {
            continue;
        }
        if let Some(other) = parts.get(&no) {
            let (a, b) = (other.path.clone(), part.path);
            return Err(OpenError::SamePart { part: no + 1, count, a, b });
        }
        parts.insert(no, part);
    }
    let stem = parts.values().find_map(|part| Some(name_of_part(&part.path, count)?.stem));
    let name = |no| match stem {
        Some(stem) => part_name(stem, no, count),
        None => format!("part {}", no + 1),
    };
    let missing = (0..count).filter(|no| !parts.contains_key(no)).map(name).collect();
    Ok(Found { parts: parts.into_values().collect(), missing, folder: folder.to_owned() })
}
