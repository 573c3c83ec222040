//! `frank serve`: an HTTP endpoint for a model.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use frank_hub::{FailureKind, Store};
use frank_server::{AllowedOrigin, AnswerStore, ApiKeys};

use crate::load::Prepared;
use crate::model::open;
use crate::options::{CacheOptions, ModelOptions};
use crate::plan_text::table;
use crate::report::{known, tell};
use crate::serving::{Endpoint, Flow, N_QUEUE_DEFAULT, bind, run, runtime};

const EXAMPLES: &str = "\
Examples:
  frank serve model.gguf                                     on http://127.0.0.1:7770
  frank serve model.gguf -c 8192 --parallel 2 --port 0       on a free port
  frank serve model.gguf --host 0.0.0.0 --api-key-file keys  for a network, with keys
  frank serve model.gguf --memory-budget 4GiB                refused if it takes more
  frank serve moe.gguf --memory-budget 16GiB --hotness usage.csv
  frank serve model.gguf --prefix-cache 1GiB --cache-dir kv  keeps prefixes, and finds them at the next start

  curl http://127.0.0.1:7770/v1/chat/completions -H 'content-type: application/json' \\
    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"stream\": true}'

Ctrl-C lets running answers end; a second one does not wait. FRANK_LOG=info logs requests on stderr.";

/// Where an endpoint listens when nobody says: loopback, so that nobody else can ask.
pub(crate) const HOST_DEFAULT: &str = "127.0.0.1";

/// Answers that are stored when nobody says: those of many days of one person.
const STORED_ANSWERS_DEFAULT: usize = 1024;

/// The port of the ecosystem's examples for frank.
pub(crate) const PORT_DEFAULT: u16 = 7770;

/// Serve a model over HTTP, with the dialects of OpenAI and Anthropic
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = HOST_DEFAULT)]
    host: String,

    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT)]
    port: u16,

    /// Name under which clients find the model, several with commas between [default: the name of the file]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    alias: Vec<String>,

    /// Ask clients for a key: one of those in this file, one a line, as KEY, NAME KEY or NAME KEY N (requests at once)
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Web origin that may call, as in https://chat.example; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<AllowedOrigin>,

    /// Requests that may wait beside those that run; more are refused with 503
    #[arg(long, value_name = "N", default_value_t = N_QUEUE_DEFAULT)]
    queue: usize,

    /// Answers of /v1/responses that are kept for clients who go on after them, in the folder frank/answers of the
    /// data folder; 0 keeps none
    #[arg(long, value_name = "N", default_value_t = STORED_ANSWERS_DEFAULT)]
    stored_answers: usize,

    #[command(flatten)]
    cache: CacheOptions,

    #[command(flatten)]
    options: ModelOptions,
}

impl Serve {
    /// Serves until a signal.
    ///
    /// # Errors
    /// Exit code 2 for bad input, 3 when the model does not fit; nothing was loaded then.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.cache.check_effect()?;
        self.options.cache = self.cache;
        let api_keys = match &self.api_key_file {
            Some(path) => ApiKeys::from_file(path).map_err(|error| {
                let hint = "a line is KEY, NAME KEY, or NAME KEY N for N requests at once; # begins a comment";
                known(error, FailureKind::Input, Some(hint.to_owned()))
            })?,
            None => ApiKeys::default(),
        };
        let mut prepared = Prepared::new(open(&self.model)?, &self.options, |_| {})?;
        // From here on there is a log: a template that cannot be used is said there.
        let runtime = runtime()?;
        let path = prepared.file.paths()[0].as_os_str();
        let names = if self.alias.is_empty() { vec![name_of(path)] } else { self.alias };
        let mut endpoint = Endpoint::new(&prepared, &self.options, names)?;
        endpoint.n_queue = self.queue;
        endpoint.server.api_keys = api_keys;
        endpoint.server.allowed_origins = self.allow_origin;
        endpoint.server.host_names = frank_os::host_name().into_iter().collect();
        endpoint.server.store = answer_store(self.stored_answers);
        prepared.predict_streamed(&self.options);
        runtime.block_on(async {
            let listener = bind(&self.host, self.port).await?;
            tell(table(&prepared.plan).trim_end());
            run(listener, prepared, &self.options, endpoint, async |address| {
                tell(&format!("ready on http://{address}"));
                Ok(Flow::Serve)
            })
            .await
        })
    }
}

/// Where answers are stored. That they cannot be costs only the conversations that go on after one.
fn answer_store(answers_max: usize) -> Option<AnswerStore> {
    if answers_max == 0 {
        return None;
    }
    // Beside the models, in the folder that is frank's own.
    let folder = match Store::default_dir() {
        Ok(models) => models.with_file_name("answers"),
        Err(error) => {
            tracing::warn!("answers are not stored: {error}");
            return None;
        }
    };
    let opened = AnswerStore::open(&folder, answers_max);
    let warn = |error| tracing::warn!("answers are not stored in {}: {error}", folder.display());
    opened.map_err(warn).ok()
}

/// The name of a file without its ending and part number.
pub(crate) fn name_of(model: &OsStr) -> String {
    let file_name = Path::new(model).file_name().unwrap_or(model).to_string_lossy();
    let stem = frank_gguf::parse_part_name(&file_name).map_or(&*file_name, |part| part.stem);
    stem.strip_suffix(".gguf").unwrap_or(stem).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn without_a_port_it_listens_on_loopback_7770() {
        let command = Serve::augment_args(clap::Command::new("serve").no_binary_name(true));
        let matches = command.try_get_matches_from(["model.gguf"]).unwrap();
        let serve = Serve::from_arg_matches(&matches).unwrap();
        assert_eq!((serve.host.as_str(), serve.port), ("127.0.0.1", 7770));
    }

    #[test]
    fn a_model_is_named_after_its_file() {
        let check = |model: &str, name: &str| assert_eq!(name_of(OsStr::new(model)), name);
        check("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M");
        check("big-00002-of-00003.gguf", "big");
        check("odd.name", "odd.name");
    }
}
