//! Writes the bytes of one range to where they belong. Never asks for any.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use frank_os::free_disk;

use super::super::TransferError;
use super::super::layout::RangeSpan;
use super::super::range_map::Filled;
use super::Place;

/// What happens to bytes that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Sink {
    /// They are written behind those that are there of their range.
    Fill,
    /// Their range is full: they are compared with what is there, and written where they differ.
    Compare,
}

/// A range that is being brought.
pub(super) struct Work<'a> {
    place: &'a Place<'a>,
    range: usize,
    span: RangeSpan,
    /// Bytes of it that came.
    done: u64,
    crc: crc32fast::Hasher,
    /// Whether some of it was not the same as before.
    differs: bool,
}

impl<'a> Work<'a> {
    /// Goes on with a range where it was left, or begins it where it is only compared.
    pub(super) fn begin(place: &'a Place<'a>, range: usize) -> Work<'a> {
        let filled = match place.sink {
            Sink::Fill => place.board.filled(range),
            Sink::Compare => Filled::default(),
        };
        let crc = crc32fast::Hasher::new_with_initial_len(filled.crc, filled.bytes);
        let span = place.board.layout().range(range);
        Work { place, range, span, done: filled.bytes, crc, differs: false }
    }

    pub(super) fn range(&self) -> usize {
        self.range
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn left(&self) -> u64 {
        self.span.bytes - self.done
    }

    pub(super) fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// What is still to come: the first byte in the segment, and one past the last.
    pub(super) fn rest(&self) -> (u64, u64) {
        (self.span.within + self.done, self.span.within + self.span.bytes)
    }

    /// Takes the next bytes of the range; there must not be more than [`Work::left`].
    pub(super) fn write(&mut self, chunk: &[u8]) -> Result<(), TransferError> {
        assert!(chunk.len() as u64 <= self.left(), "{} bytes for {}", chunk.len(), self.left());
        let offset = self.span.offset + self.done;
        let is_new = match self.place.sink {
            Sink::Fill => true,
            Sink::Compare => !self.is_same(chunk, offset)?,
        };
        if is_new && !chunk.is_empty() {
            let written = self.place.file.write_all_at(chunk, offset);
            written.map_err(|error| self.not_written(error))?;
            self.differs |= self.place.sink == Sink::Compare;
        }
        self.crc.update(chunk);
        self.done += chunk.len() as u64;
        self.report();
        Ok(())
    }

    /// Says what is there now. A range that is compared is there all the time, and changes as a whole.
    fn report(&self) {
        let is_due = match self.place.sink {
            Sink::Fill => true,
            Sink::Compare => self.differs && self.is_full(),
        };
        if is_due {
            let filled = Filled { bytes: self.done, crc: self.crc.clone().finalize() };
            self.place.board.fill(self.range, filled);
        }
        if self.place.sink == Sink::Compare && is_due {
            self.place.differing.set(self.place.differing.get() + 1);
        }
    }

    fn is_same(&self, chunk: &[u8], offset: u64) -> Result<bool, TransferError> {
        let mut there = vec![0; chunk.len()];
        let read = self.place.file.read_exact_at(&mut there, offset);
        read.map_err(TransferError::io("read", self.place.partial))?;
        Ok(there == chunk)
    }

    /// The error of a failed write: a full drive is said apart.
    fn not_written(&self, source: io::Error) -> TransferError {
        let partial = self.place.partial;
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let need = self.place.board.layout().total() - self.place.board.here();
            let path = partial.parent().unwrap_or(Path::new(".")).to_owned();
            let free = free_disk(&path).unwrap_or(0);
            return TransferError::DiskFull { path, need, free };
        }
        TransferError::io("write", partial)(source)
    }
}
