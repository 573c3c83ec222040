//! The trash: what is no longer wanted waits in a folder of the day, with a note of what it was. Never deletes anything.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::durable;

/// What was thrown away: a payload's folder, or one file of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trashed {
    /// `<date>/<name>`: what [`super::Store::restore`] takes.
    pub id: String,
    /// Where it is now.
    pub path: PathBuf,
    /// Where it was; `None` when nothing says so any more.
    pub from: Option<PathBuf>,
    /// Why it was thrown away.
    pub reason: String,
    /// Bytes of its files.
    pub bytes: u64,
}

/// What lies beside a thing in the trash as `.<name>.toml`.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    from: PathBuf,
    reason: String,
    bytes: u64,
}

/// How a thing gets into the trash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is gone from where it was.
    Move,
    /// It stays where it was too, for the moment until something replaces it; moved where links are refused.
    Link,
}

/// Puts `from`, a file or a folder, into `trash/<date>/`; a number is added where its name is taken.
pub(super) fn discard(
    from: &Path,
    trash: &Path,
    reason: &str,
    way: Way,
    now: SystemTime,
) -> io::Result<Trashed> {
    let date = date(now);
    let folder = trash.join(&date);
    fs::create_dir_all(&folder)?;
    // Payloads share the trash: nobody else takes the name that is free now.
    let lock = File::open(&folder)?;
    lock.lock()?;
    let base = from.file_name().unwrap_or_default().to_string_lossy();
    let mut name = base.to_string();
    let mut n = 1;
    while folder.join(&name).symlink_metadata().is_ok() {
        name = format!("{base}.{n}");
        n += 1;
    }
    let target = folder.join(&name);
    let bytes = bytes_of(from)?;
    // The note comes first: without it nobody knows what the thing was, while alone it does no harm.
    let note = Note { from: from.to_owned(), reason: reason.to_owned(), bytes };
    let text = toml::to_string(&note).map_err(io::Error::other)?;
    durable::write(&folder, &note_name(&name), &text)?;
    match way {
        Way::Link if fs::hard_link(from, &target).is_ok() => {}
        _ => fs::rename(from, &target)?,
    }
    drop(lock);
    durable::sync_folder(&folder)?;
    let (id, from) = (format!("{date}/{name}"), Some(note.from));
    Ok(Trashed { id, path: target, from, reason: note.reason, bytes })
}

/// Everything in `trash`, in the order of dates and names.
pub(super) fn list(trash: &Path) -> io::Result<Vec<Trashed>> {
    let mut all = Vec::new();
    for date in names_in(trash)? {
        let folder = trash.join(&date);
        if folder.is_dir() {
            for name in names_in(&folder)? {
                all.push(read(&folder, &date, &name)?);
            }
        }
    }
    Ok(all)
}

/// The thing of this id; `None` when the trash has none.
pub(super) fn find(trash: &Path, id: &str) -> io::Result<Option<Trashed>> {
    let Some((date, name)) = id.split_once('/') else { return Ok(None) };
    let is_plain = |text: &str| {
        let mut components = Path::new(text).components();
        let plain = matches!(components.next(), Some(Component::Normal(_)));
        plain && components.next().is_none() && !text.starts_with('.')
    };
    let folder = trash.join(date);
    if !is_plain(date) || !is_plain(name) || folder.join(name).symlink_metadata().is_err() {
        return Ok(None);
    }
    read(&folder, date, name).map(Some)
}

/// Puts a thing back to where it was, where nothing may be, and forgets its note.
pub(super) fn restore(trashed: &Trashed, target: &Path) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(&trashed.path, target)?;
    let name = trashed.path.file_name().unwrap_or_default().to_string_lossy();
    // A note without its thing is overwritten by the next one of that name, so it does no harm.
    fs::remove_file(trashed.path.with_file_name(note_name(&name))).ok();
    target.parent().map_or(Ok(()), durable::sync_folder)
}

fn read(folder: &Path, date: &str, name: &str) -> io::Result<Trashed> {
    let text = durable::read(&folder.join(note_name(name)))?;
    let note: Option<Note> = text.and_then(|text| toml::from_str(&text).ok());
    let path = folder.join(name);
    let (from, reason, bytes) = match note {
        Some(note) => (Some(note.from), note.reason, note.bytes),
        None => (None, String::new(), bytes_of(&path)?),
    };
    Ok(Trashed { id: format!("{date}/{name}"), path, from, reason, bytes })
}

fn note_name(name: &str) -> String {
    format!(".{name}.toml")
}

/// The names in a folder that do not begin with a dot, sorted; none where there is no folder.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        // frank makes no name that is no text.
        names.extend(name.to_str().filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Bytes of a file, or of all files below a folder.
fn bytes_of(path: &Path) -> io::Result<u64> {
    let metadata = path.symlink_metadata()?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += bytes_of(&entry?.path())?;
    }
    Ok(bytes)
}

/// The UTC date as `YYYY-MM-DD`. A time before 1970 counts as 1970-01-01.
fn date(now: SystemTime) -> String {
    let days = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970-01-01 as (year, month, day) of the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year; 400 years have 146,097 days, and
/// 719,468 days lie between 0000-03-01 and 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_at_the_borders_of_months_and_leap_years() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (30, "1970-01-31"),
            (31, "1970-02-01"),
            (364, "1970-12-31"),
            (789, "1972-02-29"),
            (790, "1972-03-01"),
            (11_016, "2000-02-29"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(
                date(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 86_399)),
                expected,
                "{days}"
            );
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let trash = dir.path().join("trash");
        for expected in ["x.gguf", "x.gguf.1", "x.gguf.2"] {
            let file = dir.path().join("x.gguf");
            fs::write(&file, expected).unwrap();
            let trashed = discard(&file, &trash, "old", Way::Move, UNIX_EPOCH).unwrap();
            assert_eq!(trashed.path, trash.join("1970-01-01").join(expected));
            assert_eq!(fs::read_to_string(trashed.path).unwrap(), expected);
            assert!(!file.exists());
        }
        let all = list(&trash).unwrap();
        let ids: Vec<&str> = all.iter().map(|trashed| trashed.id.as_str()).collect();
        assert_eq!(ids, ["1970-01-01/x.gguf", "1970-01-01/x.gguf.1", "1970-01-01/x.gguf.2"]);
    }

    #[test]
    fn an_id_cannot_leave_the_trash() {
        let dir = tempfile::tempdir().unwrap();
        let trash = dir.path().join("trash");
        fs::create_dir_all(trash.join("1970-01-01")).unwrap();
        fs::write(dir.path().join("x"), "x").unwrap();
        for id in
            ["../x", "1970-01-01/../../x", "./1970-01-01", "1970-01-01", "", "/x", "1970-01-01/"]
        {
            assert!(find(&trash, id).unwrap().is_none(), "{id}");
        }
    }
}
