//! How a token is drawn: the settings of one request.

use std::sync::Arc;

use crate::sampler::{DryBreakers, Stage};

/// How a token is drawn from the logits.
///
/// `logit_bias`, banned tokens and the constraint come first, then the stages in their order, then the draw. Names and
/// meanings are those of llama.cpp's server.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 takes the most likely token (the lowest id of equals); otherwise logits are divided by it.
    pub temperature: f32,
    /// The temperature lies within this distance of `temperature`, higher where the model is less sure; 0 is off.
    pub dynatemp_range: f32,
    /// The power of the normalized entropy by which the temperature rises.
    pub dynatemp_exponent: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the fewest most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Keep the tokens whose surprise is nearest to the entropy, up to this sum of probabilities; 1 keeps all.
    pub typical_p: f32,
    /// Keep tokens within so many standard deviations of the largest logit; 0 and less keep all.
    pub top_n_sigma: f32,
    /// How often the most likely tokens are taken out, so that the least likely of the good ones is left; 0 is off.
    pub xtc_probability: f32,
    /// Tokens at least this likely are good ones; above 0.5 there is never more than one, so that nothing happens.
    pub xtc_threshold: f32,
    /// `top_p`, `min_p`, `typical_p` and XTC leave so many tokens where there are as many.
    pub min_keep: usize,
    /// Divides positive and multiplies negative logits of tokens seen in the last `repeat_last_n`; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the last tokens (prompt and answer) the three penalties look at.
    pub repeat_last_n: usize,
    /// Subtracted from the logit of each token seen; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logit of each token seen, times how often it was seen; 0 is off.
    pub frequency_penalty: f32,
    /// The penalty on tokens that would go on with a repetition.
    pub dry: Dry,
    /// Draws at a target surprise. Only `logit_bias` and `temperature` act beside it, no other stage.
    pub mirostat: Option<Mirostat>,
    /// Added to the logits of these tokens; negative infinity bans one.
    pub logit_bias: Vec<(u32, f32)>,
    /// What is done to the candidates, in order. A stage that is not in it does nothing whatever its settings say.
    pub stages: Vec<Stage>,
    /// Makes the draw repeatable whatever runs beside it; `None` draws a seed.
    pub seed: Option<u64>,
}

/// "Don't repeat yourself": a token that would make a repetition of `n` tokens longer loses
/// `multiplier * base^(n - allowed_length)` of its logit.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// 0 is off.
    pub multiplier: f32,
    /// At least 1; below it the penalty is off.
    pub base: f32,
    /// Repetitions shorter than this are free.
    pub allowed_length: usize,
    /// How many of the last tokens (prompt and answer) are searched for repetitions.
    pub penalty_last_n: usize,
    /// Texts that no repetition reaches across.
    pub breakers: Arc<DryBreakers>,
}

/// Settings of Mirostat (Basu et al. 2020, "Mirostat: a neural text decoding algorithm that directly controls
/// perplexity").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mirostat {
    /// Which of the two.
    pub version: MirostatVersion,
    /// The surprise to aim at, in bits.
    pub tau: f32,
    /// How much of the error is corrected at each token.
    pub eta: f32,
}

/// The two forms of [`Mirostat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirostatVersion {
    /// Estimates the exponent of Zipf's law from the 100 most likely tokens, and a top-k from it.
    V1,
    /// Cuts off the tokens whose surprise is above a bound.
    V2,
}

impl Default for SamplingParams {
    /// Plain sampling from the model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            min_keep: 0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry: Dry::default(),
            mirostat: None,
            logit_bias: Vec::new(),
            stages: Stage::default_order(),
            seed: None,
        }
    }
}

impl Default for Dry {
    /// Off, with the numbers of its inventor and no breakers.
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            penalty_last_n: usize::MAX,
            breakers: Arc::default(),
        }
    }
}

impl SamplingParams {
    /// The most likely token each time.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }
}
