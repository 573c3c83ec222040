//! Sending bytes of a file, well or with a fault. Never decides which.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpStream;
use std::thread;

use super::content::{CHUNK_BYTES, Content};
use super::fault::Fault;
use super::files::Part;
use super::record::{Meter, Record};
use super::shelf::Shelf;

/// How many bytes of a file on a disk the kernel is told to send at a time.
const FILE_CHUNK_BYTES: u64 = 1 << 20;

/// Sends the body of an answer over a connection.
pub(super) struct Sender<'a> {
    pub(super) stream: &'a mut TcpStream,
    pub(super) meter: &'a Meter,
    pub(super) shelf: &'a Shelf,
    pub(super) record: &'a Record,
    /// Which request of the record is answered.
    pub(super) number: usize,
}

impl Sender<'_> {
    /// Sends the bytes, and says whether the connection is good for another request.
    /// # Errors
    /// The client is gone.
    pub(super) fn send(&mut self, part: &Part) -> io::Result<bool> {
        match &part.fault {
            Some(Fault::Cut(bytes)) => {
                self.send_up_to(part, part.begin.saturating_add(*bytes))?;
                Ok(false)
            }
            Some(Fault::Stall(bytes)) => {
                self.send_up_to(part, part.begin.saturating_add(*bytes))?;
                // Ends when the client hangs up, or the hub does.
                self.stream.read(&mut [0]).map(|_| false)
            }
            Some(Fault::Slow { bytes, pause }) => {
                let step = (*bytes).clamp(1, CHUNK_BYTES) as u64;
                let mut end = part.begin;
                while end < part.end {
                    thread::sleep(*pause);
                    let begin = end;
                    end = end.saturating_add(step).min(part.end);
                    self.send_range(part, begin, end)?;
                }
                Ok(true)
            }
            // The end of the connection is the end of the body.
            Some(Fault::NoLength) => self.send_up_to(part, part.end).map(|()| false),
            _ => self.send_up_to(part, part.end).map(|()| true),
        }
    }

    fn send_up_to(&mut self, part: &Part, end: u64) -> io::Result<()> {
        self.send_range(part, part.begin, end.min(part.end))
    }

    fn send_range(&mut self, part: &Part, begin: u64, end: u64) -> io::Result<()> {
        let flips =
            if let Some(Fault::Flip(offsets)) = &part.fault { offsets.as_slice() } else { &[] };
        match &part.content {
            Content::File { path, .. } if flips.is_empty() => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(begin))?;
                self.each_piece(begin, end, FILE_CHUNK_BYTES, |stream, _, bytes| {
                    let sent = io::copy(&mut (&file).take(bytes), stream)?;
                    if sent == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
                })
            }
            content => {
                let mut chunk = vec![0; CHUNK_BYTES];
                self.each_piece(begin, end, CHUNK_BYTES as u64, |stream, offset, bytes| {
                    let chunk = &mut chunk[..usize::try_from(bytes).expect("a piece is small")];
                    content.read_at(offset, chunk);
                    flip(chunk, offset, flips);
                    stream.write_all(chunk)
                })
            }
        }
    }

    /// Sends pieces of at most `most` bytes, each after it was counted.
    fn each_piece(
        &mut self,
        begin: u64,
        end: u64,
        most: u64,
        mut send: impl FnMut(&mut TcpStream, u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut offset = begin;
        while offset < end {
            let bytes = self.meter.grant((end - offset).min(most), self.shelf);
            self.record.change(self.number, |request| {
                let first = if request.sent.is_empty() { offset } else { request.sent.start };
                request.sent = first..offset + bytes;
            });
            send(self.stream, offset, bytes)?;
            offset += bytes;
        }
        // Whoever waits for exactly this number need not wait for another request.
        self.meter.grant(0, self.shelf);
        Ok(())
    }
}

/// Makes the bytes of `chunk`, which begins at `offset` of the file, wrong where `flips` says.
fn flip(chunk: &mut [u8], offset: u64, flips: &[u64]) {
    for at in flips {
        let at = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
        if let Some(byte) = at.and_then(|at| chunk.get_mut(at)) {
            *byte = !*byte;
        }
    }
}
