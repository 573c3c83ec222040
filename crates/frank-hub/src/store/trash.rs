//! The trash: files that are no longer wanted wait in a folder of the day. Never deletes anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Moves `file` into `trash/<date>/` and returns where it is now; a number is added where the name is taken.
pub(crate) fn discard(file: &Path, trash: &Path, now: SystemTime) -> io::Result<PathBuf> {
    let folder = trash.join(date(now));
    fs::create_dir_all(&folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut target = folder.join(&*name);
    let mut n = 1;
    while target.symlink_metadata().is_ok() {
        target = folder.join(format!("{name}.{n}"));
        n += 1;
    }
    fs::rename(file, &target)?;
    Ok(target)
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
            let target = discard(&file, &trash, UNIX_EPOCH).unwrap();
            assert_eq!(target, trash.join("1970-01-01").join(expected));
            assert_eq!(fs::read_to_string(target).unwrap(), expected);
            assert!(!file.exists());
        }
    }
}
