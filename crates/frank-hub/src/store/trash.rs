//! The trash: what is no longer wanted waits in a folder of the day, with a note of what it was. Never deletes anything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::durable::{self, is_refusal};

/// Name of a trash that has no place beside the folder that it is for.
const INSIDE: &str = ".trash";

/// What was thrown away: a payload's folder, or one file of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trashed {
    /// `<date>/<name>`: what [`super::Store::restore`] takes.
    pub id: String,
    /// Where it is now.
    pub path: PathBuf,
    /// Where it was, in the store as it is now; `None` when nothing says so any more.
    pub from: Option<PathBuf>,
    /// Why it was thrown away.
    pub reason: String,
    /// Bytes of its files.
    pub bytes: u64,
}

/// What lies beside a thing in the trash as `.<name>.toml`.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Relative to the folder of all payloads; absolute in notes of older versions.
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

/// The trash of a store. Nothing is copied into it, so it lies in as many places as the store has drives: beside `models`,
/// beside what `models` leads to, inside of that, and inside payloads that lie elsewhere through links of their own.
#[derive(Debug)]
pub(super) struct Trash {
    models: PathBuf,
    /// Those that are there, and those that may be made, the best first.
    folders: Vec<PathBuf>,
}

impl Trash {
    /// The trash of the store whose payloads lie in `models`.
    pub(super) fn of(models: &Path) -> Trash {
        let mut folders = vec![models.with_file_name("trash")];
        if let Ok(real) = models.canonicalize() {
            folders.extend([real.with_file_name("trash"), real.join(INSIDE)]);
        }
        for payload in names_in(models).unwrap_or_default() {
            let inside = models.join(payload).join(INSIDE);
            folders.extend(Some(inside).filter(|inside| inside.is_dir()));
        }
        let mut trash = Trash { models: models.to_owned(), folders: Vec::new() };
        for folder in folders {
            if !trash.folders.contains(&folder) {
                trash.folders.push(folder);
            }
        }
        trash
    }

    /// Where `from` may go without being copied, the best place first.
    fn folders_for(&self, from: &Path) -> Vec<PathBuf> {
        let parent = from.parent().unwrap_or(Path::new("/"));
        let inside = Some(parent.join(INSIDE)).filter(|_| parent != self.models);
        let all = self.folders.iter().cloned().chain(inside);
        let drive = drive_of(parent);
        all.filter(|folder| drive_of(folder) == drive).collect()
    }

    /// The path in the store as it is now that a note calls `from`. One that is not in the store is left as it is.
    fn origin(&self, from: PathBuf) -> PathBuf {
        let inside = match from.strip_prefix(&self.models) {
            _ if from.is_relative() => Some(from.as_path()),
            Ok(inside) => Some(inside),
            Err(_) => inside_old_store(&from, &self.models),
        };
        match inside.filter(|inside| is_inside(inside)) {
            Some(inside) => self.models.join(inside),
            None => from,
        }
    }
}

/// Whether `path` leads from the folder of all payloads to one of them, or to a file of one.
pub(super) fn is_inside(path: &Path) -> bool {
    let is_name = |component: Component<'_>| match component {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    (1..=2).contains(&path.components().count()) && path.components().all(is_name)
}

/// What a path of the store had behind `models` when the store was elsewhere.
fn inside_old_store<'a>(path: &'a Path, models: &Path) -> Option<&'a Path> {
    let is_models = |folder: &&Path| folder.file_name() == models.file_name();
    // A payload or a file of one: `models` is one or two steps up.
    let old = path.ancestors().skip(1).take(2).find(is_models)?;
    path.strip_prefix(old).ok()
}

/// Number of the drive that `path` is on, or would be on if it were made.
fn drive_of(path: &Path) -> Option<u64> {
    let mut there = path.ancestors().filter_map(|path| fs::metadata(path).ok());
    there.next().map(|metadata| metadata.dev())
}

/// Puts `from`, a file or a folder of the store, into `<date>/` of the trash on its drive; a number is added where its name
/// is taken. `from` of what comes back is `None` when the drive was too full to note it.
pub(super) fn discard(
    from: &Path,
    trash: &Trash,
    reason: &str,
    way: Way,
    now: SystemTime,
) -> io::Result<Trashed> {
    let inside = from.strip_prefix(&trash.models).unwrap_or(from);
    let note = Note { from: inside.to_owned(), reason: reason.to_owned(), bytes: bytes_of(from) };
    let date = date(now);
    let mut refused = io::Error::from(io::ErrorKind::CrossesDevices);
    for folder in trash.folders_for(from) {
        match discard_into(&folder, from, trash, &note, way, &date) {
            // The same drive twice, mounted apart, or a place that is not this user's.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices || is_refusal(&error) => {
                refused = error;
            }
            discarded => return discarded,
        }
    }
    Err(refused)
}

fn discard_into(
    trash_folder: &Path,
    from: &Path,
    trash: &Trash,
    note: &Note,
    way: Way,
    date: &str,
) -> io::Result<Trashed> {
    let folder = trash_folder.join(date);
    make_folder(&folder)?;
    // Payloads share the trash: nobody else takes the name that is free now.
    let lock = File::open(&folder)?;
    lock.lock()?;
    let name = free_name(trash, date, &from.file_name().unwrap_or_default().to_string_lossy());
    let target = folder.join(&name);
    // The note comes first: without it nobody knows what the thing was, while alone it does no harm.
    let is_noted = write_note(&folder, &name, note)?;
    let put = match way {
        Way::Link if fs::hard_link(from, &target).is_ok() => Ok(()),
        _ => fs::rename(from, &target),
    };
    if let Err(error) = put {
        forget_note(&folder, &name);
        return Err(error);
    }
    drop(lock);
    durable::sync_folder(&folder)?;
    Ok(Trashed {
        id: format!("{date}/{name}"),
        path: target,
        from: is_noted.then(|| from.to_owned()),
        reason: note.reason.clone(),
        bytes: note.bytes,
    })
}

/// Makes a folder of the trash. What stands in its place is said by its path: the error of the system tells neither.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|error| obstacle(folder).unwrap_or(error))
}

/// What stands in the place of `folder` or of one above it, where that is no folder.
fn obstacle(folder: &Path) -> Option<io::Error> {
    let mut above = folder.ancestors().filter_map(|path| Some((path, fs::metadata(path).ok()?)));
    let (path, there) = above.next().filter(|(_, there)| !there.is_dir())?;
    let kind = match there.file_type() {
        kind if kind.is_file() => "file",
        kind if kind.is_fifo() => "pipe",
        kind if kind.is_socket() => "socket",
        _ => "device",
    };
    let told = format!("{} is a {kind}, not a folder", path.display());
    Some(io::Error::new(io::ErrorKind::NotADirectory, told))
}

/// `base`, with a number where the trash has that already on this day.
fn free_name(trash: &Trash, date: &str, base: &str) -> String {
    let is_taken = |name: &str| {
        let mut places = trash.folders.iter().map(|folder| folder.join(date).join(name));
        places.any(|place| place.symlink_metadata().is_ok())
    };
    let mut name = base.to_owned();
    let mut n = 1;
    while is_taken(&name) {
        name = format!("{base}.{n}");
        n += 1;
    }
    name
}

/// Notes what `name` is. A full drive has no room for the reason; a link, which takes none, still says where it was. False
/// when not even that can be noted, which keeps nothing from the trash.
fn write_note(folder: &Path, name: &str, note: &Note) -> io::Result<bool> {
    forget_note(folder, name);
    let text = toml::to_string(note).map_err(io::Error::other)?;
    match durable::write(folder, &note_name(name), &text) {
        Ok(()) => Ok(true),
        Err(error) if has_no_room(&error) => {
            Ok(symlink(&note.from, folder.join(origin_name(name))).is_ok())
        }
        Err(error) => Err(error),
    }
}

fn has_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Everything in the trash, in the order of dates and names.
pub(super) fn list(trash: &Trash) -> Result<Vec<Trashed>, StoreError> {
    let names = |folder: &Path| names_in(folder).map_err(StoreError::io("read", folder));
    let mut all = BTreeMap::new();
    // The place that is looked into first by `find` is the one that is shown.
    for trash_folder in trash.folders.iter().rev() {
        for date in names(trash_folder)? {
            let folder = trash_folder.join(&date);
            if folder.is_dir() {
                for name in names(&folder)? {
                    let trashed = read(trash, &folder, &date, &name);
                    all.insert((date.clone(), name), trashed);
                }
            }
        }
    }
    Ok(all.into_values().collect())
}

/// The thing of this id; `None` when the trash has none.
pub(super) fn find(trash: &Trash, id: &str) -> Option<Trashed> {
    let (date, name) = id.split_once('/')?;
    let is_plain = |text: &str| {
        let mut components = Path::new(text).components();
        let plain = matches!(components.next(), Some(Component::Normal(_)));
        plain && components.next().is_none() && !text.starts_with('.')
    };
    if !is_plain(date) || !is_plain(name) {
        return None;
    }
    let mut folders = trash.folders.iter().map(|folder| folder.join(date));
    let folder = folders.find(|folder| folder.join(name).symlink_metadata().is_ok())?;
    Some(read(trash, &folder, date, name))
}

/// Puts a thing back to where it was, where nothing may be, and forgets its note.
pub(super) fn restore(trashed: &Trashed, target: &Path) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(&trashed.path, target)?;
    let name = trashed.path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(folder) = trashed.path.parent() {
        forget_note(folder, &name);
    }
    target.parent().map_or(Ok(()), durable::sync_folder)
}

fn read(trash: &Trash, folder: &Path, date: &str, name: &str) -> Trashed {
    // A note that cannot be read hides nothing of what lies there.
    let text = durable::read(&folder.join(note_name(name))).ok().flatten();
    let note: Option<Note> = text.and_then(|text| toml::from_str(&text).ok());
    let path = folder.join(name);
    let (from, reason, bytes) = match note {
        Some(note) => (Some(note.from), note.reason, note.bytes),
        None => {
            let from = fs::read_link(folder.join(origin_name(name))).ok();
            (from, String::new(), bytes_of(&path))
        }
    };
    let from = from.map(|from| trash.origin(from));
    Trashed { id: format!("{date}/{name}"), path, from, reason, bytes }
}

fn note_name(name: &str) -> String {
    format!(".{name}.toml")
}

/// Name of the link that says where a thing was when there was no room for a note.
fn origin_name(name: &str) -> String {
    format!(".{name}.from")
}

/// Removes what is noted of `name`. What stays is of no thing, and the next one of that name has its own.
fn forget_note(folder: &Path, name: &str) {
    for note in [note_name(name), origin_name(name)] {
        fs::remove_file(folder.join(note)).ok();
    }
}

/// The names in a folder that do not begin with a dot, sorted; none where there is no folder.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(obstacle(folder).unwrap_or(error)),
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

/// Bytes of a file, or of all files below a folder, as far as they can be seen.
fn bytes_of(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| bytes_of(&entry.path())).sum()
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

    /// A trash of a folder `models`, in which there is a payload `x`.
    fn trash() -> (tempfile::TempDir, Trash) {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        fs::create_dir_all(models.join("x")).unwrap();
        let trash = Trash::of(&models);
        (dir, trash)
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let (dir, trash) = trash();
        for expected in ["x.gguf", "x.gguf.1", "x.gguf.2"] {
            let file = dir.path().join("models/x/x.gguf");
            fs::write(&file, expected).unwrap();
            let trashed = discard(&file, &trash, "old", Way::Move, UNIX_EPOCH).unwrap();
            assert_eq!(trashed.path, dir.path().join("trash/1970-01-01").join(expected));
            assert_eq!(fs::read_to_string(trashed.path).unwrap(), expected);
            assert!(!file.exists());
        }
        let all = list(&trash).unwrap();
        let ids: Vec<&str> = all.iter().map(|trashed| trashed.id.as_str()).collect();
        assert_eq!(ids, ["1970-01-01/x.gguf", "1970-01-01/x.gguf.1", "1970-01-01/x.gguf.2"]);
    }

    #[test]
    fn an_id_cannot_leave_the_trash() {
        let (dir, trash) = trash();
        fs::create_dir_all(dir.path().join("trash/1970-01-01")).unwrap();
        fs::write(dir.path().join("x"), "x").unwrap();
        for id in
            ["../x", "1970-01-01/../../x", "./1970-01-01", "1970-01-01", "", "/x", "1970-01-01/"]
        {
            assert!(find(&trash, id).is_none(), "{id}");
        }
    }

    #[test]
    fn an_origin_is_found_again_wherever_the_store_is_and_never_outside_of_it() {
        let trash = Trash { models: PathBuf::from("/new/models"), folders: Vec::new() };
        let check = |from: &str, expected: &str| {
            assert_eq!(trash.origin(PathBuf::from(from)), Path::new(expected), "{from}");
        };
        check("x", "/new/models/x");
        check("x/y.gguf", "/new/models/x/y.gguf");
        check("/new/models/x", "/new/models/x");
        check("/old/home/models/x", "/new/models/x");
        check("/old/models/models/x", "/new/models/x");
        for outside in [
            "../x",
            "x/../../y",
            ".locks/x",
            "x/.partial",
            "x/y/z",
            "/etc/passwd",
            "",
            "/",
            "/old/models",
            "/old/models/..",
            "/old/models/x/../y",
            "/old/models/x/y/z",
        ] {
            check(outside, outside);
        }
    }
}
