//! What happens to a row before any stage: logits that are no numbers, biases, banned tokens and the constraint's mask.
//!
//! A token that must not be drawn gets negative infinity for its logit.

use super::SampleContext;
use super::candidates::largest;

/// Bans every logit that is NaN or an infinity; false when nothing is left.
pub(super) fn drop_non_finite(logits: &mut [f32]) -> bool {
    for logit in &mut *logits {
        *logit = if logit.is_finite() { *logit } else { f32::NEG_INFINITY };
    }
    is_any_left(logits)
}

/// Applies biases, then bans; false when nothing is left.
pub(super) fn apply(logits: &mut [f32], bias: &[(u32, f32)], context: &SampleContext<'_>) -> bool {
    for &(token_id, bias) in bias {
        if let Some(logit) = logits.get_mut(token_id as usize)
            && *logit > f32::NEG_INFINITY
        {
            let biased = (*logit + bias).min(f32::MAX);
            // A finite bias moves a token and never bans it.
            *logit = if bias.is_finite() { biased.max(f32::MIN) } else { biased };
        }
    }
    for &token_id in context.banned {
        if let Some(logit) = logits.get_mut(token_id as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
    if let Some(mask) = context.allowed {
        apply_mask(logits, mask);
    }
    is_any_left(logits)
}

fn apply_mask(logits: &mut [f32], mask: &[u32]) {
    let words = mask.iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in logits.chunks_mut(32).zip(words) {
        match word {
            0 => logits.fill(f32::NEG_INFINITY),
            u32::MAX => {}
            _ => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    *logit = if word >> bit & 1 == 1 { *logit } else { f32::NEG_INFINITY };
                }
            }
        }
    }
}

fn is_any_left(logits: &[f32]) -> bool {
    largest(logits) > f32::NEG_INFINITY
}
