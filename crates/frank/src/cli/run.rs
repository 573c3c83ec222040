//! `frank run`: one answer on stdout, or a chat in the terminal. The model runs in this process.

mod answer;
mod chat;
mod form;
mod sampling;

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use clap::builder::RangedI64ValueParser;
use frank_chat::{ChatTemplate, Conversation, Message, Role};
use frank_engine::{Engine, EngineOptions, SubmitError};
use frank_server::{default_breakers, sampling_params};
use frank_telemetry::Metrics;

use self::answer::{Speaker, interrupts, not_submitted, templated};
use self::chat::Chat;
use self::form::{Form, FormOptions};
use self::sampling::SamplingOptions;
use crate::answering::{Chosen, chosen_template, sampling_defaults};
use crate::load::Prepared;
use crate::model::open;
use crate::options::ModelOptions;
use crate::plan_text::table;
use crate::report::{Code, Failure, tell};
use crate::serving::runtime;
use crate::usage::UsageWriter;

const EXAMPLES: &str = "\
Examples:
  frank run model.gguf \"Tell me a joke\"            one answer on stdout
  frank run model.gguf                             a chat in the terminal, until /exit or Ctrl-D
  frank run model.gguf --raw -n 20 \"Once upon a\"   continue a text, without the chat template
  frank run model.gguf < question.txt              a prompt from stdin
  frank run model.gguf -j '{\"type\": \"object\"}' \"Who was Ada Lovelace? Answer in JSON.\"

Ctrl-C ends the answer. Everything but the answer goes to stderr.";

/// Longest prompt that is read from stdin; no context holds more.
const PROMPT_BYTES_MAX: usize = 16 << 20;

/// Answer one prompt on stdout, or chat in the terminal
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Path of a .gguf file (any part of a split model), a name that `frank list` shows, or a reference
    #[arg(value_name = "MODEL")]
    model: OsString,

    /// What to answer; `-` reads stdin, and so does no PROMPT where stdin is no terminal
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    /// Continue the prompt as it is, without the chat template
    #[arg(long, conflicts_with = "system")]
    raw: bool,

    /// Standing instructions that come before the prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Tokens of an answer at most [default: what the context holds]
    #[arg(short = 'n', long, visible_alias = "predict", value_name = "N",
        value_parser = RangedI64ValueParser::<u32>::new().range(1..), allow_negative_numbers = true)]
    max_tokens: Option<u32>,

    /// Go on after the model would end its answer, up to --max-tokens or the end of the context
    #[arg(long)]
    ignore_eos: bool,

    #[command(flatten)]
    sampling: Box<SamplingOptions>,

    #[command(flatten)]
    form: FormOptions,

    #[command(flatten)]
    options: ModelOptions,
}

/// What is asked.
enum Input {
    Prompt(String),
    Terminal,
}

/// What the model is loaded for.
enum Task {
    /// Answer these tokens.
    Answer(Vec<u32>),
    Chat(Box<Chat>),
}

impl Run {
    /// Prints the answer, or chats until the person at the terminal ends it.
    ///
    /// # Errors
    /// As loading does; exit code 2 when the prompt or the model's template cannot be used, 130 for Ctrl-C.
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.check_effect()?;
        self.options.parallel = Some(1);
        let input = self.input()?;
        if self.raw && matches!(input, Input::Terminal) {
            return Err(Failure::usage("--raw needs a PROMPT: a chat has a template").into());
        }
        let mut prepared = Prepared::new(open(&self.model)?, &self.options, |_| {})?;
        let runtime = runtime()?;
        let task = self.task(&prepared, input)?;
        let form = self.form.form(&prepared.tokenizer)?;
        tell(table(&prepared.plan).trim_end());
        let speaker = self.speaker(&prepared, form)?;
        let usage = prepared.usage.take();
        // The header has done its work.
        drop(prepared);
        let usage = usage.map(|usage| UsageWriter::new(usage, speaker.engine.clone()));
        runtime.block_on(perform(&speaker, usage.as_ref(), task))
    }

    /// Refuses what would change nothing.
    fn check_effect(&self) -> Result<(), Failure> {
        if self.options.parallel.is_some() {
            return Err(Failure::usage(
                "--parallel has no effect: run answers one prompt at a time",
            ));
        }
        if self.raw && self.options.chat_template.is_some() {
            return Err(Failure::usage("--chat-template has no effect beside --raw"));
        }
        if self.ignore_eos && self.form.is_given() {
            return Err(Failure::usage(
                "--ignore-eos cannot be kept beside a grammar: the answer ends where its form does",
            ));
        }
        Ok(())
    }

    fn input(&self) -> anyhow::Result<Input> {
        let prompt = match self.prompt.as_deref() {
            Some("-") => prompt_on_stdin()?,
            Some(prompt) => prompt.to_owned(),
            None if std::io::stdin().is_terminal() => return Ok(Input::Terminal),
            None => prompt_on_stdin()?,
        };
        if prompt.is_empty() {
            return Err(Failure::usage("the prompt is empty").into());
        }
        Ok(Input::Prompt(prompt))
    }

    /// What is to be done with the model, found out before the weights are read: what is refused here costs no time.
    fn task(&self, prepared: &Prepared, input: Input) -> anyhow::Result<Task> {
        let template = if self.raw { None } else { Some(template(prepared, &self.options)?) };
        let system = self.system.as_ref().map(|text| Message::new(Role::System, text));
        let mut messages: Vec<Message> = system.into_iter().collect();
        let prompt = match (input, template) {
            (Input::Terminal, None) => unreachable!("--raw was refused without a prompt"),
            (Input::Terminal, Some(template)) => {
                return Ok(Task::Chat(Box::new(Chat::new(template, messages))));
            }
            (Input::Prompt(prompt), None) => prepared.tokenizer.encode_text(&prompt),
            (Input::Prompt(prompt), Some(template)) => {
                messages.push(Message::new(Role::User, prompt));
                let conversation = Conversation { messages, ..Conversation::default() };
                templated(&template, &prepared.tokenizer, &conversation)?
            }
        };
        check_prompt(prompt.len(), prepared.plan.ctx_size as usize).map_err(not_submitted)?;
        Ok(Task::Answer(prompt))
    }

    /// Loads the model and starts its engine.
    fn speaker(&self, prepared: &Prepared, form: Option<Form>) -> anyhow::Result<Speaker> {
        let mut defaults = sampling_defaults(&prepared.file.header.metadata)?;
        defaults.dry.breakers = default_breakers(&prepared.tokenizer);
        let sampling = sampling_params(&prepared.tokenizer, &defaults, &self.sampling.overrides())
            .map_err(|error| Failure::usage(error.message))?;
        let options = EngineOptions {
            n_ctx: prepared.plan.ctx_size as usize,
            n_parallel: 1,
            n_queue: 1,
            // The turns of a chat begin alike.
            prefix_cache: true,
        };
        let model = prepared.load(&self.options, options.n_parallel)?;
        Ok(Speaker {
            engine: Engine::start(model, options, Metrics::new()),
            tokenizer: Arc::clone(&prepared.tokenizer),
            sampling,
            max_tokens: self.max_tokens.map_or(usize::MAX, |n| n as usize),
            min_tokens: if self.ignore_eos { usize::MAX } else { 0 },
            form,
        })
    }
}

/// Refuses what the engine would refuse once it is there.
fn check_prompt(n_prompt: usize, n_ctx: usize) -> Result<(), SubmitError> {
    match n_prompt {
        0 => Err(SubmitError::EmptyPrompt),
        _ if n_prompt >= n_ctx => Err(SubmitError::PromptTooLong { n_prompt, n_ctx }),
        _ => Ok(()),
    }
}

/// Does what is asked, and notes what was learned about the experts of the model.
async fn perform(speaker: &Speaker, usage: Option<&UsageWriter>, task: Task) -> anyhow::Result<()> {
    let mut interrupts = interrupts()?;
    let mut interrupted = false;
    match task {
        Task::Chat(chat) => chat.run(speaker, &mut interrupts).await?,
        Task::Answer(prompt) => {
            let answer = speaker.speak(prompt, &mut interrupts).await?;
            tell(&answer.stats());
            interrupted = answer.interrupted;
        }
    }
    tokio::task::block_in_place(|| {
        if !interrupted {
            speaker.engine.shutdown();
        }
        if let Some(usage) = usage {
            usage.save();
        }
    });
    if interrupted {
        return Err(Failure::new(Code::Interrupted, "interrupted").into());
    }
    Ok(())
}

fn prompt_on_stdin() -> anyhow::Result<String> {
    let fact = || Failure::usage("cannot read the prompt from stdin");
    let mut bytes = Vec::new();
    let limit = PROMPT_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes).with_context(fact)?;
    if bytes.len() > PROMPT_BYTES_MAX {
        let cause = format!("it is longer than the {PROMPT_BYTES_MAX} bytes that are taken");
        return Err(anyhow::Error::msg(cause).context(fact()));
    }
    let mut prompt = String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)?;
    if prompt.ends_with('\n') {
        prompt.pop();
    }
    Ok(prompt)
}

/// The template that the prompt is put into.
fn template(prepared: &Prepared, options: &ModelOptions) -> anyhow::Result<ChatTemplate> {
    const HINT: &str = "--raw continues the prompt without one, --chat-template FILE uses another";
    match chosen_template(prepared, options)? {
        Chosen::Template(template) => Ok(template),
        Chosen::Unusable(error) => {
            let failure = Failure::usage("the chat template of the model cannot be used");
            Err(anyhow::Error::new(error).context(failure.hint(HINT)))
        }
        Chosen::None => {
            Err(Failure::usage("the model file has no chat template").hint(HINT).into())
        }
    }
}
