//! The range map: a journal beside a partial file that says which of its bytes are there and durable. Never reads the file.
//!
//! Text, one record a line, each behind a checksum of its own (CRC-32 in eight digits): a line that a crash tore ends what
//! is believed. The head says what the file will be (`map`, `segment`…); then follow `etag`, `modified`, `linked` (what the
//! source calls this state of a segment), `range INDEX BYTES CRC` (so many bytes of the range are there, from its first one on,
//! with that CRC-32; a later line of the same range counts) and `verified SHA256 MODIFIED CHANGED INODE` (the times and the
//! number of the file then).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use frank_os::open_regular;

use crate::digest::{Digest, Sha256};
use crate::stamp::Stamp;

use super::layout::Layout;
use super::state::{LastModified, State};

/// Version of the format.
const VERSION: u32 = 1;
/// Most bytes of a line: a URL and its digest fit.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Most segments of a file.
const SEGMENTS_MAX: usize = 10_000;

/// Where the map of a partial file is.
pub(super) fn map_path(partial: &Path) -> PathBuf {
    let mut path = OsString::from(partial);
    path.push(".ranges");
    PathBuf::from(path)
}

/// Whether a file of this name would be taken for the map of another.
pub(crate) fn is_map_name(name: &str) -> bool {
    name.ends_with(".ranges") || name.ends_with(".ranges.new")
}

/// How much of a range is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filled {
    /// Bytes from its first one on.
    pub(super) bytes: u64,
    /// CRC-32 of these bytes.
    pub(super) crc: u32,
}

/// What a source calls the state of a segment that is being brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Validator {
    /// That of the answers. Only what is strong enough to go on by is written down.
    pub(super) state: State,
    /// The `X-Linked-Etag` of the redirect.
    pub(super) linked: Option<String>,
}

/// One segment as the head of a map names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SavedSegment {
    pub(super) bytes: u64,
    pub(super) digest: Option<Digest>,
    /// The URL without what may hold a key.
    pub(super) url: String,
}

/// All that a map says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) segments: Vec<SavedSegment>,
    pub(super) layout: Layout,
    pub(super) validators: Vec<Validator>,
    /// One entry for each range of the layout.
    pub(super) filled: Vec<Filled>,
    /// Digest of the whole file, once that is complete, verified and durable, and by what it is known since then.
    pub(super) verified: Option<(Sha256, Stamp)>,
}

impl Saved {
    /// A file of which nothing is there. `None` when no file can be so large.
    pub(super) fn fresh(segments: Vec<SavedSegment>, range_bytes: u64) -> Option<Saved> {
        let sizes: Vec<u64> = segments.iter().map(|segment| segment.bytes).collect();
        let layout = Layout::new(&sizes, range_bytes)?;
        let validators = vec![Validator::default(); segments.len()];
        let filled = vec![Filled::default(); layout.n_ranges()];
        Some(Saved { segments, layout, validators, filled, verified: None })
    }

    /// Whether what is there is of these segments too, which then are its own. A file with the same digest is the same at
    /// another URL, as after a new commit of its repository; what the old one called its state means nothing there.
    pub(super) fn take_up(&mut self, wanted: &[SavedSegment]) -> bool {
        let is_same = |(old, new): (&SavedSegment, &SavedSegment)| {
            (old.bytes, old.digest) == (new.bytes, new.digest)
                && (new.digest.is_some() || old.url == new.url)
        };
        if self.segments.len() != wanted.len() || !self.segments.iter().zip(wanted).all(is_same) {
            return false;
        }
        for ((old, new), validator) in
            self.segments.iter_mut().zip(wanted).zip(&mut self.validators)
        {
            if old.url != new.url {
                old.url.clone_from(&new.url);
                *validator = Validator::default();
            }
        }
        true
    }

    /// Reads a map. `None` where there is none, or one whose head is of no use.
    pub(super) fn read(path: &Path) -> io::Result<Option<Saved>> {
        let file = match open_regular(path, OpenOptions::new().read(true)).map_err(io::Error::from)
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut lines = Lines { source: BufReader::new(file) };
        let Some(mut saved) = read_head(&mut lines)? else { return Ok(None) };
        while let Some(line) = lines.next()? {
            if saved.take(&line).is_none() {
                break;
            }
        }
        Ok(Some(saved))
    }

    /// Takes one record; `None` when it makes no sense.
    fn take(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "range" => {
                let mut fields = rest.split(' ');
                let index: usize = fields.next()?.parse().ok()?;
                let bytes = fields.next()?.parse().ok()?;
                let crc = u32::from_str_radix(fields.next()?, 16).ok()?;
                let filled = self.filled.get_mut(index)?;
                (bytes <= self.layout.range(index).bytes).then_some(())?;
                *filled = Filled { bytes, crc };
                self.verified = None;
            }
            "etag" | "modified" | "linked" => {
                let (index, text) = rest.split_once(' ')?;
                let validator = self.validators.get_mut(index.parse::<usize>().ok()?)?;
                match word {
                    "etag" => validator.state.etag = Some(text.to_owned()),
                    "linked" => validator.linked = Some(text.to_owned()),
                    _ => validator.state.modified = Some(LastModified::settled(text)?),
                }
            }
            "verified" => self.verified = read_verified(rest),
            _ => return None,
        }
        Some(())
    }

    /// Bytes that are there.
    pub(super) fn here(&self) -> u64 {
        self.filled.iter().map(|filled| filled.bytes).sum()
    }

    /// Bytes of the whole file.
    pub(super) fn total(&self) -> u64 {
        self.layout.total()
    }

    /// The whole map as it is written.
    fn text(&self) -> String {
        let mut text = String::new();
        let range_bytes = self.layout.range_bytes();
        push_line(&mut text, &format!("map {VERSION} {range_bytes} {}", self.segments.len()));
        for segment in &self.segments {
            let digest = segment.digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
            push_line(&mut text, &format!("segment {} {digest} {}", segment.bytes, segment.url));
        }
        for (index, validator) in self.validators.iter().enumerate() {
            push_validator(&mut text, index, validator);
        }
        for (index, filled) in self.filled.iter().enumerate().filter(|(_, filled)| filled.bytes > 0)
        {
            push_range(&mut text, index, *filled);
        }
        if let Some((sha256, stamp)) = self.verified {
            push_verified(&mut text, sha256, stamp);
        }
        text
    }
}

/// Reads the lines that say what the file will be.
fn read_head(lines: &mut Lines) -> io::Result<Option<Saved>> {
    let Some(first) = lines.next()? else { return Ok(None) };
    let Some((range_bytes, n_segments)) = read_first(&first) else { return Ok(None) };
    let mut segments = Vec::new();
    for _ in 0..n_segments {
        let Some(line) = lines.next()? else { return Ok(None) };
        let Some(segment) = read_segment(&line) else { return Ok(None) };
        segments.push(segment);
    }
    Ok(Saved::fresh(segments, range_bytes))
}

fn read_first(line: &str) -> Option<(u64, usize)> {
    let mut fields = line.strip_prefix("map ")?.split(' ');
    (fields.next()?.parse::<u32>().ok()? == VERSION).then_some(())?;
    let range_bytes = fields.next()?.parse().ok()?;
    let n_segments = fields.next()?.parse().ok().filter(|&n| n <= SEGMENTS_MAX)?;
    Some((range_bytes, n_segments))
}

fn read_segment(line: &str) -> Option<SavedSegment> {
    let mut fields = line.strip_prefix("segment ")?.splitn(3, ' ');
    let bytes = fields.next()?.parse().ok()?;
    let digest = match fields.next()? {
        "-" => None,
        hex => Some(hex.parse().ok()?),
    };
    Some(SavedSegment { bytes, digest, url: fields.next()?.to_owned() })
}

/// The records of a map, up to the first that is torn.
struct Lines {
    source: BufReader<File>,
}

impl Lines {
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        (&mut self.source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        Ok(checked(&line).map(str::to_owned))
    }
}

/// A line without its checksum and its end, when it is whole and the checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let text = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, record) = text.split_once(' ')?;
    let is_right =
        crc.len() == 8 && u32::from_str_radix(crc, 16) == Ok(crc32fast::hash(record.as_bytes()));
    is_right.then_some(record)
}

fn push_line(text: &mut String, record: &str) {
    // A line feed inside a record would make two of it.
    let record = record.replace(['\n', '\r'], " ");
    text.push_str(&format!("{:08x} {record}\n", crc32fast::hash(record.as_bytes())));
}

fn push_range(text: &mut String, index: usize, filled: Filled) {
    push_line(text, &format!("range {index} {} {:08x}", filled.bytes, filled.crc));
}

/// What is verified; `None` where the record does not say by what the file is known, so that it is hashed again.
fn read_verified(record: &str) -> Option<(Sha256, Stamp)> {
    let mut fields = record.split(' ');
    let sha256 = fields.next()?.parse().ok()?;
    let mut number = || fields.next()?.parse().ok();
    Some((sha256, Stamp { modified_ns: number()?, changed_ns: number()?, inode: number()? }))
}

fn push_verified(text: &mut String, sha256: Sha256, stamp: Stamp) {
    let Stamp { modified_ns, changed_ns, inode } = stamp;
    push_line(text, &format!("verified {sha256} {modified_ns} {changed_ns} {inode}"));
}

fn push_validator(text: &mut String, index: usize, validator: &Validator) {
    if let Some(etag) = &validator.state.etag {
        push_line(text, &format!("etag {index} {etag}"));
    }
    if let Some(modified) = validator.state.modified.as_ref().filter(|known| known.is_settled) {
        push_line(text, &format!("modified {index} {}", modified.text));
    }
    if let Some(linked) = &validator.linked {
        push_line(text, &format!("linked {index} {linked}"));
    }
}

/// A map that is being added to. The file it is of must be durable as far as a record says before that is added.
#[derive(Debug)]
pub(super) struct RangeMap {
    file: File,
}

impl RangeMap {
    /// Writes a map in one step, in place of the one at `path`, and opens it for more.
    pub(super) fn write(path: &Path, saved: &Saved) -> io::Result<RangeMap> {
        let mut next = OsString::from(path);
        next.push(".new");
        let next = PathBuf::from(next);
        let mut options = OpenOptions::new();
        let mut file = open_regular(&next, options.write(true).create(true).truncate(true))?;
        file.write_all(saved.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        // Makes the rename durable.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(RangeMap { file })
    }

    /// Adds what the source calls the state of some segments, and what is there of some ranges.
    pub(super) fn add(
        &mut self,
        validators: &[(usize, Validator)],
        ranges: &[(usize, Filled)],
    ) -> io::Result<()> {
        let mut text = String::new();
        for (segment, validator) in validators {
            push_validator(&mut text, *segment, validator);
        }
        for &(index, filled) in ranges {
            push_range(&mut text, index, filled);
        }
        self.append(&text)
    }

    /// Adds that the whole file is there, with this digest, and is the right one as long as it is known by `stamp`.
    pub(super) fn add_verified(&mut self, sha256: Sha256, stamp: Stamp) -> io::Result<()> {
        let mut text = String::new();
        push_verified(&mut text, sha256, stamp);
        self.append(&text)
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let digest = Some(Digest::Sha256(Sha256::of(b"x")));
        let segment = |bytes, digest| SavedSegment {
            bytes,
            digest,
            url: "https://hub.example/a b".to_owned(),
        };
        Saved::fresh(vec![segment(20, digest), segment(5, None)], 8).unwrap()
    }

    #[test]
    fn what_was_added_is_read_again_and_the_last_word_on_a_range_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = map_path(&dir.path().join("m.gguf"));
        let mut map = RangeMap::write(&path, &saved()).unwrap();
        let etag = State::of(Some("\"a b\""), Some("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        let etag = Validator { state: etag, linked: None };
        map.add(&[(1, etag.clone())], &[]).unwrap();
        let first = Filled { bytes: 3, crc: 7 };
        map.add(&[], &[(0, first), (2, Filled { bytes: 4, crc: u32::MAX })]).unwrap();
        map.add(&[], &[(0, Filled { bytes: 8, crc: 9 })]).unwrap();
        let read = Saved::read(&path).unwrap().unwrap();
        let mut expected = saved();
        expected.validators[1].state.etag = etag.state.etag;
        expected.filled[0] = Filled { bytes: 8, crc: 9 };
        expected.filled[2] = Filled { bytes: 4, crc: u32::MAX };
        assert_eq!(read, expected);
        assert_eq!((read.here(), read.total()), (12, 25));
        let verified = (Sha256::of(b"y"), Stamp { modified_ns: 1, changed_ns: 2, inode: -3 });
        map.add_verified(verified.0, verified.1).unwrap();
        expected.verified = Some(verified);
        assert_eq!(Saved::read(&path).unwrap().unwrap(), expected);
        // Written anew, it says the same in fewer lines.
        RangeMap::write(&path, &expected).unwrap();
        assert_eq!(Saved::read(&path).unwrap().unwrap(), expected);
    }

    #[test]
    fn a_map_cut_or_damaged_anywhere_says_a_beginning_of_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let mut map = RangeMap::write(&path, &saved()).unwrap();
        for index in 0..4 {
            map.add(&[], &[(index, Filled { bytes: 1, crc: 5 })]).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let Some(read) = Saved::read(&path).unwrap() else { return 0 };
            let here: Vec<u64> = read.filled.iter().map(|filled| filled.bytes).collect();
            assert!(here.is_sorted_by(|a, b| a >= b), "{here:?}");
            read.here()
        };
        let mut seen = Vec::new();
        for end in 0..=whole.len() {
            seen.push(check(&whole[..end]));
            let mut damaged = whole.clone();
            if let Some(byte) = damaged.get_mut(end) {
                *byte ^= 1;
                assert!(check(&damaged) < 4);
            }
        }
        seen.dedup();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_map_that_claims_what_cannot_be_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        for records in [
            &["map 2 8 0"][..],
            &["map 1 0 1", "segment 9 - u"],
            &["map 1 8 1", "segment 18446744073709551615 - u"],
            &["map 1 1 1", "segment 9999999999 - u"],
            &["map 1 8 99999999"],
            &["map 1 8 1", "segment 9 abc u"],
        ] {
            let mut text = String::new();
            records.iter().for_each(|record| push_line(&mut text, record));
            fs::write(&path, text).unwrap();
            assert_eq!(Saved::read(&path).unwrap(), None, "{records:?}");
        }
        for record in
            ["range 0 9 0", "range 4 1 0", "range 0 1 zz", "etag 7 x", "modified 0 x", "other 1"]
        {
            let mut text = saved().text();
            push_line(&mut text, record);
            push_line(&mut text, "range 1 1 0");
            fs::write(&path, text).unwrap();
            assert_eq!(Saved::read(&path).unwrap().unwrap().filled[1].bytes, 0, "{record}");
        }
    }
}
