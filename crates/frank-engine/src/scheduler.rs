//! Which sequences get how many rows in the next step. A pure function of what each has computed.
//!
//! There is no prefill phase and no decode phase: each sequence catches up with the tokens that it knows. A
//! sequence with one token to go is decoding; one with more is reading its prompt.

/// How far one running sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tokens known: prompt and answer so far.
    pub known: usize,
    /// Tokens whose keys and values are in the cache; always below `known`.
    pub computed: usize,
}

/// Rows of one sequence in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Index of the sequence in the slice given to [`plan_step`].
    pub sequence: usize,
    /// Rows, from `computed` on; at least 1.
    pub n_rows: usize,
    /// Whether the last row is the last known token, so that its logits give the next one.
    pub samples: bool,
}

/// Shares `budget` rows among `sequences`, oldest first.
///
/// Sequences that decode come first, so that no prompt stalls a running answer; what is left goes to prompts,
/// oldest first, so that the oldest prompt always moves. `rotation` picks which decoding sequence comes first
/// when there are more of them than rows.
#[must_use]
pub fn plan_step(sequences: &[Progress], budget: usize, rotation: usize) -> Vec<Rows> {
    let mut left = budget;
    let mut rows = Vec::with_capacity(sequences.len());
    let n = sequences.len();
    for i in (0..n).map(|i| (i + rotation) % n) {
        if left > 0 && sequences[i].known - sequences[i].computed == 1 {
            rows.push(Rows { sequence: i, n_rows: 1, samples: true });
            left -= 1;
        }
    }
    for (i, progress) in sequences.iter().enumerate() {
        let wanted = progress.known - progress.computed;
        if left > 0 && wanted > 1 {
            let n_rows = wanted.min(left);
            rows.push(Rows { sequence: i, n_rows, samples: n_rows == wanted });
            left -= n_rows;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sequences: &[(usize, usize)], budget: usize, expected: &[(usize, usize, bool)]) {
        let sequences: Vec<_> =
            sequences.iter().map(|&(known, computed)| Progress { known, computed }).collect();
        let rows: Vec<_> = plan_step(&sequences, budget, 0)
            .into_iter()
            .map(|r| (r.sequence, r.n_rows, r.samples))
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn decode_rows_and_a_prompt_chunk_share_a_step() {
        check(&[(100, 0), (20, 19)], 32, &[(1, 1, true), (0, 31, false)]);
        check(&[(100, 69), (20, 19)], 32, &[(1, 1, true), (0, 31, true)]);
    }

    #[test]
    fn the_oldest_prompt_moves_first() {
        check(&[(40, 0), (40, 0)], 64, &[(0, 40, true), (1, 24, false)]);
    }

    #[test]
    fn more_decoding_sequences_than_rows_take_turns() {
        let sequences = [Progress { known: 5, computed: 4 }; 3];
        let served: Vec<_> =
            (0..3).map(|turn| plan_step(&sequences, 1, turn)[0].sequence).collect();
        assert_eq!(served, [0, 1, 2]);
    }

    #[test]
    fn nothing_to_do_is_an_empty_step() {
        check(&[], 32, &[]);
    }
}
