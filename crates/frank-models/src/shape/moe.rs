//! Sizes of a mixture of experts: read from the metadata with the defaults of the family, and checked. What is not
//! computed is refused here by name.

use crate::error::ArchError;
use crate::keys::Keys;

/// Experts of a layer at most: a count of a stranger becomes a table, and the largest that was published is 512.
const EXPERTS_MAX: usize = 1 << 16;

/// How a router's products become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gating {
    /// Softmax over all experts; the chosen ones keep their share.
    Softmax,
    /// The logistic function of each.
    Sigmoid,
    /// Experts are chosen by the products, and softmax is taken over those alone.
    SoftmaxOfChosen,
}

/// The width of an expert where `expert_feed_forward_length` is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpertWidth {
    /// `feed_forward_length`.
    FeedForward,
    /// `feed_forward_length`, which the experts that a token uses share.
    FeedForwardByUsed,
}

/// What a family assumes where its files say nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MoeDefaults {
    /// Whether every file of the family has experts.
    pub(crate) required: bool,
    pub(crate) gating: Gating,
    pub(crate) normalize: bool,
    pub(crate) width: ExpertWidth,
    /// Whether there is an expert of `feed_forward_length` that every token uses where no key gives it a size.
    pub(crate) has_shared: bool,
}

impl MoeDefaults {
    /// What most families assume: every file has experts, and weights are their softmax among all, as it is.
    pub(crate) const USUAL: Self = Self {
        required: true,
        gating: Gating::Softmax,
        normalize: false,
        width: ExpertWidth::FeedForward,
        has_shared: false,
    };
}

/// Sizes and rules of the mixtures of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MoeShape {
    /// Routed experts of a layer.
    pub(crate) n_expert: usize,
    /// Those that a token uses.
    pub(crate) n_used: usize,
    /// Hidden units of a routed expert.
    pub(crate) n_ff_expert: usize,
    /// Hidden units of the experts that every token uses, together; 0 when there are none.
    pub(crate) n_ff_shared: usize,
    pub(crate) gating: Gating,
    /// Whether the weights of a token's experts are divided by their sum.
    pub(crate) normalize: bool,
    /// What the weights are multiplied with at last.
    pub(crate) weights_scale: f32,
    /// Groups of experts, of which a token uses `n_group_used`; 1 when experts are not grouped.
    pub(crate) n_group: usize,
    pub(crate) n_group_used: usize,
    /// The first layers, which have no experts.
    pub(crate) n_leading_dense: usize,
}

impl MoeShape {
    /// `None` for a file without experts. `n_ff` is `feed_forward_length`.
    pub(crate) fn read(
        keys: &Keys<'_>,
        defaults: MoeDefaults,
        n_ff: usize,
    ) -> Result<Option<Self>, ArchError> {
        let n_expert = match keys.count("expert_count")? {
            None | Some(0) if !defaults.required => return Ok(None),
            _ => keys.required_count("expert_count")?,
        };
        if n_expert > EXPERTS_MAX {
            return Err(keys.value_error("expert_count", &n_expert, "at most 65536 are supported"));
        }
        refuse_variants(keys)?;
        let n_used = keys.required_count("expert_used_count")?;
        if n_used > n_expert {
            return Err(keys.value_error("expert_used_count", &n_used, "there are fewer experts"));
        }
        let n_ff_expert = match (keys.count("expert_feed_forward_length")?, defaults.width) {
            (Some(_), _) => keys.required_count("expert_feed_forward_length")?,
            (None, ExpertWidth::FeedForward) => n_ff,
            (None, ExpertWidth::FeedForwardByUsed) => n_ff / n_used,
        };
        let (n_group, n_group_used) = groups(keys, n_expert, n_used)?;
        Ok(Some(Self {
            n_expert,
            n_used,
            n_ff_expert,
            n_ff_shared: match shared_width(keys, n_ff_expert)? {
                0 if defaults.has_shared => n_ff,
                n_ff_shared => n_ff_shared,
            },
            gating: gating(keys, defaults.gating)?,
            normalize: keys.flag("expert_weights_norm")?.unwrap_or(defaults.normalize),
            weights_scale: keys.nonzero_float("expert_weights_scale")?.unwrap_or(1.0),
            n_group,
            n_group_used,
            n_leading_dense: keys.count("leading_dense_block_count")?.unwrap_or(0),
        }))
    }
}

/// Refuses what the metadata says and no family computes.
fn refuse_variants(keys: &Keys<'_>) -> Result<(), ArchError> {
    for name in ["moe_every_n_layers", "experts_per_group", "expert_chunk_feed_forward_length"] {
        if let Some(n) = keys.count(name)?.filter(|&n| n > 1) {
            return Err(keys.value_error(name, &n, "such mixtures are not supported"));
        }
    }
    Ok(())
}

fn gating(keys: &Keys<'_>, default: Gating) -> Result<Gating, ArchError> {
    match keys.count("expert_gating_func")? {
        None | Some(0) => Ok(default),
        Some(1) => Ok(Gating::Softmax),
        Some(2) => Ok(Gating::Sigmoid),
        Some(3) => Ok(Gating::SoftmaxOfChosen),
        Some(n) => Err(keys.value_error(
            "expert_gating_func",
            &n,
            "only 1 (softmax), 2 (sigmoid) and 3 (softmax of the chosen) are supported",
        )),
    }
}

fn shared_width(keys: &Keys<'_>, n_ff_expert: usize) -> Result<usize, ArchError> {
    if let Some(n) = keys.count("expert_shared_feed_forward_length")? {
        return Ok(n);
    }
    Ok(keys.count("expert_shared_count")?.unwrap_or(0).saturating_mul(n_ff_expert))
}

/// Number of groups, and how many of them a token uses.
fn groups(keys: &Keys<'_>, n_expert: usize, n_used: usize) -> Result<(usize, usize), ArchError> {
    let n_group = keys.count("expert_group_count")?.unwrap_or(1).max(1);
    let n_group_used = keys.count("expert_group_used_count")?.unwrap_or(n_group);
    if !n_expert.is_multiple_of(n_group) {
        let reason = "experts do not divide into so many groups";
        return Err(keys.value_error("expert_group_count", &n_group, reason));
    }
    let n_group_used = if n_group == 1 { 1 } else { n_group_used };
    if n_group_used > n_group || n_group_used * (n_expert / n_group) < n_used {
        let reason = "so many groups are not there, or have too few experts for a token";
        return Err(keys.value_error("expert_group_used_count", &n_group_used, reason));
    }
    Ok((n_group, n_group_used))
}

#[cfg(test)]
mod tests {
    use frank_gguf::{Metadata, Value};

    use super::*;

    const DEFAULTS: MoeDefaults = MoeDefaults {
        required: false,
        gating: Gating::Softmax,
        normalize: true,
        width: ExpertWidth::FeedForwardByUsed,
        has_shared: false,
    };

    fn read(entries: &[(&str, u32)]) -> Result<Option<MoeShape>, ArchError> {
        let entries = entries.iter().map(|&(key, n)| (format!("x.{key}"), Value::U32(n)));
        let metadata = Metadata::new(entries.collect()).expect("no key twice");
        MoeShape::read(&Keys::new(&metadata, "x"), DEFAULTS, 64)
    }

    #[test]
    fn what_a_file_does_not_say_is_the_familys_default() {
        let moe = read(&[("expert_count", 8), ("expert_used_count", 2)]);
        let expected = MoeShape {
            n_expert: 8,
            n_used: 2,
            n_ff_expert: 32,
            n_ff_shared: 0,
            gating: Gating::Softmax,
            normalize: true,
            weights_scale: 1.0,
            n_group: 1,
            n_group_used: 1,
            n_leading_dense: 0,
        };
        assert_eq!(moe.expect("good keys"), Some(expected));
        assert_eq!(read(&[]).expect("no experts"), None);
        assert_eq!(read(&[("expert_count", 0)]).expect("no experts"), None);
    }

    #[test]
    fn an_expert_that_every_token_uses_has_the_size_of_an_mlp_where_no_key_gives_another() {
        let metadata = |n_shared: u32| {
            let keys = ["expert_count", "expert_used_count", "expert_shared_feed_forward_length"];
            let entries = keys.into_iter().zip([8, 2, n_shared]);
            let entries = entries.map(|(key, n)| (format!("x.{key}"), Value::U32(n)));
            Metadata::new(entries.collect()).expect("no key twice")
        };
        let width = |n_shared, has_shared| {
            let defaults = MoeDefaults { has_shared, ..DEFAULTS };
            let moe = MoeShape::read(&Keys::new(&metadata(n_shared), "x"), defaults, 64);
            moe.expect("good keys").expect("experts").n_ff_shared
        };
        assert_eq!([width(0, true), width(48, true), width(0, false)], [64, 48, 0]);
    }

    #[test]
    fn a_family_that_always_has_experts_needs_their_number() {
        let metadata = Metadata::new(Vec::new()).expect("no key twice");
        let defaults = MoeDefaults { required: true, ..DEFAULTS };
        let error = MoeShape::read(&Keys::new(&metadata, "x"), defaults, 64).expect_err("no key");
        assert_eq!(error.to_string(), "metadata key x.expert_count is missing");
    }

    #[test]
    fn counts_that_cannot_be_are_refused_by_key_and_value() {
        let check = |more: &[(&str, u32)], expected: &str| {
            let mut entries = vec![("expert_count", 8), ("expert_used_count", 2)];
            entries.retain(|(key, _)| more.iter().all(|(other, _)| key != other));
            entries.extend(more);
            let error = read(&entries).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[("expert_count", 65_537)], "x.expert_count is 65537");
        check(&[("expert_used_count", 9)], "x.expert_used_count is 9: there are fewer experts");
        check(&[("expert_used_count", 0)], "x.expert_used_count is 0");
        check(&[("expert_gating_func", 4)], "x.expert_gating_func is 4: only 1 (softmax)");
        check(&[("expert_group_count", 3)], "x.expert_group_count is 3");
        check(&[("expert_feed_forward_length", 0)], "x.expert_feed_forward_length is 0");
        check(&[("moe_every_n_layers", 2)], "x.moe_every_n_layers is 2");
        let groups = |n, used| [("expert_group_count", n), ("expert_group_used_count", used)];
        check(&groups(4, 5), "x.expert_group_used_count is 5");
        check(&groups(8, 1), "x.expert_group_used_count is 1");
    }
}
