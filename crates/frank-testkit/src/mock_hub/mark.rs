//! How the mock hub marks the state of a file: by an ETag, by the time of its last change, or not at all. Never a byte of it.

use super::repository::StoredFile;

/// How a plain web server marks the state of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// By a strong `ETag`.
    Etag,
    /// By a `Last-Modified` that is older than the answer.
    Dated,
    /// By a `Last-Modified` of the very second of the answer, behind which another change may hide.
    Fresh,
    /// Not at all.
    Nothing,
}

/// Day of all last changes, and the time when answers are given.
const DAY: &str = "Wed, 21 Oct 2015";
const LATER: &str = "Thu, 22 Oct 2015 00:00:00 GMT";

impl Mark {
    const ALL: [Mark; 4] = [Mark::Etag, Mark::Dated, Mark::Fresh, Mark::Nothing];

    /// The word for it in an address.
    pub(super) fn word(self) -> &'static str {
        match self {
            Mark::Etag => "etag",
            Mark::Dated => "dated",
            Mark::Fresh => "fresh",
            Mark::Nothing => "nothing",
        }
    }

    pub(super) fn called(word: &str) -> Option<Mark> {
        Mark::ALL.into_iter().find(|mark| mark.word() == word)
    }
}

/// The headers that mark the state of a file.
#[derive(Debug, Default)]
pub(super) struct Marks {
    etag: Option<String>,
    modified: Option<String>,
    date: Option<String>,
}

impl Marks {
    pub(super) fn etag(etag: &str) -> Marks {
        Marks { etag: Some(format!("\"{etag}\"")), ..Marks::default() }
    }

    pub(super) fn of(file: &StoredFile, mark: Mark) -> Marks {
        let modified = Some(modified(file));
        match mark {
            Mark::Etag => Marks::etag(&file.storage_etag()),
            Mark::Dated => Marks { etag: None, modified, date: Some(LATER.to_owned()) },
            Mark::Fresh => Marks { etag: None, date: modified.clone(), modified },
            Mark::Nothing => Marks::default(),
        }
    }

    /// Whether `meant`, of an `If-Range`, is this state.
    pub(super) fn are(&self, meant: &str) -> bool {
        [&self.etag, &self.modified].into_iter().flatten().any(|mark| mark == meant)
    }

    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let all = [("etag", &self.etag), ("last-modified", &self.modified), ("date", &self.date)];
        let header =
            |(name, value): (&str, &Option<String>)| Some((name.to_owned(), value.clone()?));
        all.into_iter().filter_map(header).collect()
    }
}

/// A time that is another one for other bytes.
fn modified(file: &StoredFile) -> String {
    let digits = &file.object_name()[..8];
    let second = u32::from_str_radix(digits, 16).expect("a name is of such digits") % 86_400;
    format!("{DAY} {:02}:{:02}:{:02} GMT", second / 3600, second / 60 % 60, second % 60)
}
