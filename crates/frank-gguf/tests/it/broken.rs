//! The generated broken files: each is refused by the name of what is wrong, within memory that its size justifies.

use frank_gguf::{Header, ModelHeader};
use frank_testkit::broken::{self, Refused};

use crate::mutation::check_memory;
use crate::read;

/// Characters of an error text at most: it is one line of a terminal, and a file may hold names of any length.
const ERROR_CHARS_MAX: usize = 1000;

/// What a loader says of a file by itself, or `None` when it takes it.
fn refusal(bytes: &[u8]) -> Option<String> {
    let file_bytes = bytes.len() as u64;
    let merged = read(bytes).and_then(|header| {
        header.split()?;
        ModelHeader::merge(vec![(header, file_bytes)])
    });
    merged.err().map(|error| error.to_string())
}

fn check(name: &str, bytes: &[u8], names: &[String]) {
    check_memory(bytes);
    let refusal = refusal(bytes);
    if !names.is_empty() {
        let error = refusal.as_ref().unwrap_or_else(|| panic!("{name}: it was read"));
        assert!(names.iter().any(|it| error.contains(it)), "{name}: {error}\nnot: {names:?}");
    }
    if let Some(error) = refusal {
        let n_chars = error.chars().count();
        assert!((1..=ERROR_CHARS_MAX).contains(&n_chars), "{name}: {n_chars} characters");
        assert!(!error.contains(char::is_control), "{name}: {error:?}");
    }
}

#[test]
fn the_files_that_were_broken_are_read_whole() {
    for file in [broken::all_types(), broken::valid()] {
        assert_eq!(refusal(&file), None);
    }
}

#[test]
fn every_kind_of_broken_header_is_refused_by_name_within_a_small_multiple_of_its_size() {
    for kind in broken::headers() {
        let names = match kind.refused {
            // The files beside this one are looked for by whoever opens files.
            Refused::Parts | Refused::OtherParts => &[],
            _ => &kind.names[..],
        };
        check(&kind.name, &kind.bytes, names);
    }
}

#[test]
fn what_is_only_seen_by_its_readers_is_no_fault_of_the_header() {
    for kind in broken::headers().into_iter().chain(broken::models()) {
        let header = Header::read(&mut &kind.bytes[..], kind.bytes.len() as u64);
        assert_eq!(header.is_err(), kind.refused == Refused::Header, "{}", kind.name);
        let whole = read(&kind.bytes);
        let is_seen = matches!(kind.refused, Refused::Header | Refused::Data);
        assert_eq!(whole.is_err(), is_seen, "{}: {whole:?}", kind.name);
    }
}

#[test]
fn every_number_of_a_header_at_its_limits_is_read_or_refused_by_its_place() {
    let limits = broken::limits();
    assert!(limits.len() > 1000, "{} files", limits.len());
    for limit in limits {
        check(&limit.name, &limit.bytes, &limit.names);
    }
}
