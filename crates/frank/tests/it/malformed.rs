//! Hundreds of broken files through the program: the right exit code, one line that names the thing, bounded memory.

use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use frank_testkit::broken::{self, Refused};

use crate::files::Folder;
use crate::program::{Run, command};

/// Memory that a command may take which reads a header of some kilobytes: heap, data segments and stacks.
const HEADER_KIB_MAX: u32 = 32 << 10;
/// Memory that a command may take which loads a model of less than a mebibyte.
const LOAD_KIB_MAX: u32 = 192 << 10;
/// Memory that a chat may take: templates are rendered on a stack that is larger than they should need.
const RUN_KIB_MAX: u32 = 2 << 20;
/// Bytes of an error line at most, so that it stays readable whatever the file has for names.
const LINE_BYTES_MAX: usize = 2000;
/// What a run takes at most, on however busy a machine. Nearly all take some milliseconds.
const TIME_MAX: Duration = Duration::from_secs(20);

/// One way in which the program reads a file.
#[derive(Debug, Clone, Copy)]
enum Way {
    Inspect,
    Fit,
    Eval,
    Run,
}

/// The ways of which a file sees one or the other. Only a chat needs the template.
const WAYS: [Way; 3] = [Way::Inspect, Way::Fit, Way::Eval];

impl Way {
    /// Runs the program on `file`.
    fn run(self, folder: &Folder, file: &Path) -> Run {
        let text = folder.path().join("text.txt");
        let (args, kib_max) = match self {
            Way::Inspect => (vec!["inspect".as_ref(), file.as_os_str()], HEADER_KIB_MAX),
            Way::Fit => (vec!["fit".as_ref(), file.as_os_str()], HEADER_KIB_MAX),
            Way::Eval => {
                let args = ["eval", "--threads", "1", "--ctx-size", "64"].map(AsRef::as_ref);
                let files = [file.as_os_str(), text.as_os_str()];
                (args.into_iter().chain(files).collect(), LOAD_KIB_MAX)
            }
            Way::Run => {
                let args = ["--threads", "1", "--ctx-size", "64", "--max-tokens", "1", "Hi"];
                let args = args.map(AsRef::as_ref);
                (["run".as_ref(), file.as_os_str()].into_iter().chain(args).collect(), RUN_KIB_MAX)
            }
        };
        let output = within(kib_max, &command(args)).output().expect("the shell starts");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        // An allocation that is not given ends the program by a signal, and so with no code.
        let code = output.status.code().unwrap_or(-1);
        Run { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs the program on `file`. Returns what it said unless that is as `expected`, and as it always has to be.
    fn check(
        self,
        folder: &Folder,
        (name, file): (&str, &Path),
        expected: impl FnOnce(&Run) -> bool,
    ) -> Option<String> {
        let start = Instant::now();
        let run = self.run(folder, file);
        let is_told_well =
            |line: &str| line.len() <= LINE_BYTES_MAX && !line.contains(char::is_control);
        let is_right = start.elapsed() < TIME_MAX
            && !run.stderr.contains("panicked")
            && run.stderr.lines().all(is_told_well)
            && expected(&run);
        let start_of_stderr = run.stderr.get(..LINE_BYTES_MAX).unwrap_or(&run.stderr);
        (!is_right).then(|| format!("{self:?}, {name}: exit {}, {start_of_stderr}", run.code))
    }
}

/// `command` with a limit on the memory that it may write to.
fn within(kib_max: u32, command: &Command) -> Command {
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", &format!("ulimit -d {kib_max} && exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_remove("COLUMNS").stdin(Stdio::null());
    limited
}

/// Whether a run refused its file with one error, which names one of `names` where there are any.
fn is_refusal(run: &Run, names: &[String]) -> bool {
    let mut lines = run.stderr.lines();
    let is_error = lines.next().is_some_and(|line| line.starts_with("error: "));
    let is_alone = lines.all(|line| line.starts_with("cause: ") || line.starts_with("hint: "));
    let is_named = names.is_empty() || names.iter().any(|name| run.stderr.contains(name));
    run.code == 2 && run.stdout.is_empty() && is_error && is_alone && is_named
}

/// Whether a run read its file and said what is in it: a plan that does not fit is exit code 3.
fn is_reading(run: &Run) -> bool {
    matches!(run.code, 0 | 3) && !run.stdout.is_empty()
}

/// Calls `check` for each case, in threads, each with a folder of its own. Fails with all faults at once.
fn check_all<T: Send>(
    cases: impl Iterator<Item = T> + Send,
    check: impl Fn(usize, T, &Folder) -> Vec<String> + Sync,
) {
    let (cases, faults, done) = (Mutex::new(cases), Mutex::new(Vec::new()), AtomicUsize::new(0));
    let work = || {
        let folder = Folder::new();
        folder.file("text.txt", "in the end");
        while let Some(case) = { cases.lock().expect("no panic with the lock").next() } {
            let found = check(done.fetch_add(1, Ordering::Relaxed), case, &folder);
            faults.lock().expect("no panic with the lock").extend(found);
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        (0..n_threads).for_each(|_| drop(scope.spawn(work)));
    });
    let faults: Vec<String> = faults.into_inner().expect("no panic with the lock");
    assert!(faults.is_empty(), "{} of {done:?}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_files_that_were_broken_are_read_by_every_command() {
    check_all(broken::families().into_iter(), |_, (name, bytes), folder| {
        let file = folder.file("model.gguf", bytes);
        let faults = WAYS.map(|way| way.check(folder, (&name, &file), |run| run.code == 0));
        faults.into_iter().flatten().collect()
    });
    let folder = Folder::new();
    let all_types = folder.file("all_types.gguf", broken::all_types());
    Way::Inspect.run(&folder, &all_types).ended(0);
}

#[test]
fn every_kind_of_broken_header_is_refused_by_name_within_bounded_memory() {
    check_all(broken::headers().into_iter(), |index, broken, folder| {
        let file = folder.file("model.gguf", &broken.bytes);
        let case = (broken.name.as_str(), file.as_path());
        let refused = |way: Way| way.check(folder, case, |run| is_refusal(run, &broken.names));
        if !matches!(broken.refused, Refused::Data | Refused::OtherParts) {
            return Vec::from_iter(refused(WAYS[index % 3]));
        }
        let shown = Way::Inspect.check(folder, case, is_reading);
        shown.into_iter().chain(refused(Way::Eval)).collect()
    });
}

#[test]
fn every_kind_of_broken_model_is_refused_by_name_and_still_inspected_or_planned() {
    check_all(broken::models(), |index, broken, folder| {
        let file = folder.file("model.gguf", &broken.bytes);
        let case = (broken.name.as_str(), file.as_path());
        let refused = |way: Way| way.check(folder, case, |run| is_refusal(run, &broken.names));
        // Without a name of its family a model cannot be planned either.
        let is_nameless = broken.names.iter().any(|name| name == "general.architecture");
        let shown = match index % 8 {
            0 => Way::Inspect.check(folder, case, is_reading),
            4 if is_nameless => refused(Way::Fit),
            4 => Way::Fit.check(folder, case, is_reading),
            _ => None,
        };
        shown.into_iter().chain(refused(Way::Eval)).collect()
    });
}

#[test]
fn an_unloadable_type_is_refused_with_tensor_id_and_loadable_types_and_still_planned() {
    let kinds = broken::models().filter(|kind| kind.name.starts_with("llama with an embedding"));
    let kinds: Vec<_> = kinds.collect();
    assert!(kinds.len() > 10, "{} types", kinds.len());
    check_all(kinds.into_iter(), |_, broken, folder| {
        let file = folder.file("model.gguf", &broken.bytes);
        let case = (broken.name.as_str(), file.as_path());
        let loaded = Way::Eval.check(folder, case, |run| {
            let says = |text: &str| run.stderr.contains(text);
            let is_named = says("token_embd.weight") && says(&broken.names[0]);
            is_refusal(run, &[]) && is_named && says("Q4_1") && says("Q8_0")
        });
        let planned = [Way::Inspect, Way::Fit].map(|way| way.check(folder, case, is_reading));
        planned.into_iter().flatten().chain(loaded).collect()
    });
}

#[test]
fn a_chat_template_that_cannot_be_used_is_refused_by_name() {
    check_all(broken::templates().into_iter(), |_, broken, folder| {
        let file = folder.file("model.gguf", &broken.bytes);
        let case = (broken.name.as_str(), file.as_path());
        let run = Way::Run.check(folder, case, |run| is_refusal(run, &broken.names));
        Vec::from_iter(run)
    });
}

#[test]
fn numbers_of_a_header_at_their_limits_are_read_or_refused_within_bounded_memory() {
    // The library's own tests read all of them; a prime step takes some of every number.
    check_all(broken::limits().into_iter().step_by(11), |index, limit, folder| {
        let file = folder.file("model.gguf", &limit.bytes);
        let is_right = |run: &Run| is_refusal(run, &[]) || is_reading(run);
        Vec::from_iter(WAYS[index % 2].check(folder, (&limit.name, &file), is_right))
    });
}

#[test]
fn numbers_of_a_model_at_their_limits_are_computed_with_or_refused_within_bounded_memory() {
    check_all(broken::model_limits(), |_, limit, folder| {
        let file = folder.file("model.gguf", &limit.bytes);
        // Numbers that overflow are found when they are computed with, which is a failure and no fault of the header.
        let is_right = |run: &Run| {
            is_refusal(run, &[]) || is_reading(run) || run.stderr.contains("not finite numbers")
        };
        Vec::from_iter(Way::Eval.check(folder, (&limit.name, &file), is_right))
    });
}
