//! The tokens that may still be drawn: first the whole row of logits, then, once a stage has cut it, a list.
//!
//! A row of a large vocabulary is costly to copy and to sort, and after one cut there is little left to do either with.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::softmax::Softmax;

/// Logits that are compared with a floor at once.
const STRIDE: usize = 64;

/// A token that may be drawn, with a finite logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) token_id: u32,
    pub(super) logit: f32,
}

impl Candidate {
    /// Most likely first; of equals the lower id first.
    pub(super) fn order(a: &Self, b: &Self) -> Ordering {
        b.logit.total_cmp(&a.logit).then(a.token_id.cmp(&b.token_id))
    }
}

/// What was drawn.
pub(super) struct Drawn {
    pub(super) token_id: u32,
    /// Its probability among the candidates.
    pub(super) probability: f64,
}

/// The candidates. There is always at least one.
pub(super) struct Candidates<'a> {
    /// While `is_row`: token `t` is a candidate if `row[t]` is not negative infinity.
    row: &'a mut [f32],
    /// While not `is_row`: the candidates.
    list: &'a mut Vec<Candidate>,
    is_row: bool,
}

impl<'a> Candidates<'a> {
    /// All of `row`, where one logit at least is finite and all others are negative infinity; `list` is scratch.
    pub(super) fn new(row: &'a mut [f32], list: &'a mut Vec<Candidate>) -> Self {
        Self { row, list, is_row: true }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        if self.is_row {
            self.row.iter().filter(|&&logit| logit > f32::NEG_INFINITY).count()
        } else {
            self.list.len()
        }
    }

    /// Tokens of the vocabulary, candidates or not.
    pub(super) fn n_vocab(&self) -> usize {
        self.row.len()
    }

    /// The largest logit.
    pub(super) fn max(&self) -> f32 {
        if self.is_row {
            largest(self.row)
        } else {
            self.list.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
        }
    }

    /// Runs `f` over the logits, in no stated order; negative infinities may be among them.
    pub(super) fn with_logits<T>(&self, f: impl FnOnce(&[f32]) -> T) -> T {
        if self.is_row {
            f(self.row)
        } else {
            f(&self.list.iter().map(|c| c.logit).collect::<Vec<_>>())
        }
    }

    /// The probabilities of the candidates.
    pub(super) fn softmax(&self) -> Softmax {
        let max = self.max();
        self.with_logits(|logits| Softmax::of(logits, max))
    }

    /// Changes the logits of the candidates in `changes`, which stay finite.
    pub(super) fn change<T>(
        &mut self,
        changes: &BTreeMap<u32, T>,
        change: impl Fn(f32, &T) -> f32,
    ) {
        let finite = |logit: f32, by| change(logit, by).clamp(f32::MIN, f32::MAX);
        if self.is_row {
            for (&token_id, by) in changes {
                if let Some(logit) = self.row.get_mut(token_id as usize)
                    && *logit > f32::NEG_INFINITY
                {
                    *logit = finite(*logit, by);
                }
            }
        } else {
            for candidate in &mut *self.list {
                if let Some(by) = changes.get(&candidate.token_id) {
                    candidate.logit = finite(candidate.logit, by);
                }
            }
        }
    }

    /// Divides all logits by a positive number.
    pub(super) fn divide(&mut self, by: f32) {
        if self.is_row {
            for logit in &mut *self.row {
                // One that overflows is lost beside the largest, whose quotient the caller knows to be finite.
                *logit /= by;
            }
        } else {
            for candidate in &mut *self.list {
                candidate.logit = (candidate.logit / by).max(f32::MIN);
            }
        }
    }

    /// Keeps those whose logit is at least `floor`, and where they are fewer than `min_keep` the most likely ones.
    pub(super) fn keep_at_least(&mut self, floor: f32, min_keep: usize) {
        // Negative infinity would let in the tokens of the row that are no candidates.
        let floor = floor.max(f32::MIN);
        if self.is_row {
            self.list.clear();
            push_where(self.row, self.list, |logit| logit >= floor);
            if self.list.len() < min_keep {
                self.keep_top(min_keep);
            } else {
                self.is_row = false;
            }
        } else if self.list.iter().filter(|c| c.logit >= floor).count() < min_keep {
            self.keep_top(min_keep);
        } else {
            self.list.retain(|c| c.logit >= floor);
        }
    }

    /// Keeps the `k` most likely ones, at least one.
    pub(super) fn keep_top(&mut self, k: usize) {
        let k = k.max(1);
        if self.is_row {
            if k < self.row.len() {
                collect_top(self.row, k, self.list);
                self.is_row = false;
            }
        } else {
            shrink(self.list, k);
        }
    }

    /// The `n` most likely ones, the most likely first; fewer when there are not so many.
    pub(super) fn sorted_head(&mut self, n: usize) -> &[Candidate] {
        let n = n.max(1);
        if self.is_row {
            collect_top(self.row, n, self.list);
        } else if n < self.list.len() {
            self.list.select_nth_unstable_by(n - 1, Candidate::order);
        }
        let n = n.min(self.list.len());
        self.list[..n].sort_unstable_by(Candidate::order);
        &self.list[..n]
    }

    /// Keeps the first `n`, at least one, of what [`Candidates::sorted_head`] gave last.
    pub(super) fn keep_head(&mut self, n: usize) {
        self.list.truncate(n.max(1));
        self.is_row = false;
    }

    /// Takes out the first `n` of what [`Candidates::sorted_head`] gave last, which must not be all candidates.
    pub(super) fn drop_head(&mut self, n: usize) {
        if self.is_row {
            for candidate in &self.list[..n] {
                self.row[candidate.token_id as usize] = f32::NEG_INFINITY;
            }
        } else {
            self.list.drain(..n);
        }
    }

    /// Those whose logit `is_wanted`, by no stated order.
    pub(super) fn with_logit(&self, is_wanted: impl Fn(f32) -> bool) -> Vec<Candidate> {
        let mut wanted = Vec::new();
        if self.is_row {
            push_where(self.row, &mut wanted, |logit| {
                logit > f32::NEG_INFINITY && is_wanted(logit)
            });
        } else {
            wanted.extend(self.list.iter().filter(|c| is_wanted(c.logit)));
        }
        wanted
    }

    /// Keeps `last`, which is one of them, and those that come before it.
    pub(super) fn keep_up_to(&mut self, last: Candidate) {
        if self.is_row {
            self.list.clear();
            push_where(self.row, self.list, |logit| logit >= last.logit);
            self.is_row = false;
        }
        self.list.retain(|c| Candidate::order(c, &last).is_le());
    }

    /// All of them as a list in no stated order, for a stage that orders them its own way.
    pub(super) fn as_list(&mut self) -> &mut Vec<Candidate> {
        if self.is_row {
            self.list.clear();
            push_where(self.row, self.list, |logit| logit > f32::NEG_INFINITY);
            self.is_row = false;
        }
        self.list
    }

    /// Draws one by its probability. `share` gives a number in [0, 1), and is not asked when there is one candidate.
    pub(super) fn draw(&mut self, share: impl FnOnce() -> f64) -> Drawn {
        if !self.is_row
            && let [only] = self.list[..]
        {
            return Drawn { token_id: only.token_id, probability: 1.0 };
        }
        let max = self.max();
        if self.is_row {
            let softmax = Softmax::of(self.row, max);
            let index = softmax.index_at(self.row, share());
            let token_id = u32::try_from(index).expect("a vocabulary has fewer than 2^32 tokens");
            return Drawn { token_id, probability: softmax.probability(self.row[index]) };
        }
        self.list.sort_unstable_by_key(|c| c.token_id);
        let logits: Vec<f32> = self.list.iter().map(|c| c.logit).collect();
        let softmax = Softmax::of(&logits, max);
        let drawn = self.list[softmax.index_at(&logits, share())];
        Drawn { token_id: drawn.token_id, probability: softmax.probability(drawn.logit) }
    }
}

/// The largest of `logits`; negative infinity when there is none.
pub(super) fn largest(logits: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 16];
    for chunk in logits.chunks(16) {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            // Not `f32::max`, whose care for NaN would keep the loop from being one instruction.
            *lane = if logit > *lane { logit } else { *lane };
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Appends the tokens of `row` whose logit `is_wanted`.
fn push_where(row: &[f32], list: &mut Vec<Candidate>, is_wanted: impl Fn(f32) -> bool) {
    for (chunk, first) in row.chunks(STRIDE).zip((0u32..).step_by(STRIDE)) {
        if chunk.iter().fold(false, |any, &logit| any | is_wanted(logit)) {
            let wanted = chunk.iter().zip(first..).filter(|(logit, _)| is_wanted(**logit));
            list.extend(wanted.map(|(&logit, token_id)| Candidate { token_id, logit }));
        }
    }
}

/// Replaces `list` by the `k` most likely tokens of `row`, in no stated order.
///
/// One pass in the order of ids: what does not exceed the `k`-th best so far is passed over, so that of equals the lower
/// ids stay.
pub(super) fn collect_top(row: &[f32], k: usize, list: &mut Vec<Candidate>) {
    let room = k.saturating_mul(2).max(k.saturating_add(1024));
    let mut floor = f32::NEG_INFINITY;
    list.clear();
    for (chunk, first) in row.chunks(STRIDE).zip((0u32..).step_by(STRIDE)) {
        if !chunk.iter().fold(false, |any, &logit| any | (logit > floor)) {
            continue;
        }
        let better = chunk.iter().zip(first..).filter(|(logit, _)| **logit > floor);
        list.extend(better.map(|(&logit, token_id)| Candidate { token_id, logit }));
        if list.len() >= room {
            shrink(list, k);
            floor = list[k - 1].logit;
        }
    }
    shrink(list, k);
}

/// Keeps the `k >= 1` first of `list`, the last of which then is the last of these by order.
fn shrink(list: &mut Vec<Candidate>, k: usize) {
    if k < list.len() {
        list.select_nth_unstable_by(k - 1, Candidate::order);
        list.truncate(k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits with many equals, whose top is spread over the row.
    fn row() -> Vec<f32> {
        (0..5000u32).map(|i| f32::from(u16::try_from(i * 7919 % 1013).expect("small"))).collect()
    }

    fn by_sorting(row: &[f32], k: usize) -> Vec<Candidate> {
        let all = row.iter().zip(0u32..).filter(|(logit, _)| logit.is_finite());
        let mut all: Vec<_> = all.map(|(&logit, token_id)| Candidate { token_id, logit }).collect();
        all.sort_by(Candidate::order);
        all.truncate(k);
        all
    }

    #[test]
    fn the_top_of_a_row_is_that_of_a_sort() {
        let mut row = row();
        row[17] = f32::NEG_INFINITY;
        let mut list = Vec::new();
        for k in [1, 2, 40, 1023, 1024, 1025, 4998, 4999, 5000, 6000] {
            collect_top(&row, k, &mut list);
            list.sort_by(Candidate::order);
            assert_eq!(list, by_sorting(&row, k), "k = {k}");
        }
        collect_top(&[1.0; 3000], 2, &mut list);
        list.sort_by(Candidate::order);
        assert_eq!(list.iter().map(|c| c.token_id).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn row_and_list_give_the_same_head() {
        let (mut row, sorted) = (row(), by_sorting(&row(), 5000));
        let mut list = Vec::new();
        let mut candidates = Candidates::new(&mut row, &mut list);
        assert_eq!(candidates.sorted_head(10), &sorted[..10]);
        candidates.as_list();
        assert_eq!(candidates.sorted_head(10), &sorted[..10]);
        candidates.keep_at_least(1e9, 3);
        assert_eq!(candidates.sorted_head(10), &sorted[..3]);
    }

    #[test]
    fn a_floor_below_all_numbers_lets_no_banned_token_in() {
        let (mut row, mut list) = ([1.0, f32::NEG_INFINITY, f32::MIN], Vec::new());
        let mut candidates = Candidates::new(&mut row, &mut list);
        candidates.keep_at_least(f32::NEG_INFINITY, 1);
        assert_eq!(candidates.len(), 2);
    }

    #[test]
    fn the_largest_of_a_row_is_found_in_any_lane() {
        for place in 0..70 {
            let mut row = vec![-1.0; 70];
            row[place] = 1.0;
            assert_eq!(largest(&row), 1.0);
        }
        assert_eq!(largest(&[]), f32::NEG_INFINITY);
    }
}
