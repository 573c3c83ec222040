//! Reads how tokens are to be drawn: the names of OpenAI, and for the rest those of llama.cpp's server.

use serde_json::Value;

use super::{bias, texts, to_u32};
use crate::error::ApiError;
use crate::fields::{Fields, wrong_type};
use crate::sampling::{DryOverrides, SamplingOverrides, Stage};

/// Most texts over which no repetition reaches.
const BREAKERS_MAX: usize = 64;

/// Longest of them.
const BREAKER_BYTES_MAX: usize = 64;

/// Most steps of an order of samplers; each may stand in it more than once.
const STAGES_MAX: usize = 16;

/// Largest setting where there is no natural bound.
const LARGE: f64 = 100.0;

/// Reads all sampling settings.
pub(super) fn read(fields: &mut Fields) -> Result<SamplingOverrides, ApiError> {
    let sampling = SamplingOverrides {
        temperature: fields.number("temperature", 0.0..=2.0)?,
        dynatemp_range: fields.number("dynatemp_range", 0.0..=LARGE)?,
        dynatemp_exponent: fields.number("dynatemp_exponent", 0.0..=LARGE)?,
        top_k: top_k(fields)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        min_p: fields.number("min_p", 0.0..=1.0)?,
        typical_p: fields.number("typical_p", 0.0..=1.0)?,
        top_n_sigma: fields.number("top_n_sigma", -1.0..=LARGE)?,
        xtc_probability: fields.number("xtc_probability", 0.0..=1.0)?,
        xtc_threshold: fields.number("xtc_threshold", 0.0..=1.0)?,
        repeat_penalty: repeat_penalty(fields)?,
        repeat_last_n: last_n(fields, "repeat_last_n")?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        dry: dry(fields)?,
        mirostat: fields.integer("mirostat", 0..=2)?.map(to_u32),
        mirostat_tau: fields.number("mirostat_tau", 0.0..=LARGE)?,
        mirostat_eta: fields.number("mirostat_eta", 0.0..=1.0)?,
        min_keep: fields.integer("min_keep", 0..=i64::from(u32::MAX))?.map(to_u32),
        stages: stages(fields)?,
        logit_bias: bias::read(fields)?,
        seed: seed(fields)?,
    };
    check_mirostat(&sampling)?;
    Ok(sampling)
}

/// Some clients turn top-k off with -1, others with 0.
fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    Ok(fields.integer("top_k", -1..=i64::from(u32::MAX))?.map(|k| to_u32(k.max(0))))
}

/// A number of tokens to look back on; -1 is all of them.
fn last_n(fields: &mut Fields, name: &str) -> Result<Option<u32>, ApiError> {
    let n = fields.integer(name, -1..=i64::from(u32::MAX))?;
    Ok(n.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
}

/// -1 asks for another seed each time, as leaving it out does.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let seed = fields.integer("seed", i64::MIN..=i64::MAX)?;
    Ok(seed.filter(|seed| *seed != -1).map(i64::cast_unsigned))
}

/// One setting with two names in use.
fn repeat_penalty(fields: &mut Fields) -> Result<Option<f32>, ApiError> {
    let range = 0.01..=LARGE;
    let one = fields.number("repeat_penalty", range.clone())?;
    let other = fields.number("repetition_penalty", range)?;
    match (one, other) {
        (Some(a), Some(b)) if a.to_bits() != b.to_bits() => Err(ApiError::invalid(
            "repetition_penalty",
            "repetition_penalty and repeat_penalty differ; send one",
        )),
        _ => Ok(one.or(other)),
    }
}

fn dry(fields: &mut Fields) -> Result<DryOverrides, ApiError> {
    Ok(DryOverrides {
        multiplier: fields.number("dry_multiplier", 0.0..=LARGE)?,
        base: fields.number("dry_base", 1.0..=LARGE)?,
        allowed_length: fields.integer("dry_allowed_length", 0..=i64::from(u32::MAX))?.map(to_u32),
        penalty_last_n: last_n(fields, "dry_penalty_last_n")?,
        breakers: breakers(fields)?,
    })
}

fn breakers(fields: &mut Fields) -> Result<Option<Vec<String>>, ApiError> {
    let name = "dry_sequence_breakers";
    match fields.take(name) {
        None => Ok(None),
        Some(Value::Array(items)) => texts(items, name, BREAKERS_MAX, BREAKER_BYTES_MAX).map(Some),
        Some(other) => Err(wrong_type(name.to_owned(), "a list of strings", &other)),
    }
}

/// The order of the samplers: a list of names, or a text with one letter for each.
fn stages(fields: &mut Fields) -> Result<Option<Vec<Stage>>, ApiError> {
    let stages: Vec<Stage> = match fields.take("samplers") {
        None => return Ok(None),
        Some(Value::String(letters)) => {
            let letters = letters.chars().take(STAGES_MAX + 1);
            letters
                .map(|letter| Stage::lettered(letter).ok_or_else(|| unknown(letter)))
                .collect::<Result<_, _>>()?
        }
        Some(Value::Array(names)) => {
            names.iter().take(STAGES_MAX + 1).map(named).collect::<Result<_, _>>()?
        }
        Some(other) => {
            let expected = "a list of names or a string of letters";
            return Err(wrong_type("samplers".to_owned(), expected, &other));
        }
    };
    if stages.len() > STAGES_MAX {
        let message = format!("samplers must hold at most {STAGES_MAX} steps");
        return Err(ApiError::invalid("samplers", message));
    }
    Ok(Some(stages))
}

fn named(name: &Value) -> Result<Stage, ApiError> {
    name.as_str().and_then(Stage::named).ok_or_else(|| unknown(name))
}

fn unknown(step: impl std::fmt::Display) -> ApiError {
    let message = format!(
        "samplers holds {step}, which is none of penalties (e), dry (d), top_n_sigma (s), top_k (k), typ_p (y), \
         top_p (p), min_p (m), xtc (x), temperature (t)"
    );
    ApiError::invalid("samplers", message)
}

/// Mirostat takes the place of the other samplers, so that an order of them would change nothing.
fn check_mirostat(sampling: &SamplingOverrides) -> Result<(), ApiError> {
    if sampling.mirostat.is_some_and(|version| version > 0) && sampling.stages.is_some() {
        let message = "samplers has no effect beside mirostat: send one of the two";
        return Err(ApiError::invalid("samplers", message).with_code("unsupported_parameter"));
    }
    Ok(())
}
