//! Dates for templates: `strftime` over a time that the caller gives. Never asks a clock.

/// A time of day and date in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UtcTime {
    /// Days since 1970-01-01, a Thursday.
    days: i64,
    /// Seconds of the day.
    seconds: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

impl UtcTime {
    /// `seconds` since 1970.
    pub(super) fn from_unix(seconds: u64) -> Self {
        // Clamped at the year 9999, far beyond any clock that works.
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).min(253_402_300_799);
        Self { days: seconds / 86_400, seconds: seconds % 86_400 }
    }

    /// Year, month from 1, and day from 1 of the proleptic Gregorian calendar.
    ///
    /// Years are counted from March, so that the leap day is their last.
    fn date(self) -> (i64, usize, i64) {
        let since_march_of_year_0 = self.days + 719_468;
        let era = since_march_of_year_0.div_euclid(DAYS_PER_ERA);
        let day_of_era = since_march_of_year_0.rem_euclid(DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let months_since_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
        let month =
            if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (year, usize::try_from(month).expect("months are from 1 to 12"), day)
    }

    /// The time as `format` says; `Err` holds the first code that is not known.
    pub(super) fn strftime(self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let mut code = chars.next();
            // The C library of Linux takes a dash for "without padding".
            let is_bare = code == Some('-');
            if is_bare {
                code = chars.next();
            }
            let field = code.and_then(|code| self.field(code)).ok_or_else(|| {
                let dash = if is_bare { "-" } else { "" };
                format!("%{dash}{}", code.map_or(String::new(), String::from))
            })?;
            let bare = field.trim_start_matches(['0', ' ']);
            match (is_bare, bare.is_empty()) {
                (true, false) => text.push_str(bare),
                (true, true) => text.push('0'),
                (false, _) => text.push_str(&field),
            }
        }
        Ok(text)
    }

    fn field(self, code: char) -> Option<String> {
        let (hour, minute, second) =
            (self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60);
        let whole = |format: &str| self.strftime(format).ok();
        Some(match code {
            'H' => format!("{hour:02}"),
            'k' => format!("{hour:2}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'l' => format!("{:2}", (hour + 11) % 12 + 1),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'f' => "000000".to_owned(),
            's' => (self.days * 86_400 + self.seconds).to_string(),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            'F' => return whole("%Y-%m-%d"),
            'T' | 'X' => return whole("%H:%M:%S"),
            'R' => return whole("%H:%M"),
            'D' | 'x' => return whole("%m/%d/%y"),
            'c' => return whole("%a %b %e %H:%M:%S %Y"),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return self.date_field(code),
        })
    }

    fn date_field(self, code: char) -> Option<String> {
        let (year, month, day) = self.date();
        let weekday = (self.days + 4).rem_euclid(7);
        let name = WEEKDAYS[usize::try_from(weekday).expect("a week has seven days")];
        let month_name = MONTHS[month - 1];
        Some(match code {
            'Y' => year.to_string(),
            'C' => format!("{:02}", year / 100),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'd' => format!("{day:02}"),
            'e' => format!("{day:2}"),
            'j' => format!("{:03}", self.day_of_year() + 1),
            // Weeks of the year, from its first Sunday or Monday.
            'U' => format!("{:02}", (self.day_of_year() + 7 - weekday) / 7),
            'W' => format!("{:02}", (self.day_of_year() + 7 - (weekday + 6) % 7) / 7),
            'A' => name.to_owned(),
            'a' => name[..3].to_owned(),
            'w' => weekday.to_string(),
            'u' => ((weekday + 6) % 7 + 1).to_string(),
            _ => return None,
        })
    }

    /// Days since the first of January.
    fn day_of_year(self) -> i64 {
        let year = self.date().0;
        (1..=366).take_while(|n| Self { days: self.days - n, ..self }.date().0 == year).count()
            as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, expected: &str) {
        let text = UtcTime::from_unix(seconds).strftime("%Y-%m-%d %H:%M:%S %A").unwrap();
        assert_eq!(text, expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        check(0, "1970-01-01 00:00:00 Thursday");
        check(951_782_399, "2000-02-28 23:59:59 Monday");
        check(951_782_400, "2000-02-29 00:00:00 Tuesday");
        check(951_868_800, "2000-03-01 00:00:00 Wednesday");
        check(1_700_000_000, "2023-11-14 22:13:20 Tuesday");
        check(4_107_542_400, "2100-03-01 00:00:00 Monday");
        check(u64::MAX, "9999-12-31 23:59:59 Friday");
    }

    #[test]
    fn formats_are_those_that_templates_use() {
        let time = UtcTime::from_unix(1_700_000_000);
        assert_eq!(
            time.strftime("%d %b %Y, %B %e, %a %I:%M %p, %y 100%%").unwrap(),
            "14 Nov 2023, November 14, Tue 10:13 PM, 23 100%"
        );
        assert_eq!(
            UtcTime::from_unix(0).strftime("%I %p %F %T").unwrap(),
            "12 AM 1970-01-01 00:00:00"
        );
        assert_eq!(
            UtcTime::from_unix(1_704_412_800)
                .strftime("%-d/%-m/%y %j %U %W %w %u %-M %k|%l %R %c")
                .unwrap(),
            "5/1/24 005 00 01 5 5 0  0|12 00:00 Fri Jan  5 00:00:00 2024"
        );
        assert_eq!(time.strftime("%Q"), Err("%Q".to_owned()));
        assert_eq!(time.strftime("%-Q"), Err("%-Q".to_owned()));
        assert_eq!(time.strftime("%"), Err("%".to_owned()));
    }
}
