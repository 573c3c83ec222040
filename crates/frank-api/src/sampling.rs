//! How a client wants tokens to be drawn, in no vendor's words. Never draws one.

/// Sampling settings that a client gave; each is in the range that its name allows. What was left out is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingOverrides {
    /// 0 to 2; 0 is the most likely token.
    pub temperature: Option<f32>,
    /// How far the temperature moves with the entropy of the distribution, both ways; 0 is off.
    pub dynatemp_range: Option<f32>,
    /// Exponent of the entropy in that move.
    pub dynatemp_exponent: Option<f32>,
    /// 0 is off.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub top_p: Option<f32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// 0 to 1; 1 is off.
    pub typical_p: Option<f32>,
    /// In standard deviations of the logits; 0 and below is off.
    pub top_n_sigma: Option<f32>,
    /// 0 to 1; 0 is off.
    pub xtc_probability: Option<f32>,
    /// 0 to 1; above 0.5 is off.
    pub xtc_threshold: Option<f32>,
    /// Above 0; 1 is off.
    pub repeat_penalty: Option<f32>,
    /// Tokens that the penalties look back on; `u32::MAX` for all.
    pub repeat_last_n: Option<u32>,
    /// -2 to 2; 0 is off.
    pub presence_penalty: Option<f32>,
    /// -2 to 2; 0 is off.
    pub frequency_penalty: Option<f32>,
    /// The penalty on sequences that repeat.
    pub dry: DryOverrides,
    /// 0 is off, else the version.
    pub mirostat: Option<u32>,
    /// Surprise that mirostat aims at, in bits.
    pub mirostat_tau: Option<f32>,
    /// How fast mirostat learns.
    pub mirostat_eta: Option<f32>,
    /// Tokens that filters leave at least.
    pub min_keep: Option<u32>,
    /// The filters and their order.
    pub stages: Option<Vec<Stage>>,
    /// What is added to logits; several for one token add up.
    pub logit_bias: Vec<LogitBias>,
    /// Makes the draw repeatable.
    pub seed: Option<u64>,
}

/// Settings of the penalty that grows with the length of a repeated sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryOverrides {
    /// 0 is off.
    pub multiplier: Option<f32>,
    /// At least 1.
    pub base: Option<f32>,
    /// Tokens that may repeat without a penalty.
    pub allowed_length: Option<u32>,
    /// Tokens that are searched for repetitions; `u32::MAX` for all.
    pub penalty_last_n: Option<u32>,
    /// Texts over which no repetition reaches; none is empty.
    pub breakers: Option<Vec<String>>,
}

/// A change of one token's logit, or of the logits of a text's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitBias {
    /// What is changed.
    pub target: BiasTarget,
    /// Added to the logit; negative infinity bans.
    pub bias: f32,
}

/// What a bias changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BiasTarget {
    /// A token, in or out of the vocabulary.
    Token(u32),
    /// Every token of a text.
    Text(String),
}

/// One step between logits and a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Repeat, presence and frequency penalties.
    Penalties,
    /// The penalty on repeated sequences.
    Dry,
    /// Drops what is far below the highest logit.
    TopNSigma,
    /// Keeps a number of tokens.
    TopK,
    /// Keeps what is about as surprising as the distribution.
    TypicalP,
    /// Keeps a probability mass.
    TopP,
    /// Drops what is far less likely than the first.
    MinP,
    /// Drops the most likely tokens now and then.
    Xtc,
    /// Divides by the temperature.
    Temperature,
}

impl Stage {
    /// The stage of a name in use, in any case and with `_`, `-` or neither between its words.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(|c| !matches!(c, '_' | '-')).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "penalties" => Self::Penalties,
            "dry" => Self::Dry,
            "topnsigma" => Self::TopNSigma,
            "topk" => Self::TopK,
            "typp" | "typ" | "typicalp" => Self::TypicalP,
            "topp" | "nucleus" => Self::TopP,
            "minp" => Self::MinP,
            "xtc" => Self::Xtc,
            "temperature" | "temp" => Self::Temperature,
            _ => return None,
        })
    }

    /// The stage of a letter, as llama.cpp has them.
    #[must_use]
    pub fn lettered(letter: char) -> Option<Self> {
        Some(match letter {
            'e' => Self::Penalties,
            'd' => Self::Dry,
            's' => Self::TopNSigma,
            'k' => Self::TopK,
            'y' => Self::TypicalP,
            'p' => Self::TopP,
            'm' => Self::MinP,
            'x' => Self::Xtc,
            't' => Self::Temperature,
            _ => return None,
        })
    }
}
