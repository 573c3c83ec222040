//! What the names of tensors say: the layer, and whether they hold routed experts. Never looks at sizes.

/// The layer's number and the rest of `blk.N.rest`.
pub(crate) fn layer_and_part(name: &str) -> Option<(u32, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

/// The layer of a tensor of routed experts, and the expert where the tensor holds only one, as older files have them:
/// `blk.N.ffn_up_exps.weight`, `blk.N.ffn_up.E.weight`. `None` for all others, biases of experts among them.
pub(crate) fn expert_of(name: &str) -> Option<(u32, Option<u32>)> {
    let (layer, part) = layer_and_part(name)?;
    let part = part.strip_suffix(".weight")?;
    if part.ends_with("_exps") {
        return Some((layer, None));
    }
    let (part, expert) = part.split_once('.')?;
    let is_mlp = ["ffn_gate", "ffn_up", "ffn_down"].contains(&part);
    is_mlp.then(|| Some((layer, Some(expert.parse().ok()?))))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_told_from_all_other_tensors_by_their_names() {
        for (name, expected) in [
            ("blk.3.ffn_up_exps.weight", Some((3, None))),
            ("blk.3.ffn_gate_up_exps.weight", Some((3, None))),
            ("blk.12.ffn_down.7.weight", Some((12, Some(7)))),
            ("blk.3.ffn_up_exps.bias", None),
            ("blk.3.ffn_up.weight", None),
            ("blk.3.ffn_up_shexp.weight", None),
            ("blk.3.attn_q.7.weight", None),
            ("blk.x.ffn_up_exps.weight", None),
            ("ffn_up_exps.weight", None),
        ] {
            assert_eq!(expert_of(name), expected, "{name}");
        }
    }
}
