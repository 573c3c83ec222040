//! Mirostat (Basu et al. 2020): draws at a target surprise, by a feedback on the bound of the surprise.

use super::candidates::{Candidate, Candidates};
use crate::sampling::{Mirostat, MirostatVersion};

/// Most likely tokens that the exponent of Zipf's law is estimated from.
const N_ESTIMATED: usize = 100;

/// Draws by `share` in [0, 1) and corrects `mu`, the bound of the surprise in bits.
pub(super) fn draw(
    candidates: &mut Candidates<'_>,
    mirostat: Mirostat,
    mu: &mut f64,
    share: f64,
) -> u32 {
    match mirostat.version {
        MirostatVersion::V1 => {
            let n_vocab = candidates.n_vocab();
            let k = top_k(candidates.sorted_head(N_ESTIMATED), n_vocab, *mu);
            candidates.keep_top(k);
        }
        MirostatVersion::V2 => {
            // A surprise of log_sum - logit nats is at most mu bits.
            let floor = candidates.softmax().log_sum() - *mu * std::f64::consts::LN_2;
            #[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
            candidates.keep_at_least(floor as f32, 1);
        }
    }
    let drawn = candidates.draw(|| share);
    let surprise = -drawn.probability.log2();
    *mu -= f64::from(mirostat.eta) * (surprise - f64::from(mirostat.tau));
    drawn.token_id
}

/// The k whose expected surprise is `mu`, by Zipf's law with the exponent that fits the `head` of a
/// vocabulary.
fn top_k(head: &[Candidate], n_vocab: usize, mu: f64) -> usize {
    let (mut sum_tb, mut sum_tt) = (0.0, 0.0);
    for (pair, rank) in head.windows(2).zip(1u32..) {
        let t = (f64::from(rank + 1) / f64::from(rank)).ln();
        sum_tb += t * f64::from(pair[0].logit - pair[1].logit);
        sum_tt += t * t;
    }
    let exponent = sum_tb / sum_tt;
    let epsilon = exponent - 1.0;
    #[expect(clippy::cast_precision_loss, reason = "a vocabulary has fewer than 2^53 tokens")]
    let k = (epsilon * mu.exp2() / (1.0 - (n_vocab as f64).powf(-epsilon))).powf(1.0 / exponent);
    // Not a number where all are equally likely or there is one candidate: then the estimate says nothing.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast saturates, and takes NaN for 0"
    )]
    let k = k as usize;
    k.clamp(1, n_vocab)
}
