//! How a model wants to be asked: its chat template and its sampling, from the command line or its file.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Context;
use frank_chat::{ChatTemplate, TemplateError};
use frank_engine::SamplingParams;
use frank_gguf::{GgufError, Metadata};
use frank_hub::FailureKind;
use frank_os::read_small_file;

use crate::load::Prepared;
use crate::options::ModelOptions;
use crate::report::{Failure, known};

/// The chat template of a model.
pub(crate) enum Chosen {
    /// It compiles.
    Template(ChatTemplate),
    /// The one in the model file cannot be used.
    Unusable(TemplateError),
    /// There is none.
    None,
}

/// The template of `--chat-template`, else of the model file.
///
/// # Errors
/// When `--chat-template` names no template.
pub(crate) fn chosen_template(
    prepared: &Prepared,
    options: &ModelOptions,
) -> anyhow::Result<Chosen> {
    let tokenizer = &prepared.tokenizer;
    let text =
        |token_id: Option<u32>| token_id.map_or("", |id| tokenizer.token_text(id)).to_owned();
    let compile =
        |source: &str| ChatTemplate::new(source, &text(tokenizer.bos()), &text(tokenizer.eos()));
    if let Some(path) = &options.chat_template {
        return compile_file(path, compile).map(Chosen::Template);
    }
    Ok(match tokenizer.chat_template().map(compile) {
        Some(Ok(template)) => Chosen::Template(template),
        Some(Err(error)) => Chosen::Unusable(error),
        None => Chosen::None,
    })
}

fn compile_file(
    path: &Path,
    compile: impl Fn(&str) -> Result<ChatTemplate, TemplateError>,
) -> anyhow::Result<ChatTemplate> {
    let fact = || Failure::usage(format!("cannot use the chat template {}", path.display()));
    let bytes = read_small_file(path, ChatTemplate::SOURCE_BYTES_MAX as u64).with_context(fact)?;
    let source = String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)?;
    compile(&source).with_context(fact)
}

/// Sampling of requests that do not say: what the file recommends, else the model's own distribution.
///
/// # Errors
/// When a key has another type, or a number with which nothing can be drawn.
pub(crate) fn sampling_defaults(metadata: &Metadata) -> anyhow::Result<SamplingParams> {
    let plain = SamplingParams::default();
    let input = |error: GgufError| known(error, FailureKind::Input, None);
    let float = |name: &str, range: RangeInclusive<f32>| {
        let key = format!("general.sampling.{name}");
        match metadata.f32(&key).map_err(input)? {
            Some(number) if !range.contains(&number) => {
                let (low, high) = range.into_inner();
                let fact = format!("key {key:?} is {number}, from {low} to {high} expected");
                Err(anyhow::Error::from(Failure::usage(fact)))
            }
            number => Ok(number),
        }
    };
    Ok(SamplingParams {
        temperature: float("temp", 0.0..=100.0)?.unwrap_or(plain.temperature),
        top_k: metadata.u32("general.sampling.top_k").map_err(input)?.unwrap_or(plain.top_k),
        top_p: float("top_p", 0.0..=1.0)?.unwrap_or(plain.top_p),
        min_p: float("min_p", 0.0..=1.0)?.unwrap_or(plain.min_p),
        repeat_penalty: float("penalty_repeat", 0.01..=100.0)?.unwrap_or(plain.repeat_penalty),
        ..plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(name: &str, value: f32) -> anyhow::Result<SamplingParams> {
        let entry = (format!("general.sampling.{name}"), value.into());
        sampling_defaults(&Metadata::new(vec![entry]).expect("one key"))
    }

    #[test]
    fn sampling_that_the_file_recommends_is_taken() {
        let taken = defaults("temp", 0.5).expect("a temperature");
        assert_eq!(taken, SamplingParams { temperature: 0.5, ..SamplingParams::default() });
        assert_eq!(defaults("min_p", 0.25).expect("a fraction").min_p, 0.25);
    }

    #[test]
    fn sampling_with_which_nothing_can_be_drawn_is_refused_by_its_key() {
        for (name, value) in [
            ("temp", f32::NAN),
            ("temp", -1.0),
            ("temp", f32::INFINITY),
            ("top_p", 1.5),
            ("min_p", -0.1),
            ("penalty_repeat", 0.0),
        ] {
            let error = defaults(name, value).expect_err(name).to_string();
            assert!(error.contains(&format!("general.sampling.{name}")), "{error}");
        }
    }
}
