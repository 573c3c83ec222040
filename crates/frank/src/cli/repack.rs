//! `frank repack`: a model with experts in one file that is read faster from a drive, with the same values.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use frank_hub::{FailureKind, RewriteError, RewriteProgress, RewriteStage, rewrite};
use frank_kernels::KvType;
use frank_models::{EXPERT_ALIGNMENT, ExpertMajor, KvTypes, arch, expert_major};
use frank_plan::Size;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::interrupt::note_interrupt;
use crate::load::of_arch;
use crate::model::open;
use crate::report::{known, print, tell};

const EXAMPLES: &str = "\
Examples:
  frank repack moe.gguf moe-experts.gguf                  the same model, its experts in one piece each
  frank repack big-00001-of-00009.gguf big-experts.gguf   all parts of a split model as one file
  frank repack --json moe.gguf moe-experts.gguf | jq .verified_bytes

An expert that is read from a drive is three matrices. Files as they are published keep them far from each other; OUT has
them beside each other, each on a multiple of 4096 bytes, so that an expert is one read. Nothing else changes, and answers
are the same. Both files are read back and compared before OUT gets its name. OUT must not exist yet; until then its bytes
lie in its folder without a name, and Ctrl-C leaves nothing there.";

/// Whether a family can load a file does not depend on how it would keep keys and values.
const AS_FOR_ANY: KvTypes = KvTypes { k: KvType::F16, v: KvType::F16 };

/// Write a model with experts as one file that streams faster, verified
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Repack {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// The file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `frank repack --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    /// The new file.
    path: PathBuf,
    file_bytes: u64,
    /// Layers with experts.
    layers: usize,
    /// Experts of all of them.
    experts: usize,
    /// Bytes of tensors that were read back from both files and are the same.
    verified_bytes: u64,
    seconds: f64,
}

impl Repack {
    /// Writes the file, and prints what it is to stdout.
    ///
    /// # Errors
    /// Exit code 2 for a model without experts, one that frank cannot load, or an OUT that exists; 4 when what was read
    /// back differs; 130 for Ctrl-C. There is no new file then.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let model = open(&self.model)?;
        let family = arch(&model.header).map_err(of_arch)?;
        (family.needs)(&model.header, AS_FOR_ANY).map_err(of_arch)?;
        let ExpertMajor { copies, n_layers, n_experts } =
            expert_major(&model.header).map_err(|error| known(error, FailureKind::Input, None))?;
        let start = Instant::now();
        let progress = Bar::new();
        let interrupted = note_interrupt()?;
        let watch = |step| progress.show(step, &interrupted);
        let written = rewrite(&model, &copies, EXPERT_ALIGNMENT, &self.out, &watch);
        progress.bar.finish_and_clear();
        let file_bytes = written.map_err(of_rewrite)?;
        let verified_bytes = copies.iter().map(|copy| copy.bytes).sum();
        let seconds = start.elapsed().as_secs_f64();
        let (layers, experts) = (n_layers, n_experts);
        let report =
            Report { path: self.out, file_bytes, layers, experts, verified_bytes, seconds };
        if self.json {
            return print(&(serde_json::to_string_pretty(&report)? + "\n"));
        }
        print(&report.line())
    }
}

impl Report {
    fn line(&self) -> String {
        let Self { path, file_bytes, layers, experts, verified_bytes, seconds } = self;
        format!(
            "{}: {}, {experts} experts of {layers} layers in one piece each, {} verified, {seconds:.1} s\n",
            path.display(),
            Size(*file_bytes),
            Size(*verified_bytes)
        )
    }
}

fn of_rewrite(error: RewriteError) -> anyhow::Error {
    let hint = match &error {
        RewriteError::Exists { .. } => Some("name a file that does not exist yet"),
        RewriteError::DiskFull { .. } => Some("name a file on another drive"),
        _ => None,
    };
    let kind = error.kind();
    known(error, kind, hint.map(str::to_owned))
}

/// Progress as a bar on a terminal, and as a line for each stage elsewhere. Nothing before there is any.
struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
    stage: Mutex<Option<RewriteStage>>,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "{msg:<32} {wide_bar} {bytes:>11} of {total_bytes} {bytes_per_sec}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, is_terminal: std::io::stderr().is_terminal(), stage: Mutex::default() }
    }

    /// Says what is being done when that is something new.
    fn say(&self, stage: RewriteStage) {
        let before = self.stage.lock().unwrap_or_else(PoisonError::into_inner).replace(stage);
        if before == Some(stage) {
            return;
        }
        let what = match stage {
            RewriteStage::Copy => "copying",
            RewriteStage::Verify => "reading back and comparing",
        };
        if !self.is_terminal {
            tell(what);
        }
        self.bar.reset();
        self.bar.set_message(what);
    }

    fn show(&self, step: RewriteProgress, interrupted: &AtomicBool) -> ControlFlow<()> {
        self.say(step.stage);
        self.bar.set_length(step.total);
        self.bar.set_position(step.done);
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
