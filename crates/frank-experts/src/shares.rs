//! How many slots each layer may call its own: the same for all, except where a layer has no use for so many.

/// Shares of `n_slots` for layers with these numbers of streamed experts, as equal as they can be: none has more than
/// it has experts, and what one cannot use goes to the others, first to the first.
///
/// The sum is `n_slots`, or all streamed experts when there are fewer.
pub(crate) fn shares(n_streamed: &[usize], n_slots: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..n_streamed.len()).collect();
    by_size.sort_by_key(|&layer| (n_streamed[layer], std::cmp::Reverse(layer)));
    let mut shares = vec![0; n_streamed.len()];
    let mut left = n_slots;
    for (n_done, &layer) in by_size.iter().enumerate() {
        let equal = left / (n_streamed.len() - n_done);
        shares[layer] = n_streamed[layer].min(equal);
        left -= shares[layer];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n_streamed: &[usize], n_slots: usize, expected: &[usize]) {
        assert_eq!(shares(n_streamed, n_slots), expected, "{n_slots} slots for {n_streamed:?}");
    }

    #[test]
    fn slots_are_shared_equally_and_the_rest_goes_to_the_first() {
        check(&[8, 8, 8], 12, &[4, 4, 4]);
        check(&[8, 8, 8], 14, &[5, 5, 4]);
        check(&[8, 8, 8], 2, &[1, 1, 0]);
    }

    #[test]
    fn what_a_layer_cannot_use_goes_to_the_others() {
        check(&[0, 2, 8, 8], 12, &[0, 2, 5, 5]);
        check(&[8, 1, 8], 16, &[8, 1, 7]);
        check(&[3, 2], 100, &[3, 2]);
        check(&[], 5, &[]);
    }
}
