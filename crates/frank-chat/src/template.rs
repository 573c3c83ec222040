//! Renders a model's chat template. Never trusts it: work, output, stack and time are bounded.

mod builtins;
mod clock;
mod context;
mod error;
mod filters;
mod json;
mod methods;
mod sandbox;
mod source;

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::Value;
use minijinja::{Environment, context};

use crate::conversation::Conversation;
use crate::formats::{ChatFormat, format_of, knows_tools};
use crate::guard::{ControlTexts, free_guard};
use crate::history;
use crate::prompt::Prompt;

use context::Guarding;
pub use error::TemplateError;
use sandbox::{CappedWriter, Sandbox};
pub(crate) use source::reads_variable;
use source::without_generation_tags;

/// Fuel of a render before anything was said. One fuel pays an instruction or 64 bytes handled.
const FUEL_BASE: u64 = 100_000;

/// Fuel that each message adds. Involved templates take some 200 instructions for one.
const FUEL_PER_MESSAGE: u64 = 2_000;

/// Bytes of message text that add one fuel: each byte may be handled 16 times.
const TEXT_BYTES_PER_FUEL: usize = 4;

/// Most fuel of a render, however much was said: about a second of work, and it bounds the stack.
const FUEL_MAX: u64 = 2_000_000;

/// Stack that one fuel may need. A fuel buys less than one level of nesting; dropping or printing a level
/// took 400 bytes in a release build and 3,200 in an unoptimized one.
const STACK_BYTES_PER_FUEL: usize = if cfg!(debug_assertions) { 3072 } else { 512 };

/// Stack that one byte of source may need: each may be an operator, and the parser recurses on those.
const STACK_BYTES_PER_SOURCE_BYTE: usize = if cfg!(debug_assertions) { 4096 } else { 1024 };

/// Stack for everything that does not recurse.
const STACK_BYTES_BASE: usize = 1 << 20;

/// Longest prompt of an empty conversation.
const OUTPUT_BYTES_BASE: usize = 1 << 20;

/// How often a template may write each byte of message text.
const OUTPUT_PER_TEXT: usize = 4;

/// Name of the only template in its environment; error texts show it.
const NAME: &str = "chat template";

/// The chat template of a model, compiled.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    source: Arc<str>,
    bos: Arc<str>,
    eos: Arc<str>,
    sandbox: Sandbox,
    format: &'static ChatFormat,
}

/// Whether a template (its source) lets thinking be switched on and off.
#[must_use]
pub fn switches_thinking(source: &str) -> bool {
    ["enable_thinking", "thinking"].iter().any(|name| reads_variable(source, name))
}

impl ChatTemplate {
    /// Bytes of the longest template that is taken. The longest in use are near 40 KiB.
    pub const SOURCE_BYTES_MAX: usize = 128 << 10;

    /// Compiles `source`, a Jinja template as `tokenizer.chat_template` of a GGUF holds it. `bos` and `eos` are
    /// the texts of those tokens, empty where the model has none.
    ///
    /// # Errors
    /// [`TemplateError::SourceTooLong`], [`TemplateError::Syntax`], or that compiling took too long.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        if source.len() > Self::SOURCE_BYTES_MAX {
            return Err(TemplateError::SourceTooLong {
                bytes: source.len(),
                limit: Self::SOURCE_BYTES_MAX,
            });
        }
        let source: Arc<str> = source.into();
        let sandbox = Sandbox::default();
        let stack_bytes = STACK_BYTES_BASE + source.len() * STACK_BYTES_PER_SOURCE_BYTE;
        let plain = without_generation_tags(&source).into_owned();
        let environment = sandbox.run(stack_bytes, move || {
            let mut environment = builtins::environment();
            let added = environment.add_template_owned(NAME, plain);
            added.map_err(|error| TemplateError::from_engine(&error))?;
            Ok(environment)
        })??;
        Ok(Self {
            environment: Arc::new(environment),
            format: format_of(&source),
            source,
            bos: bos.into(),
            eos: eos.into(),
            sandbox,
        })
    }

    /// The template as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// How the model writes its answers.
    #[must_use]
    pub fn format(&self) -> &'static ChatFormat {
        self.format
    }

    /// Whether the template explains tools in a form that [`Self::format`] reads. For one that does not,
    /// [`with_tools_as_text`](crate::with_tools_as_text) explains them.
    #[must_use]
    pub fn knows_tools(&self) -> bool {
        knows_tools(&self.source)
    }

    /// `conversation` in the form that this template takes, where it is known to refuse another that means the same. What
    /// is rendered is this.
    #[must_use]
    pub fn accepted<'a>(&self, conversation: &'a Conversation) -> Cow<'a, Conversation> {
        history::accepted(&self.source, conversation)
    }

    /// Renders `conversation` up to where the model's answer starts. No text of a message can be read as one of
    /// `control_texts`, the control tokens of the model's vocabulary: see [`Prompt`].
    ///
    /// # Errors
    /// [`TemplateError::Raised`] with the template's own words when it refuses the conversation; the other
    /// variants when the template is broken or asks for more than it may have.
    pub fn render(
        &self,
        conversation: &Conversation,
        control_texts: &[&str],
    ) -> Result<Prompt, TemplateError> {
        let conversation = &*self.accepted(conversation);
        let fixed = [&*self.source, &*self.bos, &*self.eos];
        let all_texts = conversation.texts().chain(fixed).chain(control_texts.iter().copied());
        let guard = free_guard(all_texts).ok_or(TemplateError::NoGuard)?;
        let guarding = Guarding { controls: ControlTexts::new(control_texts), guard };
        let context = guarding.context(conversation)?;
        self.run(conversation, context, guard)
            .map(|text| Prompt { text, guard })
            .map_err(|error| error.without_guards(guard))
    }

    fn run(
        &self,
        conversation: &Conversation,
        context: Value,
        guard: char,
    ) -> Result<String, TemplateError> {
        let text_bytes = conversation.text_bytes();
        let fuel = fuel_for(conversation.messages.len() + conversation.tools.len(), text_bytes);
        let limit = OUTPUT_BYTES_BASE + text_bytes * OUTPUT_PER_TEXT;
        let mut environment = Environment::clone(&self.environment);
        environment.set_fuel(Some(fuel));
        environment.add_filter("tojson", json::filter(guard));
        let context = context! {
            documents => (),
            bos_token => &*self.bos,
            eos_token => &*self.eos,
            add_generation_prompt => true,
            ..context
        };
        let context = match conversation.now {
            Some(now) => context! { strftime_now => builtins::clock_function(now), ..context },
            None => context,
        };
        let stack_bytes =
            STACK_BYTES_BASE + usize::try_from(fuel).unwrap_or(usize::MAX) * STACK_BYTES_PER_FUEL;
        self.sandbox.run(stack_bytes, move || {
            let mut output = CappedWriter::new(limit);
            let template = environment
                .get_template(NAME)
                .expect("the only template was added when it was compiled");
            match template.render_captured_to(context, &mut output) {
                Ok(_) => Ok(output.into_text()),
                Err(_) if output.is_full() => Err(TemplateError::OutputTooLong { limit }),
                Err(error) => Err(TemplateError::from_engine(&error)),
            }
        })?
    }
}

/// What a render of `n_messages` (tools count as such) with `text_bytes` of text may use.
fn fuel_for(n_messages: usize, text_bytes: usize) -> u64 {
    let for_messages = (n_messages as u64).saturating_mul(FUEL_PER_MESSAGE);
    let for_text = (text_bytes / TEXT_BYTES_PER_FUEL) as u64;
    FUEL_BASE.saturating_add(for_messages).saturating_add(for_text).min(FUEL_MAX)
}
