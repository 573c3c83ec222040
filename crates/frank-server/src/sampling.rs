//! The sampling of a request: the model's own, changed where the client says so. Never draws a token.

use std::sync::Arc;

use frank_api::{ApiError, BiasTarget, DryOverrides, LogitBias, SamplingOverrides, Stage};
use frank_engine::{Dry, DryBreakers, Mirostat, MirostatVersion, SamplingParams};
use frank_tokenizer::{Specials, Tokenizer};

/// Most tokens whose logits a request changes, once its texts are tokens.
const BIASED_TOKENS_MAX: usize = 4096;

/// Surprise that mirostat aims at where a request does not say, in bits. Source: llama.cpp.
const MIROSTAT_TAU: f32 = 5.0;

/// How fast mirostat learns where a request does not say. Source: llama.cpp.
const MIROSTAT_ETA: f32 = 0.1;

/// Texts over which no repetition reaches where nobody says. Source: llama.cpp.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// What no repetition reaches across in the text of this vocabulary, where a request does not say.
///
/// Cost: a pass over the vocabulary.
#[must_use]
pub fn default_breakers(tokenizer: &Tokenizer) -> Arc<DryBreakers> {
    breakers(tokenizer, &BREAKERS.map(str::to_owned))
}

/// `defaults`, changed where `overrides` say so.
///
/// Cost: a pass over the vocabulary where the request penalizes repeated sequences up to breakers of its own.
///
/// # Errors
/// A 400 that names `logit_bias` when it changes more tokens than are taken, or one that the vocabulary does not have.
pub fn sampling_params(
    tokenizer: &Tokenizer,
    defaults: &SamplingParams,
    overrides: &SamplingOverrides,
) -> Result<SamplingParams, ApiError> {
    Ok(SamplingParams {
        temperature: overrides.temperature.unwrap_or(defaults.temperature),
        dynatemp_range: overrides.dynatemp_range.unwrap_or(defaults.dynatemp_range),
        dynatemp_exponent: overrides.dynatemp_exponent.unwrap_or(defaults.dynatemp_exponent),
        top_k: overrides.top_k.unwrap_or(defaults.top_k),
        top_p: overrides.top_p.unwrap_or(defaults.top_p),
        min_p: overrides.min_p.unwrap_or(defaults.min_p),
        typical_p: overrides.typical_p.unwrap_or(defaults.typical_p),
        top_n_sigma: overrides.top_n_sigma.unwrap_or(defaults.top_n_sigma),
        xtc_probability: overrides.xtc_probability.unwrap_or(defaults.xtc_probability),
        xtc_threshold: overrides.xtc_threshold.unwrap_or(defaults.xtc_threshold),
        min_keep: overrides.min_keep.map_or(defaults.min_keep, |n| n as usize),
        repeat_penalty: overrides.repeat_penalty.unwrap_or(defaults.repeat_penalty),
        repeat_last_n: overrides.repeat_last_n.map_or(defaults.repeat_last_n, look_back),
        presence_penalty: overrides.presence_penalty.unwrap_or(defaults.presence_penalty),
        frequency_penalty: overrides.frequency_penalty.unwrap_or(defaults.frequency_penalty),
        dry: dry(tokenizer, &defaults.dry, &overrides.dry),
        mirostat: mirostat(defaults.mirostat, overrides),
        logit_bias: logit_bias(tokenizer, &overrides.logit_bias)?,
        stages: overrides.stages.as_deref().map_or_else(|| defaults.stages.clone(), stages),
        seed: overrides.seed.or(defaults.seed),
    })
}

/// Tokens to look back on; the largest number stands for all.
fn look_back(n_tokens: u32) -> usize {
    if n_tokens == u32::MAX { usize::MAX } else { n_tokens as usize }
}

fn dry(tokenizer: &Tokenizer, defaults: &Dry, overrides: &DryOverrides) -> Dry {
    let multiplier = overrides.multiplier.unwrap_or(defaults.multiplier);
    let own = overrides.breakers.as_deref().filter(|_| multiplier != 0.0);
    Dry {
        multiplier,
        base: overrides.base.unwrap_or(defaults.base),
        allowed_length: overrides.allowed_length.map_or(defaults.allowed_length, |n| n as usize),
        penalty_last_n: overrides.penalty_last_n.map_or(defaults.penalty_last_n, look_back),
        breakers: own
            .map_or_else(|| Arc::clone(&defaults.breakers), |texts| breakers(tokenizer, texts)),
    }
}

fn breakers(tokenizer: &Tokenizer, texts: &[String]) -> Arc<DryBreakers> {
    Arc::new(DryBreakers::new(texts, tokenizer.n_vocab(), |id| tokenizer.token_bytes(id)))
}

fn mirostat(default: Option<Mirostat>, overrides: &SamplingOverrides) -> Option<Mirostat> {
    let version = match overrides.mirostat {
        None => default?.version,
        Some(0) => return None,
        Some(1) => MirostatVersion::V1,
        Some(_) => MirostatVersion::V2,
    };
    let (tau, eta) = default.map_or((MIROSTAT_TAU, MIROSTAT_ETA), |d| (d.tau, d.eta));
    Some(Mirostat {
        version,
        tau: overrides.mirostat_tau.unwrap_or(tau),
        eta: overrides.mirostat_eta.unwrap_or(eta),
    })
}

fn logit_bias(tokenizer: &Tokenizer, biases: &[LogitBias]) -> Result<Vec<(u32, f32)>, ApiError> {
    let mut changes = Vec::new();
    for LogitBias { target, bias } in biases {
        match target {
            BiasTarget::Token(id) if (*id as usize) < tokenizer.n_vocab() => {
                changes.push((*id, *bias));
            }
            BiasTarget::Token(id) => {
                let n_vocab = tokenizer.n_vocab();
                let message =
                    format!("logit_bias: token id {id} is not below the vocabulary size {n_vocab}");
                return Err(ApiError::invalid("logit_bias", message));
            }
            BiasTarget::Text(text) => {
                let ids = tokenizer.encode(text, Specials::Literal);
                changes.extend(ids.into_iter().map(|id| (id, *bias)));
            }
        }
        if changes.len() > BIASED_TOKENS_MAX {
            let message = format!("logit_bias must change at most {BIASED_TOKENS_MAX} tokens");
            return Err(ApiError::invalid("logit_bias", message));
        }
    }
    Ok(changes)
}

fn stages(wanted: &[Stage]) -> Vec<frank_engine::Stage> {
    let named = wanted.iter().map(|stage| match stage {
        Stage::Penalties => "penalties",
        Stage::Dry => "dry",
        Stage::TopNSigma => "top_n_sigma",
        Stage::TopK => "top_k",
        Stage::TypicalP => "typ_p",
        Stage::TopP => "top_p",
        Stage::MinP => "min_p",
        Stage::Xtc => "xtc",
        Stage::Temperature => "temperature",
    });
    named
        .map(|name| frank_engine::Stage::named(name).expect("the engine has every stage"))
        .collect()
}
