//! Which experts each row uses, with which weights, and where its copies lie when rows are sorted by expert. Never
//! multiplies anything.

use std::cmp::{Ordering, Reverse};

/// How the score of a group of experts is made of theirs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum GroupScore {
    /// The sum of the best two.
    #[default]
    SumOfTopTwo,
    /// The best.
    Max,
}

/// Experts in groups, of which a token may use the best few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Groups {
    pub(crate) n_group: usize,
    pub(crate) n_used: usize,
    pub(crate) score: GroupScore,
}

/// The routes of the rows of a step in one layer. Memory for rows is taken once.
///
/// A row's copies are counted in *slots*: rows sorted by expert, those of one expert in their own order.
#[derive(Debug)]
pub(crate) struct Routes {
    n_used: usize,
    /// `[n_rows, n_used]`: a row's experts, the best first.
    pub(crate) chosen: Vec<u32>,
    /// As `chosen`: their weights.
    pub(crate) weights: Vec<f32>,
    /// As `chosen`: their slots.
    pub(crate) slots: Vec<u32>,
    /// `[n_rows * n_used]`: the row in each slot.
    pub(crate) rows: Vec<u32>,
    /// Experts that any row uses: rising, or from the most wanted on after [`Routes::rank_experts`].
    pub(crate) wanted: Vec<u32>,
    /// The first slot of each of `wanted`, and at last the number of slots.
    starts: Vec<u32>,
    /// `[n_expert]`: scratch.
    next: Vec<u32>,
    /// As `next`: what experts are chosen by.
    scores: Vec<f32>,
    /// Scratch: experts, or groups, from the best on.
    order: Vec<u32>,
}

impl Routes {
    /// Bytes for one row of a step.
    pub(crate) fn row_bytes(n_used: usize) -> usize {
        n_used * (size_of::<f32>() + 3 * size_of::<u32>())
    }

    pub(crate) fn new(n_rows_max: usize, n_expert: usize, n_used: usize) -> Self {
        let slots = || Vec::with_capacity(n_rows_max * n_used);
        Self {
            n_used,
            chosen: slots(),
            weights: Vec::with_capacity(n_rows_max * n_used),
            slots: slots(),
            rows: slots(),
            wanted: Vec::with_capacity(n_expert),
            starts: Vec::with_capacity(n_expert + 1),
            next: Vec::with_capacity(n_expert),
            scores: Vec::with_capacity(n_expert),
            order: Vec::with_capacity(n_expert),
        }
    }

    /// Chooses the experts of each row of `gates`, `[n_rows, n_expert]`, by the highest of gate plus each of `biases`,
    /// `[n_expert]`; of equal scores the lower expert comes first. An expert's weight is its gate, without the biases.
    pub(crate) fn choose(
        &mut self,
        gates: &[f32],
        n_expert: usize,
        biases: &[&[f32]],
        groups: Option<Groups>,
    ) {
        self.chosen.clear();
        self.weights.clear();
        for gates in gates.chunks_exact(n_expert) {
            self.scores.clear();
            // Adding 0 makes one of both zeros.
            self.scores.extend(gates.iter().map(|gate| gate + 0.0));
            for bias in biases {
                self.scores.iter_mut().zip(*bias).for_each(|(score, bias)| *score += bias);
            }
            candidates(&self.scores, groups, &mut self.order);
            keep_best(&self.scores, self.n_used, &mut self.order);
            self.chosen.extend(&self.order);
            self.weights.extend(self.order.iter().map(|&expert| gates[expert as usize]));
        }
    }

    /// Divides the weights of each row by their sum, made in the order of their experts.
    pub(crate) fn normalize(&mut self) {
        /// Keeps a row without any weight from becoming NaN, and is lost in every other sum.
        const TINY: f32 = 1e-20;
        for weights in self.weights.chunks_exact_mut(self.n_used) {
            let sum = weights.iter().sum::<f32>() + TINY;
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
    }

    /// Gives each of a row's copies its slot.
    pub(crate) fn sort_by_expert(&mut self, n_expert: usize) {
        self.next.clear();
        self.next.resize(n_expert, 0);
        self.chosen.iter().for_each(|&expert| self.next[expert as usize] += 1);
        self.wanted.clear();
        self.starts.clear();
        let mut first = 0;
        for (expert, next) in (0..).zip(&mut self.next) {
            let count = std::mem::replace(next, first);
            if count > 0 {
                self.wanted.push(expert);
                self.starts.push(first);
                first += count;
            }
        }
        self.starts.push(first);
        self.slots.clear();
        self.rows.clear();
        self.rows.resize(self.chosen.len(), 0);
        for (row, experts) in (0..).zip(self.chosen.chunks_exact(self.n_used)) {
            for &expert in experts {
                let slot = self.next[expert as usize];
                self.next[expert as usize] += 1;
                self.slots.push(slot);
                self.rows[slot as usize] = row;
            }
        }
    }

    /// Lists the experts that any row uses, from the most wanted on: a row gives its first expert as many points as it uses
    /// experts, and one less to each that follows. Of one row's the order is theirs.
    pub(crate) fn rank_experts(&mut self, n_expert: usize) {
        self.next.clear();
        self.next.resize(n_expert, 0);
        for experts in self.chosen.chunks_exact(self.n_used) {
            for (points, &expert) in (1..).zip(experts.iter().rev()) {
                self.next[expert as usize] += points;
            }
        }
        self.wanted.clear();
        self.wanted.extend((0..as_u32(n_expert)).filter(|&expert| self.next[expert as usize] > 0));
        let scores = &self.next;
        self.wanted.sort_unstable_by_key(|&expert| (Reverse(scores[expert as usize]), expert));
    }

    /// The slots of the expert at `index` of `wanted`.
    pub(crate) fn slots_of(&self, index: usize) -> std::ops::Range<usize> {
        self.starts[index] as usize..self.starts[index + 1] as usize
    }
}

/// The higher score first, then the lower index.
fn best_first(scores: &[f32]) -> impl Fn(&u32, &u32) -> Ordering {
    |&a, &b| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b))
}

/// Keeps the best `n` of `order`, sorted.
fn keep_best(scores: &[f32], n: usize, order: &mut Vec<u32>) {
    if n < order.len() {
        order.select_nth_unstable_by(n, best_first(scores));
        order.truncate(n);
    }
    order.sort_unstable_by(best_first(scores));
}

/// Writes the experts that may be chosen to `out`.
fn candidates(scores: &[f32], groups: Option<Groups>, out: &mut Vec<u32>) {
    out.clear();
    let Some(Groups { n_group, n_used, score }) = groups else {
        return out.extend((0..).take(scores.len()));
    };
    let size = scores.len() / n_group;
    let group_scores: Vec<f32> =
        scores.chunks_exact(size).map(|scores| group_score(scores, score)).collect();
    let mut best: Vec<u32> = (0..).take(n_group).collect();
    keep_best(&group_scores, n_used, &mut best);
    for group in best {
        out.extend((group * as_u32(size)..).take(size));
    }
}

fn group_score(scores: &[f32], score: GroupScore) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &score in scores {
        if score > first {
            (first, second) = (score, first);
        } else if score > second {
            second = score;
        }
    }
    match score {
        GroupScore::SumOfTopTwo if scores.len() > 1 => first + second,
        GroupScore::SumOfTopTwo | GroupScore::Max => first,
    }
}

fn as_u32(n: usize) -> u32 {
    u32::try_from(n).expect("experts are counted in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(gates: &[f32], n_used: usize, biases: &[&[f32]], groups: Option<Groups>) -> Vec<u32> {
        let mut routes = Routes::new(1, gates.len(), n_used);
        routes.choose(gates, gates.len(), biases, groups);
        assert!(
            routes.weights.iter().zip(&routes.chosen).all(|(&w, &e)| w == gates[e as usize]),
            "a weight is the gate without the bias"
        );
        routes.chosen
    }

    #[test]
    fn the_highest_scores_are_chosen_and_of_equal_ones_the_lower_expert() {
        assert_eq!(chosen(&[0.1, 0.4, 0.2, 0.4, 0.3], 3, &[], None), [1, 3, 4]);
        assert_eq!(chosen(&[0.0, -0.0, 0.0, -1.0], 2, &[], None), [0, 1]);
        assert_eq!(chosen(&[0.5, 0.5, 0.5], 3, &[], None), [0, 1, 2]);
    }

    #[test]
    fn biases_change_the_choice_and_not_the_weight() {
        let gates = [0.4, 0.3, 0.2, 0.1];
        assert_eq!(chosen(&gates, 2, &[&[0.0, 0.0, 0.3, 0.0]], None), [2, 0]);
        assert_eq!(chosen(&gates, 1, &[&[0.0; 4], &[0.0, 0.0, 0.0, 1.0]], None), [3]);
    }

    #[test]
    fn only_experts_of_the_best_groups_are_chosen() {
        let groups = |score| Some(Groups { n_group: 3, n_used: 2, score });
        let gates = [0.9, 0.0, 0.5, 0.45, 0.3, 0.65];
        assert_eq!(chosen(&gates, 2, &[], groups(GroupScore::SumOfTopTwo)), [5, 2]);
        assert_eq!(chosen(&gates, 2, &[], groups(GroupScore::Max)), [0, 5]);
    }

    #[test]
    fn rows_lie_in_slots_by_expert_and_then_in_their_own_order() {
        let mut routes = Routes::new(3, 4, 2);
        routes.choose(&[1.0, 0.0, 3.0, 2.0, 0.0, 0.0, 2.0, 1.0, 5.0, 0.0, 4.0, 0.0], 4, &[], None);
        assert_eq!(routes.chosen, [2, 3, 2, 3, 0, 2]);
        routes.sort_by_expert(4);
        assert_eq!(routes.wanted, [0, 2, 3]);
        assert_eq!(routes.rows, [2, 0, 1, 2, 0, 1]);
        assert_eq!(routes.slots, [1, 4, 2, 5, 0, 3]);
        assert_eq!((0..3).map(|i| routes.slots_of(i)).collect::<Vec<_>>(), [0..1, 1..4, 4..6]);
    }

    #[test]
    fn experts_are_ranked_by_rows_and_within_one_row_as_it_ranks_them() {
        let ranked = |gates: &[f32]| {
            let mut routes = Routes::new(2, 4, 3);
            routes.choose(gates, 4, &[], None);
            routes.rank_experts(4);
            routes.wanted
        };
        assert_eq!(ranked(&[0.0, 3.0, 4.0, 5.0]), [3, 2, 1]);
        assert_eq!(ranked(&[0.0, 3.0, 4.0, 5.0, 9.0, 8.0, 0.0, 7.0]), [3, 0, 1, 2]);
    }

    #[test]
    fn weights_sum_to_one_and_a_row_without_weight_stays_zero() {
        let mut routes = Routes::new(2, 2, 2);
        routes.choose(&[0.25, 0.5, 0.0, 0.0], 2, &[], None);
        routes.normalize();
        assert_eq!(routes.weights, [0.5 / 0.75, 0.25 / 0.75, 0.0, 0.0]);
    }

    #[test]
    fn gates_that_are_no_numbers_choose_something() {
        assert_eq!(chosen(&[f32::NEG_INFINITY; 3], 2, &[], None), [0, 1]);
        let mut routes = Routes::new(1, 3, 2);
        routes.choose(&[f32::NAN; 3], 3, &[], None);
        assert_eq!(routes.chosen, [0, 1]);
    }
}
