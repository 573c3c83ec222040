//! Rotary positions of a model: the frequencies that its metadata gives, scaled, and the angles of a step.
//!
//! Scaling follows the transformers library: `linear` divides every frequency by the factor; `yarn` divides the slow
//! ones, leaves the fast ones, blends those between, and lengthens queries and keys a little. Arithmetic is in f32 in
//! the library's order, since an angle is a position times the rounded frequency.

mod yarn;

use frank_kernels::{Pool, RopePairs, RopeTable, rope};

use crate::error::ArchError;
use crate::keys::Keys;
use crate::weights::{VectorId, WeightTable, Weights};
use yarn::{Ramp, Yarn};

/// How positions rotate a head, as the metadata says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RopeShape {
    /// Values of a head that rotate; even.
    n_rot: usize,
    pairs: RopePairs,
    base: f32,
    scaling: RopeScaling,
    /// Factor of all cosines and sines.
    magnitude: f32,
    /// Divisors of the frequencies, where the file has them.
    factors: Option<VectorId>,
}

/// What stretches positions beyond those of the training.
#[derive(Debug, Clone, Copy)]
enum RopeScaling {
    None,
    Linear { factor: f32 },
    Yarn(Yarn),
}

impl RopeShape {
    /// The rotation that the keys `rope.*` describe, for heads of `head_dim`.
    ///
    /// Defaults are those of llama.cpp: base 10,000, the whole head, a factor without a type is linear.
    pub(crate) fn read(
        keys: &Keys<'_>,
        head_dim: usize,
        pairs: RopePairs,
    ) -> Result<Self, ArchError> {
        const BASE: &str = "rope.freq_base";
        let base = keys.positive_float(BASE)?.unwrap_or(10_000.0);
        let (scaling, magnitude) = read_scaling(keys)?;
        if matches!(scaling, RopeScaling::Yarn(_)) && base <= 1.0 {
            return Err(keys.value_error(BASE, &base, "it must be above 1 with YaRN"));
        }
        Ok(Self {
            n_rot: read_n_rot(keys, head_dim)?,
            pairs,
            base,
            scaling,
            magnitude,
            factors: None,
        })
    }

    /// The rotation of layers with a window: a base of their own, and positions as they are.
    pub(crate) fn local(&self, keys: &Keys<'_>) -> Result<Self, ArchError> {
        let base = keys.positive_float("rope.freq_base_swa")?.unwrap_or(10_000.0);
        Ok(Self { base, scaling: RopeScaling::None, magnitude: 1.0, ..*self })
    }

    /// The same rotation for a family whose `yarn_log_multiplier` is a tenth of how much longer scores become, and which
    /// leaves queries and keys at their length. Also gives the factor of the scores.
    pub(crate) fn with_longer_scores(self, keys: &Keys<'_>) -> Result<(Self, f64), ArchError> {
        const MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";
        let Some(multiplier) = keys.nonzero_float(MULTIPLIER)? else { return Ok((self, 1.0)) };
        let RopeScaling::Yarn(yarn) = self.scaling else {
            return Err(keys.value_error(MULTIPLIER, &multiplier, "it belongs to YaRN"));
        };
        let magnitude = keys.positive_float("rope.scaling.attn_factor")?.unwrap_or(1.0)
            * keys.positive_float("rope.scaling.yarn_attn_factor")?.unwrap_or(1.0);
        let longer = 1.0 + f64::from(multiplier) * f64::from(yarn.factor.max(1.0)).ln();
        Ok((Self { magnitude, ..self }, longer * longer))
    }

    /// The same rotation with a ramp of YaRN that begins and ends between pairs.
    pub(crate) fn with_fractional_ramp(mut self) -> Self {
        if let RopeScaling::Yarn(yarn) = &mut self.scaling {
            yarn.ramp = Ramp::Fractional;
        }
        self
    }

    /// Takes the divisors of the frequencies, `rope_freqs.weight`, where the file has them.
    pub(crate) fn place_factors(&mut self, table: &mut WeightTable<'_>) -> Result<(), ArchError> {
        const NAME: &str = "rope_freqs.weight";
        if table.has(NAME) {
            self.factors = Some(table.vector(NAME, self.n_pairs())?);
        }
        Ok(())
    }

    /// Bytes that [`Rope::new`] takes for one row of a step.
    pub(crate) fn row_bytes(&self) -> usize {
        RopeTable::row_bytes(self.n_pairs())
    }

    fn n_pairs(&self) -> usize {
        self.n_rot / 2
    }

    /// `base^(-2i / n_rot)` for each pair, scaled and divided by the file's factors.
    fn inverse_frequencies(&self, factors: Option<&[f32]>) -> Vec<f32> {
        let powers = (0..self.n_pairs()).map(|i| self.base.powf(ratio(2 * i, self.n_rot)));
        let scaled: Vec<f32> = match self.scaling {
            RopeScaling::None => powers.map(|power| 1.0 / power).collect(),
            RopeScaling::Linear { factor } => powers.map(|power| 1.0 / power / factor).collect(),
            RopeScaling::Yarn(yarn) => {
                let kept = yarn.kept(self.n_rot, self.base);
                powers.zip(kept).map(|(power, kept)| yarn.blend(power, kept)).collect()
            }
        };
        match factors {
            Some(factors) => scaled.iter().zip(factors).map(|(x, factor)| x / factor).collect(),
            None => scaled,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 values")]
fn ratio(a: usize, b: usize) -> f32 {
    a as f32 / b as f32
}

fn read_n_rot(keys: &Keys<'_>, head_dim: usize) -> Result<usize, ArchError> {
    let n_rot = keys.count("rope.dimension_count")?.unwrap_or(head_dim);
    if n_rot == 0 || n_rot > head_dim || !n_rot.is_multiple_of(2) {
        return Err(keys.value_error(
            "rope.dimension_count",
            &n_rot,
            "it must be even and fit in a head",
        ));
    }
    Ok(n_rot)
}

/// The scaling of positions, and the factor of all cosines and sines.
fn read_scaling(keys: &Keys<'_>) -> Result<(RopeScaling, f32), ArchError> {
    const ALPHA: &str = "rope.scaling.alpha";
    if let Some(alpha) = keys.float(ALPHA)?.filter(|&alpha| alpha != 0.0) {
        return Err(keys.value_error(ALPHA, &alpha, "a base that grows is not supported"));
    }
    let factor = match keys.positive_float("rope.scaling.factor")? {
        Some(factor) => factor,
        None => keys.positive_float("rope.scale_linear")?.unwrap_or(1.0),
    };
    let magnitude = keys.positive_float("rope.scaling.attn_factor")?.unwrap_or(1.0);
    match keys.text("rope.scaling.type")? {
        Some("none") => Ok((RopeScaling::None, magnitude)),
        None | Some("linear") => Ok((RopeScaling::Linear { factor }, magnitude)),
        Some("yarn") => {
            let yarn = Yarn::read(keys, factor)?;
            Ok((RopeScaling::Yarn(yarn), magnitude * yarn.magnitude(keys)?))
        }
        Some(other) => Err(keys.value_error(
            "rope.scaling.type",
            &other,
            "only none, linear and yarn are supported",
        )),
    }
}

/// The rotation of a loaded model, with the angles of the step.
#[derive(Debug)]
pub(crate) struct Rope {
    pairs: RopePairs,
    table: RopeTable,
    inverse_frequencies: Vec<f32>,
    magnitude: f32,
}

impl Rope {
    /// Room for the angles of `n_rows` rows.
    pub(crate) fn new(shape: &RopeShape, weights: &Weights, n_rows: usize) -> Self {
        Self {
            pairs: shape.pairs,
            table: RopeTable::with_capacity(n_rows, shape.n_pairs()),
            inverse_frequencies: shape
                .inverse_frequencies(shape.factors.map(|id| weights.vector(id))),
            magnitude: shape.magnitude,
        }
    }

    /// Makes the table ready for rows at `positions`.
    pub(crate) fn fill(&mut self, positions: &[u32]) {
        self.table.fill(positions, &self.inverse_frequencies, self.magnitude);
    }

    /// Rotates the heads of the rows that the table was made for, `[n_rows, n_head, head_dim]`, in place.
    pub(crate) fn rotate(&self, pool: &mut Pool, heads: &mut [f32], head_dim: usize) {
        rope(pool, heads, head_dim, self.pairs, &self.table);
    }
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Metadata, Value};

    use super::*;

    fn shape(entries: &[(&str, Value)]) -> Result<RopeShape, ArchError> {
        let entries = entries.iter().map(|(key, value)| (format!("x.{key}"), value.clone()));
        let metadata = Metadata::new(entries.collect()).expect("no key twice");
        RopeShape::read(&Keys::new(&metadata, "x"), 32, RopePairs::Halves)
    }

    fn yarn(more: &[(&str, Value)]) -> RopeShape {
        let mut entries = vec![
            ("rope.scaling.type", Value::String("yarn".to_owned())),
            ("rope.scaling.factor", Value::F32(4.0)),
            ("rope.scaling.original_context_length", Value::U32(128)),
        ];
        entries.retain(|(key, _)| more.iter().all(|(other, _)| other != key));
        entries.extend_from_slice(more);
        shape(&entries).expect("good keys")
    }

    fn check(shape: &RopeShape, expected: &[f32], magnitude: f32) {
        let frequencies = shape.inverse_frequencies(None);
        assert_eq!(frequencies.len(), 16);
        for (got, expected) in frequencies.iter().zip(expected) {
            assert!((got / expected - 1.0).abs() < 2e-7, "{got} for {expected}");
        }
        assert!((shape.magnitude / magnitude - 1.0).abs() < 2e-7, "{}", shape.magnitude);
    }

    #[test]
    fn yarn_gives_the_frequencies_of_transformers() {
        // `ROPE_INIT_FUNCTIONS["yarn"]` of transformers 5.24 for heads of 32, base 10,000.
        let defaults = [1.0, 0.492_048_65, 0.237_170_82, 0.111_142_464, 0.049_999_997, 0.021_087_8];
        check(&yarn(&[]), &defaults, 1.138_629_4);
        let own_ramp = [1.0, 0.562_341_33, 0.256_935_06, 0.111_142_464, 0.043_75, 0.014_058_532];
        let keys = [
            ("rope.scaling.yarn_beta_fast", Value::F32(8.0)),
            ("rope.scaling.yarn_beta_slow", Value::F32(2.0)),
            ("rope.scaling.yarn_attn_factor", Value::F32(1.25)),
        ];
        check(&yarn(&keys), &own_ramp, 1.25);
    }

    #[test]
    fn yarn_without_its_ramp_is_linear() {
        let keys = [("rope.scaling.yarn_ext_factor", Value::F32(0.0))];
        check(&yarn(&keys), &[0.25, 0.140_585_33, 0.079_056_94], 1.0);
        // Below 0 it means that none was given.
        let keys = [("rope.scaling.yarn_ext_factor", Value::F32(-1.0))];
        check(&yarn(&keys), &[1.0, 0.492_048_65], 1.138_629_4);
    }

    #[test]
    fn a_log_multiplier_takes_back_and_an_attention_factor_multiplies() {
        let one = [("rope.scaling.yarn_log_multiplier", Value::F32(1.0))];
        check(&yarn(&one), &[1.0], 1.0);
        let half = [("rope.scaling.yarn_log_multiplier", Value::F32(0.5))];
        check(&yarn(&half), &[1.0], 1.138_629_4 / 1.069_314_7);
        let factor = [("rope.scaling.attn_factor", Value::F32(2.0))];
        check(&yarn(&factor), &[1.0], 2.277_258_9);
        check(&shape(&factor).expect("good"), &[1.0], 2.0);
    }

    #[test]
    fn longer_scores_leave_queries_and_keys_at_their_length() {
        let longer = |entries: &[(&str, Value)]| {
            let entries = entries.iter().map(|(key, value)| (format!("x.{key}"), value.clone()));
            let metadata = Metadata::new(entries.collect()).expect("no key twice");
            yarn(&[]).with_longer_scores(&Keys::new(&metadata, "x"))
        };
        let (rope, factor) = longer(&[]).expect("no key");
        check(&rope, &[1.0, 0.492_048_65], 1.138_629_4);
        assert!(factor == 1.0);
        // `mscale = mscale_all_dim = 0.707` of DeepSeek V2: (0.0707 ln 4 + 1)^2.
        let tenth = ("rope.scaling.yarn_log_multiplier", Value::F32(0.0707));
        let (rope, factor) = longer(std::slice::from_ref(&tenth)).expect("a good key");
        check(&rope, &[1.0, 0.492_048_65], 1.0);
        assert!((factor - 1.205_628_2).abs() < 1e-6, "{factor}");
        let own = ("rope.scaling.yarn_attn_factor", Value::F32(1.25));
        let (rope, other) = longer(&[tenth.clone(), own]).expect("good keys");
        check(&rope, &[1.0], 1.25);
        assert!(other == factor);
        let entries = vec![("x.rope.scaling.yarn_log_multiplier".to_owned(), tenth.1)];
        let metadata = Metadata::new(entries).expect("one key");
        let linear = shape(&[("rope.scaling.factor", Value::F32(4.0))]).expect("good");
        let error = linear.with_longer_scores(&Keys::new(&metadata, "x")).expect_err("no YaRN");
        assert!(error.to_string().contains("yarn_log_multiplier is 0.0707: it belongs to YaRN"));
    }

    #[test]
    fn a_fractional_ramp_begins_and_ends_between_pairs() {
        // As `yarn_gives_the_frequencies_of_transformers`, with `truncate` false.
        let expected = [
            1.0,
            0.481_793_9,
            0.225_637_48,
            0.101_413_95,
            0.042_705_67,
            0.015_960_42,
            0.007_905_695,
        ];
        check(&yarn(&[]).with_fractional_ramp(), &expected, 1.138_629_4);
        let plain = shape(&[]).expect("good");
        check(&plain.with_fractional_ramp(), &[1.0, 0.562_341_33], 1.0);
    }

    #[test]
    fn a_factor_without_a_type_is_linear_and_none_ignores_it() {
        let linear = [0.25, 0.140_585_33, 0.079_056_94];
        check(&shape(&[("rope.scaling.factor", Value::F32(4.0))]).expect("good"), &linear, 1.0);
        check(&shape(&[("rope.scale_linear", Value::F32(4.0))]).expect("good"), &linear, 1.0);
        let none = ("rope.scaling.type", Value::String("none".to_owned()));
        let keys = [none, ("rope.scaling.factor", Value::F32(4.0))];
        check(&shape(&keys).expect("good"), &[1.0, 0.562_341_33, 0.316_227_77], 1.0);
    }

    #[test]
    fn the_rotation_of_a_window_has_its_own_base_and_no_scaling() {
        let global = yarn(&[]);
        let local = |entries: &[(String, Value)]| {
            let metadata = Metadata::new(entries.to_vec()).expect("no key twice");
            global.local(&Keys::new(&metadata, "x")).expect("a good key")
        };
        check(&local(&[]), &[1.0, 0.562_341_33, 0.316_227_77], 1.0);
        let own = ("x.rope.freq_base_swa".to_owned(), Value::F32(100.0));
        check(&local(&[own]), &[1.0, 0.749_894_2, 0.562_341_33], 1.0);
    }

    #[test]
    fn factors_of_the_file_divide() {
        let plain = shape(&[]).expect("good");
        let factors: Vec<f32> = (0u8..16).map(|i| 1.0 + f32::from(i)).collect();
        let divided = plain.inverse_frequencies(Some(&factors));
        assert!((divided[1] / (0.562_341_33 / 2.0) - 1.0).abs() < 2e-7, "{}", divided[1]);
    }

    #[test]
    fn a_context_too_short_for_the_ramp_interpolates_all_but_the_first_pair() {
        let short = yarn(&[("rope.scaling.original_context_length", Value::U32(1))]);
        let plain = shape(&[]).expect("good").inverse_frequencies(None);
        let mut expected: Vec<f32> = plain.iter().map(|frequency| frequency / 4.0).collect();
        expected[0] = plain[0];
        check(&short, &expected, 1.138_629_4);
    }
}
