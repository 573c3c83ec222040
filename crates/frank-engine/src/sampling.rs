//! How a token is drawn: the settings of one request.

/// How a token is drawn from the logits, in this order: penalties, top-k, top-p, min-p, temperature, draw.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 takes the most likely token (the lowest id of equals); otherwise logits are divided by it.
    pub temperature: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the fewest most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in the last `repeat_last_n`; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the last tokens (prompt and answer) the three penalties look at.
    pub repeat_last_n: usize,
    /// Subtracted from the logit of each token seen; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logit of each token seen, times how often it was seen; 0 is off.
    pub frequency_penalty: f32,
    /// Makes the draw repeatable whatever runs beside it; `None` draws a seed.
    pub seed: Option<u64>,
}

impl Default for SamplingParams {
    /// Plain sampling from the model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
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
