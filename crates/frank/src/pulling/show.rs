//! How far a pull is: bars on a terminal, a line now and then elsewhere. Never on stdout.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use frank_hub::store::{Done, Note, PullEvent, Step};
use frank_plan::Size;
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{printable, tell};

/// Without a terminal there is a line for every tenth, and at least this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// What is said, at first and now and then, while another process has the payload.
const WAITING: &str = "wait: another frank is pulling the same payload";

/// Digits of a commit that are shown.
const COMMIT_SHOWN: usize = 12;

/// What is shown of the step that runs.
#[derive(Default)]
pub(crate) struct Show {
    current: RefCell<Option<Current>>,
}

/// One file in one step.
struct Current {
    step: Step,
    file: String,
    /// On a terminal.
    bar: Option<ProgressBar>,
    pace: Pace,
}

/// When there is something to say, and how fast it goes.
struct Pace {
    /// Bytes that were there when it began.
    begun_at: u64,
    begun: Instant,
    tenth: u64,
    told: Instant,
}

impl Show {
    /// Shows one event.
    pub(crate) fn event(&self, event: &PullEvent<'_>) {
        match event {
            PullEvent::Progress { step, file, bytes, total } => {
                self.progress(*step, file, *bytes, *total);
            }
            PullEvent::Done(done) => {
                self.end();
                self.line(&done_line(done));
            }
            PullEvent::Note(note) => self.line(&note_line(note)),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if let Some(bar) = self.current.take().and_then(|current| current.bar) {
            bar.finish_and_clear();
        }
    }

    /// Shows how far `step` is with `file`.
    pub(crate) fn progress(&self, step: Step, file: &str, bytes: u64, total: Option<u64>) {
        let is_other = |current: &Current| current.step != step || current.file != file;
        if self.current.borrow().as_ref().is_none_or(is_other) {
            self.end();
            self.current.replace(Some(Current::new(step, file, bytes, total)));
            if step == Step::Wait {
                self.line(WAITING);
            }
        }
        if let Some(current) = &mut *self.current.borrow_mut() {
            current.show(bytes, total);
        }
    }

    fn line(&self, text: &str) {
        match self.current.borrow().as_ref().and_then(|current| current.bar.as_ref()) {
            Some(bar) => bar.suspend(|| tell(&printable(text))),
            None => tell(&printable(text)),
        }
    }
}

impl Current {
    fn new(step: Step, file: &str, bytes: u64, total: Option<u64>) -> Self {
        let is_shown =
            std::io::stderr().is_terminal() && !matches!(step, Step::Wait | Step::Finalize);
        let bar = is_shown.then(|| new_bar(step, file, bytes, total));
        Self { step, file: file.to_owned(), bar, pace: Pace::new(bytes, total, Instant::now()) }
    }

    fn show(&mut self, bytes: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(bytes);
            return;
        }
        let now = Instant::now();
        if self.pace.is_due(bytes, total, now) {
            tell(&printable(&self.told(bytes, total, now)));
        }
    }

    /// How far it is, in a line; while another process has the payload there is nothing to count.
    fn told(&self, bytes: u64, total: Option<u64>, now: Instant) -> String {
        match self.step {
            Step::Wait => WAITING.to_owned(),
            step => format!("{step}: {}, {}", self.file, self.pace.told(bytes, total, now)),
        }
    }
}

impl Pace {
    fn new(bytes: u64, total: Option<u64>, now: Instant) -> Self {
        let tenth = tenth(bytes, total).unwrap_or(0);
        Self { begun_at: bytes, begun: now, tenth, told: now }
    }

    /// Whether a line is due; the last one is not, as the end has a line of its own.
    fn is_due(&mut self, bytes: u64, total: Option<u64>, now: Instant) -> bool {
        if total.is_some_and(|total| bytes >= total) {
            return false;
        }
        let tenth = tenth(bytes, total).unwrap_or(0);
        let is_due = tenth > self.tenth || now.saturating_duration_since(self.told) >= LINE_EVERY;
        if is_due {
            (self.tenth, self.told) = (tenth, now);
        }
        is_due
    }

    /// How far it is, how fast, and how long it will take.
    fn told(&self, bytes: u64, total: Option<u64>, now: Instant) -> String {
        let took = now.saturating_duration_since(self.begun).as_millis().max(1);
        let came = u128::from(bytes.saturating_sub(self.begun_at));
        let per_second = u64::try_from(came * 1000 / took).unwrap_or(u64::MAX);
        let rate = format!("{}/s", Size(per_second));
        let Some(total) = total.filter(|&total| total > 0) else {
            return format!("{}, {rate}", Size(bytes));
        };
        let percent = u128::from(bytes) * 100 / u128::from(total);
        let left = match total.saturating_sub(bytes).checked_div(per_second) {
            Some(seconds) => format!(", {} left", duration(seconds)),
            None => String::new(),
        };
        format!("{percent} %, {} of {}, {rate}{left}", Size(bytes), Size(total))
    }
}

fn tenth(bytes: u64, total: Option<u64>) -> Option<u64> {
    let total = total.filter(|&total| total > 0)?;
    u64::try_from(u128::from(bytes) * 10 / u128::from(total)).ok()
}

/// Seconds as a person says them.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn new_bar(step: Step, file: &str, bytes: u64, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => {
            "{prefix} {msg} {wide_bar} {bytes:>11} of {total_bytes} {bytes_per_sec} {eta} left"
        }
        None => "{prefix} {msg} {spinner} {bytes} {bytes_per_sec}",
    };
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(step.to_string());
    bar.set_message(printable(file));
    // What was there before did not come at this rate.
    bar.set_position(bytes);
    bar.reset_eta();
    bar
}

fn done_line(done: &Done<'_>) -> String {
    match done {
        Done::List { files, revision } => {
            let commit: String = revision.chars().take(COMMIT_SHOWN).collect();
            let at = if commit.is_empty() { commit } else { format!(" at {commit}") };
            format!("list: {files} files{at}")
        }
        Done::Choose { payload, files, bytes } => {
            let size = bytes.map_or_else(String::new, |bytes| format!(", {}", Size(bytes)));
            format!("choose: {payload}, {files} files{size}")
        }
        Done::Room { need, is_all, free } => {
            let to_come = match (need, is_all) {
                (need, true) => format!("{} to come", Size(*need)),
                (0, false) => "nobody says how much is to come".to_owned(),
                (need, false) => format!("{} to come and files of no declared size", Size(*need)),
            };
            format!("room: {to_come}, {} free", Size(*free))
        }
        Done::Verify { file, bytes, received, digest } => {
            let (size, received) = (Size(*bytes), Size(*received));
            format!("verify: {file}, {size} ({received} received), {} {digest}", digest.kind())
        }
        Done::Finalize { files } => format!("finalize: {files} files"),
        Done::Lock => "lock: written".to_owned(),
    }
}

fn note_line(note: &Note) -> String {
    match note {
        Note::Resumed { step, here } => {
            format!("resumed at {step}: {} are here already", Size(*here))
        }
        note if note.is_warning() => format!("warning: {note}"),
        note => note.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_for_every_tenth_and_every_half_minute_and_none_for_the_end() {
        let start = Instant::now();
        let mut pace = Pace::new(150, Some(1000), start);
        let mut due =
            |bytes, seconds| pace.is_due(bytes, Some(1000), start + Duration::from_secs(seconds));
        assert!(!due(199, 1), "the tenth that it began in");
        assert!(due(200, 2));
        assert!(!due(250, 31), "29 s after the last line");
        assert!(due(251, 32));
        assert!(due(999, 33));
        assert!(!due(1000, 99));
    }

    #[test]
    fn rate_and_time_left_count_what_came_in_this_pull() {
        let start = Instant::now();
        let mib = 1 << 20;
        let pace = Pace::new(100 * mib, Some(400 * mib), start);
        let told = pace.told(200 * mib, Some(400 * mib), start + Duration::from_secs(10));
        assert_eq!(told, "50 %, 200.00 MiB of 400.00 MiB, 10.00 MiB/s, 20 s left");
        let told = pace.told(100 * mib, Some(400 * mib), start);
        assert_eq!(told, "25 %, 100.00 MiB of 400.00 MiB, 0 B/s");
        let told = pace.told(110 * mib, None, start + Duration::from_secs(1));
        assert_eq!(told, "110.00 MiB, 10.00 MiB/s");
    }

    #[test]
    fn a_wait_is_told_without_a_count_of_bytes() {
        let now = Instant::now();
        let line = |step, file: &str| {
            let pace = Pace::new(0, None, now);
            Current { step, file: file.to_owned(), bar: None, pace }.told(0, None, now)
        };
        assert_eq!(line(Step::Wait, ""), "wait: another frank is pulling the same payload");
        assert_eq!(line(Step::Held, "m.gguf"), "held: m.gguf, 0 B, 0 B/s");
    }

    #[test]
    fn room_for_what_has_no_declared_size_is_not_said_to_be_none() {
        let room = |need, is_all| done_line(&Done::Room { need, is_all, free: 2048 });
        assert_eq!(room(1024, true), "room: 1.00 KiB to come, 2.00 KiB free");
        assert_eq!(room(0, false), "room: nobody says how much is to come, 2.00 KiB free");
        let some = "room: 1.00 KiB to come and files of no declared size, 2.00 KiB free";
        assert_eq!(room(1024, false), some);
    }

    #[test]
    fn long_times_are_told_in_hours() {
        for (seconds, told) in [(59, "59 s"), (61, "1 min 1 s"), (7265, "2 h 1 min")] {
            assert_eq!(duration(seconds), told);
        }
    }
}
