//! Shares the rows of a step among sequences. A pure function of what each has to compute.

/// Shares `budget` rows among sequences that want `wanted` rows each, oldest first; 0 wants none in this step.
/// Returns the rows of each.
///
/// Those that want one row come first: they decode. `rotation` picks which of them is first when there are more than
/// rows. The others share the rest equally; what does not divide, and what some do not need, goes to the oldest. When
/// there are fewer rows left than prompts, they take turns.
pub(crate) fn share_rows(wanted: &[usize], budget: usize, rotation: usize) -> Vec<usize> {
    let mut rows = vec![0; wanted.len()];
    let mut left = budget;
    let in_turn = |is_wanted: fn(usize) -> bool| {
        let n = wanted.len();
        (0..n).map(move |i| (i + rotation) % n).filter(move |&i| is_wanted(wanted[i]))
    };
    for i in in_turn(|wanted| wanted == 1).take(left) {
        rows[i] = 1;
        left -= 1;
    }
    let n_prompts = in_turn(|wanted| wanted > 1).count();
    if left < n_prompts {
        in_turn(|wanted| wanted > 1).take(left).for_each(|i| rows[i] = 1);
        return rows;
    }
    let share = left.checked_div(n_prompts).unwrap_or(0);
    for most in [share, usize::MAX] {
        for (rows, &wanted) in rows.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted > 1) {
            let more = (wanted - *rows).min(most).min(left);
            *rows += more;
            left -= more;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: &[usize], budget: usize, expected: &[usize]) {
        assert_eq!(share_rows(wanted, budget, 0), expected);
    }

    #[test]
    fn decode_rows_come_before_prompts() {
        check(&[100, 1], 32, &[31, 1]);
        check(&[31, 1, 1], 2, &[0, 1, 1]);
    }

    #[test]
    fn prompts_share_what_is_left_and_the_oldest_gets_the_rest() {
        check(&[100, 100, 100], 32, &[12, 10, 10]);
        check(&[1, 40, 40], 65, &[1, 32, 32]);
    }

    #[test]
    fn a_short_prompt_leaves_its_share_to_the_oldest() {
        check(&[100, 4, 100], 30, &[16, 4, 10]);
        check(&[5, 4], 30, &[5, 4]);
    }

    #[test]
    fn more_sequences_than_rows_take_turns() {
        for wanted in [1, 9] {
            let served: Vec<_> = (0..3).map(|turn| share_rows(&[wanted; 3], 1, turn)).collect();
            assert_eq!(served, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
        }
    }

    #[test]
    fn nothing_to_do_is_an_empty_step() {
        check(&[], 32, &[]);
        check(&[0, 0], 32, &[0, 0]);
    }
}
