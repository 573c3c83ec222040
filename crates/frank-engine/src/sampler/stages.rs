//! What can be done to the candidates between the bans and the draw, by name and in any order.

use std::fmt;

use rand_chacha::ChaCha8Rng;

use super::candidates::Candidates;
use super::dry::LastBreak;
use super::penalties::TokenCounts;
use super::{dry, min_p, penalties, temperature, top_k, top_n_sigma, top_p, typical_p, xtc};
use crate::sampling::SamplingParams;

/// Every stage, in the order that is used where a request names none: llama.cpp's.
static STAGES: &[StageEntry] = &[
    penalties::STAGE,
    dry::STAGE,
    top_n_sigma::STAGE,
    top_k::STAGE,
    typical_p::STAGE,
    top_p::STAGE,
    min_p::STAGE,
    xtc::STAGE,
    temperature::STAGE,
];

/// A line of the table.
pub(super) struct StageEntry {
    /// As llama.cpp spells it in `samplers`.
    pub(super) name: &'static str,
    /// Whether it leaves every logit as it is and the most likely candidate among the others, so that it changes nothing
    /// when the most likely one is taken anyway.
    pub(super) keeps_best: bool,
    /// Cuts or changes the candidates, at least one of which stays.
    pub(super) apply: fn(&mut Candidates<'_>, &SamplingParams, &mut StageInput<'_>),
}

/// What stages know beside the candidates and the settings.
pub(super) struct StageInput<'a> {
    pub(super) history: &'a [u32],
    pub(super) counts: &'a mut TokenCounts,
    pub(super) last_break: &'a mut LastBreak,
    pub(super) rng: &'a mut ChaCha8Rng,
}

/// One of the things that can be done to the candidates before a token is drawn.
#[derive(Clone, Copy)]
pub struct Stage(&'static StageEntry);

impl Stage {
    /// The stage of a name in llama.cpp's `samplers`: `penalties`, `dry`, `top_n_sigma`, `top_k`, `typ_p`, `top_p`,
    /// `min_p`, `xtc` or `temperature`.
    #[must_use]
    pub fn named(name: &str) -> Option<Stage> {
        STAGES.iter().find(|entry| entry.name == name).map(Stage)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// All stages in llama.cpp's order.
    #[must_use]
    pub fn default_order() -> Vec<Stage> {
        STAGES.iter().map(Stage).collect()
    }
}

impl PartialEq for Stage {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Stage {}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// Runs the stages of `params` in their order.
pub(super) fn apply(
    candidates: &mut Candidates<'_>,
    params: &SamplingParams,
    input: &mut StageInput<'_>,
) {
    let takes_best =
        temperature::takes_best(params) && params.stages.contains(&Stage(&temperature::STAGE));
    for stage in &params.stages {
        if !(takes_best && stage.0.keeps_best) {
            (stage.0.apply)(candidates, params, input);
        }
    }
}
