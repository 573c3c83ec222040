//! YaRN: how each pair is stretched beyond the context of the training, and how much longer queries and keys become. Never
//! computes an angle.

use crate::error::ArchError;
use crate::keys::Keys;

/// YaRN: a ramp over the pairs, from those that turn often within the original context to those that do not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Yarn {
    /// How much further positions reach than in the training.
    pub(super) factor: f32,
    context_original: usize,
    /// Turns within the original context above which a pair keeps its frequency.
    beta_fast: f32,
    /// Turns below which a pair is interpolated.
    beta_slow: f32,
    /// Share of the kept frequency where the ramp says to keep it.
    ext_factor: f32,
    pub(super) ramp: Ramp,
}

/// Where the ramp begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ramp {
    /// At the pairs around it.
    Whole,
    /// Where it does, between pairs.
    Fractional,
}

impl Yarn {
    /// The keys `rope.scaling.*`; `factor` is theirs.
    pub(super) fn read(keys: &Keys<'_>, factor: f32) -> Result<Self, ArchError> {
        const CONTEXT: &str = "rope.scaling.original_context_length";
        let context_original = match keys.count(CONTEXT)? {
            None => keys.required_count("context_length")?,
            Some(_) => keys.required_count(CONTEXT)?,
        };
        let ext_factor = keys.float("rope.scaling.yarn_ext_factor")?;
        Ok(Self {
            factor,
            context_original,
            beta_fast: keys.positive_float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: keys.positive_float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            // Below 0 means: not set.
            ext_factor: ext_factor.filter(|&factor| factor >= 0.0).unwrap_or(1.0),
            ramp: Ramp::Whole,
        })
    }

    /// Factor of cosines and sines: the file's own, or `1 + 0.1 ln(factor)`.
    ///
    /// With a `yarn_log_multiplier` m it is divided by `1 + 0.1 m ln(factor)`. Without the ramp there is none.
    pub(super) fn magnitude(&self, keys: &Keys<'_>) -> Result<f32, ArchError> {
        if let Some(magnitude) = keys.positive_float("rope.scaling.yarn_attn_factor")? {
            return Ok(magnitude);
        }
        let all_dims = keys.float("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
        if self.ext_factor == 0.0 || self.factor <= 1.0 {
            return Ok(1.0);
        }
        let longer = |multiplier: f32| 1.0 + 0.1 * multiplier * self.factor.ln();
        Ok(longer(1.0) / longer(all_dims))
    }

    /// How much of its own frequency each pair keeps, 0 to 1.
    pub(super) fn kept(&self, n_rot: usize, base: f32) -> impl Iterator<Item = f32> {
        let low = self.pair_with_turns(self.beta_fast, n_rot, base);
        let high = self.pair_with_turns(self.beta_slow, n_rot, base);
        let (low, high) = match self.ramp {
            Ramp::Whole => (low.floor(), high.ceil()),
            Ramp::Fractional => (low, high),
        };
        let (low, high) = (low.max(0.0), high.min(n_rot as f64 - 1.0));
        let width = (high - low).max(0.001);
        let ext_factor = self.ext_factor;
        (0..n_rot / 2).map(move |i| {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
            let ramp = (i as f32 - low as f32) / width as f32;
            (1.0 - ramp.clamp(0.0, 1.0)) * ext_factor
        })
    }

    /// The pair, as a fraction, that turns `n_turns` times within the original context.
    fn pair_with_turns(&self, n_turns: f32, n_rot: usize, base: f32) -> f64 {
        let positions_per_radian =
            self.context_original as f64 / (f64::from(n_turns) * std::f64::consts::TAU);
        n_rot as f64 * positions_per_radian.ln() / (2.0 * f64::from(base).ln())
    }

    /// The inverse frequency of a pair from its power of the base, of which it keeps a share.
    pub(super) fn blend(&self, power: f32, kept: f32) -> f32 {
        1.0 / (self.factor * power) * (1.0 - kept) + 1.0 / power * kept
    }
}
