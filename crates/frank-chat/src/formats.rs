//! The table of chat formats: how families of models write what they think and the tools that they call.

mod deepseek;
mod deepseek_dsml;
mod gemma;
pub(crate) mod generic;
mod glm;
mod harmony;
mod hermes;
mod llama3_json;
mod llama3_pythonic;
mod mistral;
mod qwen_xml;

use std::fmt;
use std::sync::Arc;

use crate::conversation::Tool;
use crate::output::OutputParser;
use crate::pattern::Pattern;

/// How a family of models writes its answers.
pub struct ChatFormat {
    /// Names its golden outputs: `tests/formats/<name>/`.
    pub name: &'static str,
    /// Whether a chat template (its source) belongs to it. The first format of the table that takes one has it.
    pub speaks: fn(source: &str) -> bool,
    /// Control tokens that its parser has to see as text.
    pub controls: &'static [&'static str],
    /// Reads an answer.
    pub parser: fn(&OutputRules) -> Box<dyn OutputParser>,
    /// How calls are written.
    pub calls: fn(&CallRules) -> CallSyntax,
    /// How thoughts are written.
    pub reasoning: ReasoningSyntax,
    /// What stands before the text of an answer, where the family marks it; a call has its own opening.
    pub answer_opening: &'static str,
}

/// How thoughts are written before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningSyntax {
    /// With what they begin, where the prompt does not end with it already.
    pub opening: &'static str,
    /// With what they end. Written in the middle of them, it makes the answer follow.
    pub closing: &'static str,
}

/// What an answer is to be read for.
#[derive(Clone, Debug, Default)]
pub struct OutputRules {
    /// Tools that may be called. Without any, what looks like a call is text.
    pub tools: Arc<[Tool]>,
    /// Whether the prompt ended inside the model's thoughts, so that the answer begins with them.
    pub begins_in_reasoning: bool,
    /// Whether the answer is kept to [`CallSyntax`], so that each call that begins will be whole and right. If not, a call
    /// is told when it is whole, and text that is no call after all is told as text.
    pub is_kept: bool,
}

/// Which calls an answer may hold.
#[derive(Clone, Debug)]
pub struct CallRules {
    /// Tools that may be called, at least one. A tool without `parameters` takes any JSON object.
    pub tools: Arc<[Tool]>,
    /// Whether one answer may call several times.
    pub parallel: bool,
}

/// How an answer with calls looks, in two pieces so that free text can come before.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSyntax {
    /// With what the first call begins. In an answer that may also be text, the text does not hold it.
    pub opening: String,
    /// Everything after that, to the end of the answer.
    pub rest: Pattern,
    /// Whether only an answer that begins with `opening` holds calls; in the middle of a text it means nothing.
    pub only_at_start: bool,
}

/// Every format. The first that speaks a template has it, and the last speaks all.
pub const FORMATS: &[ChatFormat] = &[
    harmony::HARMONY,
    deepseek_dsml::DEEPSEEK_DSML,
    deepseek_dsml::DEEPSEEK_V4,
    deepseek::DEEPSEEK_R1,
    deepseek::DEEPSEEK,
    glm::GLM,
    qwen_xml::QWEN_XML,
    mistral::MISTRAL,
    mistral::MISTRAL_LIST,
    gemma::GEMMA,
    llama3_pythonic::LLAMA3_PYTHONIC,
    llama3_pythonic::LFM2,
    llama3_json::LLAMA3_JSON,
    hermes::HERMES,
    generic::GENERIC,
];

/// The format of answers to the prompts of a chat template, by its source.
#[must_use]
pub fn format_of(template_source: &str) -> &'static ChatFormat {
    let found = FORMATS.iter().find(|format| (format.speaks)(template_source));
    found.expect("the last format speaks every template")
}

/// Whether a chat template explains tools to its model in a form that is known here. For any other,
/// [`with_tools_as_text`](crate::with_tools_as_text) does it.
#[must_use]
pub fn knows_tools(template_source: &str) -> bool {
    format_of(template_source).name != generic::GENERIC.name
}

impl fmt::Debug for ChatFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ChatFormat").field(&self.name).finish()
    }
}

impl ChatFormat {
    /// Whether a prompt ends inside the model's thoughts.
    #[must_use]
    pub fn is_thinking_after(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.reasoning.opening.trim_end())
    }
}

/// What most models put around their thoughts.
const THINK_TAGS: ReasoningSyntax = ReasoningSyntax { opening: "<think>", closing: "</think>" };

/// A call of any of the tools.
fn any_call(rules: &CallRules, call: impl Fn(&Tool) -> Pattern) -> Pattern {
    Pattern::OneOf(rules.tools.iter().map(call).collect())
}

/// A call, and as many more as may be, each after `opening`.
fn repeated_calls(rules: &CallRules, call: Pattern, opening: &str) -> Pattern {
    if !rules.parallel {
        return call;
    }
    let more = vec![Pattern::Space, Pattern::literal(opening), call.clone()];
    let more = Pattern::Repeated(Box::new(Pattern::Sequence(more)));
    Pattern::Sequence(vec![call, Pattern::Optional(Box::new(more))])
}
