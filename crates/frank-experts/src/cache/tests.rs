//! Traces of wanted experts, and how many of them lie in a slot: against the best fixed choice and exact counts.

use std::collections::BTreeMap;

use super::SlotCache;

const N_LAYERS: usize = 4;
const N_EXPERTS: usize = 64;
const N_USED: usize = 4;

/// What each layer wants, token by token.
type Trace = Vec<Vec<Vec<u32>>>;

/// A small generator of even numbers in 0..1; the same ones each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `n` distinct experts, each as likely as its weight.
    fn draw(&mut self, weights: &[f64], n: usize) -> Vec<u32> {
        let mut drawn = Vec::new();
        while drawn.len() < n {
            let mut left = self.roll() * weights.iter().sum::<f64>();
            let at = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            let expert = at.unwrap_or(0) as u32;
            if !drawn.contains(&expert) {
                drawn.push(expert);
            }
        }
        drawn.sort_unstable();
        drawn
    }

    /// Weights `1 / rank^power` in any order.
    fn zipf(&mut self, power: f64) -> Vec<f64> {
        let mut ranks: Vec<(f64, usize)> =
            (1..=N_EXPERTS).map(|rank| (self.roll(), rank)).collect();
        ranks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranks.into_iter().map(|(_, rank)| (rank as f64).powf(-power)).collect()
    }
}

/// A token for each of `n`, whose layers draw by their weights.
fn drawn(dice: &mut Dice, weights: &[Vec<f64>], n: usize) -> Trace {
    (0..n).map(|_| weights.iter().map(|weights| dice.draw(weights, N_USED)).collect()).collect()
}

/// Every layer goes round and round `n_experts` experts.
fn cyclic(n_experts: usize, n_tokens: usize) -> Trace {
    let token = |token: usize| {
        let mut wanted: Vec<u32> =
            (0..N_USED).map(|i| ((token * N_USED + i) % n_experts) as u32).collect();
        wanted.sort_unstable();
        wanted.dedup();
        vec![wanted; N_LAYERS]
    };
    (0..n_tokens).map(token).collect()
}

fn cache(slots_per_layer: usize) -> SlotCache {
    SlotCache::new(&[(N_EXPERTS, N_EXPERTS); N_LAYERS], slots_per_layer * N_LAYERS)
}

/// A visit in waves, as the store makes it; gives the hits, and checks that no slot is lent twice at a time.
fn visit(cache: &mut SlotCache, layer: usize, wanted: &[u32]) -> usize {
    cache.begin_visit(layer);
    let (mut lent, mut missing) = (Vec::new(), Vec::new());
    for &expert in wanted {
        match cache.find(layer, expert) {
            Some(slot) => lent.push(slot),
            None => missing.push(expert),
        }
    }
    let n_hits = lent.len();
    let mut missing = missing.into_iter().peekable();
    while !lent.is_empty() || missing.peek().is_some() {
        while cache.may_claim(layer) {
            let Some(expert) = missing.next() else { break };
            lent.push(cache.claim(layer, expert).slot);
        }
        lent.sort_unstable();
        assert!(lent.windows(2).all(|pair| pair[0] != pair[1]), "a slot serves two experts");
        assert!(!lent.is_empty(), "a visit gets on");
        lent.drain(..).for_each(|slot| cache.give_back(slot));
    }
    n_hits
}

/// Share of wanted experts that were hit.
fn hit_rate(cache: &mut SlotCache, trace: &[Vec<Vec<u32>>]) -> f64 {
    let (mut hits, mut wanted) = (0, 0);
    for (layer, experts) in trace.iter().flat_map(|token| token.iter().enumerate()) {
        hits += visit(cache, layer, experts);
        wanted += experts.len();
    }
    hits as f64 / wanted as f64
}

/// The hit rate when each layer keeps the experts that the trace wants most often.
fn best_fixed(trace: &[Vec<Vec<u32>>], slots_per_layer: usize) -> f64 {
    let mut counts = vec![BTreeMap::new(); N_LAYERS];
    for (layer, experts) in trace.iter().flat_map(|token| token.iter().enumerate()) {
        experts.iter().for_each(|&expert| *counts[layer].entry(expert).or_insert(0) += 1);
    }
    let (mut hits, mut wanted) = (0, 0);
    for counts in counts {
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        wanted += counts.iter().sum::<usize>();
        hits += counts.iter().take(slots_per_layer).sum::<usize>();
    }
    hits as f64 / wanted as f64
}

/// The rate after the first tokens is at least `share` of the best fixed choice.
fn check_drawn(power: f64, slots_per_layer: usize, share: f64) {
    let mut dice = Dice(7);
    let weights: Vec<_> = (0..N_LAYERS).map(|_| dice.zipf(power)).collect();
    let trace = drawn(&mut dice, &weights, 1200);
    let mut cache = cache(slots_per_layer);
    hit_rate(&mut cache, &trace[..200]);
    let (got, best) =
        (hit_rate(&mut cache, &trace[200..]), best_fixed(&trace[200..], slots_per_layer));
    assert!(got >= share * best, "{got:.3} of {best:.3}, power {power}, {slots_per_layer} slots");
}

#[test]
fn even_draws_are_hit_as_often_as_slots_hold_experts() {
    check_drawn(0.0, 16, 0.85);
    check_drawn(0.0, 32, 0.9);
}

#[test]
fn what_is_wanted_often_stays() {
    for (slots_per_layer, share) in [(8, 0.85), (16, 0.92), (32, 0.95)] {
        check_drawn(1.0, slots_per_layer, share);
        check_drawn(1.5, slots_per_layer, share);
    }
}

/// Rates of a trace that goes round `n_experts`, after the first rounds.
fn check_cyclic(slots_per_layer: usize, n_experts: usize, least: f64) {
    let trace = cyclic(n_experts, 600);
    let mut cache = cache(slots_per_layer);
    hit_rate(&mut cache, &trace[..100]);
    let got = hit_rate(&mut cache, &trace[100..]);
    assert!(got >= least, "{got:.3} < {least:.3}, {n_experts} experts, {slots_per_layer} slots");
}

#[test]
fn a_scan_that_fits_is_read_once() {
    for n_experts in [1, 4, 15, 16] {
        check_cyclic(16, n_experts, 1.0);
    }
}

#[test]
fn a_scan_that_does_not_fit_is_hit_in_all_slots_but_a_few() {
    // The last thing read is the last to come again; evicting the oldest would hit nothing.
    for n_experts in [17, 18, 20, 32, 64] {
        let kept = (16 - N_USED) as f64 / n_experts as f64;
        check_cyclic(16, n_experts, 0.95 * kept);
    }
}

#[test]
fn a_cache_below_one_tokens_experts_is_hit_in_all_slots_but_one() {
    // Every token wants the same experts, and each layer has a slot too few.
    let trace: Trace = vec![vec![(0..8).collect(); N_LAYERS]; 100];
    let mut cache = cache(7);
    hit_rate(&mut cache, &trace[..2]);
    assert!(hit_rate(&mut cache, &trace[2..]) >= 6.0 / 8.0);
}

#[test]
fn another_topic_takes_over_within_a_hundred_tokens() {
    let mut dice = Dice(11);
    let mut cache = cache(16);
    for _topic in 0..3 {
        let weights: Vec<_> = (0..N_LAYERS).map(|_| dice.zipf(1.2)).collect();
        let trace = drawn(&mut dice, &weights, 400);
        hit_rate(&mut cache, &trace[..100]);
        let (got, best) = (hit_rate(&mut cache, &trace[100..]), best_fixed(&trace[100..], 16));
        assert!(got >= 0.88 * best, "{got:.3} of {best:.3}");
    }
}

#[test]
fn what_the_last_token_used_is_still_there_for_the_next() {
    // Of a token's experts about half are wanted by the next one again, the others are new.
    let mut dice = Dice(3);
    let mut wanted = vec![dice.draw(&[1.0; N_EXPERTS], N_USED); N_LAYERS];
    let mut again = 0;
    let trace: Trace = (0..800)
        .map(|_| {
            for layer in &mut wanted {
                let mut kept: Vec<u32> =
                    layer.iter().copied().filter(|_| dice.roll() < 0.5).collect();
                again += kept.len();
                while kept.len() < N_USED {
                    kept.extend(
                        dice.draw(&[1.0; N_EXPERTS], 1).iter().filter(|e| !layer.contains(e)),
                    );
                    kept.sort_unstable();
                    kept.dedup();
                }
                *layer = kept;
            }
            wanted.clone()
        })
        .collect();
    let got = hit_rate(&mut cache(8), &trace);
    let repeated = f64::from(again as u32) / (800 * N_LAYERS * N_USED) as f64;
    assert!(got >= 0.99 * repeated, "{got:.3}, {repeated:.3} wanted twice in a row");
}

#[test]
fn what_is_wanted_again_and_again_gets_in_beside_what_was_there_first() {
    let mut cache = SlotCache::new(&[(N_EXPERTS, N_EXPERTS)], 16);
    let first: Vec<u32> = (0..16).collect();
    visit(&mut cache, 0, &first);
    visit(&mut cache, 0, &first);
    // Each would push out the other if none of the first ever left.
    (0..8).for_each(|token| {
        visit(&mut cache, 0, &[20 + token % 2]);
    });
    assert_eq!(visit(&mut cache, 0, &[20, 21]), 2);
}

#[test]
fn a_layer_that_wants_everything_leaves_the_others_theirs() {
    let mut cache = cache(8);
    let few: Vec<Vec<u32>> = vec![vec![1, 5, 9, 13], vec![2, 5, 7, 11]];
    let all: Vec<u32> = (0..N_EXPERTS as u32).collect();
    let mut hits = 0;
    for round in 0..50 {
        visit(&mut cache, 0, &all);
        let found: usize =
            (1..N_LAYERS).map(|layer| visit(&mut cache, layer, &few[round % 2])).sum();
        hits += if round < 2 { 0 } else { found };
    }
    assert_eq!(hits, 48 * 3 * N_USED, "seven experts of a layer fit into its share");
}

#[test]
fn a_prompt_leaves_most_of_what_answers_use() {
    let mut dice = Dice(5);
    let weights: Vec<_> = (0..N_LAYERS).map(|_| dice.zipf(1.5)).collect();
    let trace = drawn(&mut dice, &weights, 400);
    let mut cache = cache(16);
    hit_rate(&mut cache, &trace[..200]);
    let all: Vec<u32> = (0..N_EXPERTS as u32).collect();
    (0..N_LAYERS).for_each(|layer| {
        visit(&mut cache, layer, &all);
    });
    let (after, later) =
        (hit_rate(&mut cache, &trace[200..205]), hit_rate(&mut cache, &trace[205..]));
    assert!(after >= 0.75 * later, "{after:.3} right after a prompt, {later:.3} later");
}

#[test]
fn free_slots_are_lent_and_given_back() {
    let mut cache = cache(8);
    let all: Vec<u32> = (0..32).collect();
    assert_eq!(visit(&mut cache, 0, &all), 0);
    assert_eq!(visit(&mut cache, 0, &all), 32, "nobody else wanted its slots");
    for layer in 1..N_LAYERS {
        visit(&mut cache, layer, &all[..8]);
    }
    for layer in 1..N_LAYERS {
        assert_eq!(visit(&mut cache, layer, &all[..8]), 8, "layer {layer}");
    }
    assert_eq!(visit(&mut cache, 0, &all), 8, "its share is left");
}

#[test]
fn a_slot_whose_bytes_did_not_arrive_is_free_again() {
    let mut cache = cache(2);
    cache.begin_visit(0);
    let claim = cache.claim(0, 7);
    assert!(!claim.evicts);
    cache.release(claim.slot);
    cache.begin_visit(0);
    assert_eq!(cache.find(0, 7), None);
    assert_eq!(cache.claim(0, 8), claim);
}

#[test]
fn the_layer_furthest_above_its_share_gives_slots_up_and_no_other() {
    let mut cache = cache(8);
    let (many, some): (Vec<u32>, Vec<u32>) = ((0..20).collect(), (0..12).collect());
    visit(&mut cache, 0, &many);
    visit(&mut cache, 1, &some);
    assert_eq!(cache.n_free(), 0);
    visit(&mut cache, 2, &[1, 2, 3, 4]);
    let held = |layer| (0..N_EXPERTS as u32).filter(|&expert| cache.holds(layer, expert)).count();
    assert_eq!([0, 1, 2, 3].map(held), [16, 12, 4, 0]);
    visit(&mut cache, 3, &many);
    let held = |layer| (0..N_EXPERTS as u32).filter(|&expert| cache.holds(layer, expert)).count();
    assert_eq!(
        [0, 1, 2, 3].map(held),
        [10, 10, 4, 8],
        "as far as its share, and never from one below its own"
    );
}

/// Slots that a visit may have at once.
fn reach(cache: &mut SlotCache, layer: usize, n_wanted: u32) -> usize {
    cache.begin_visit(layer);
    let mut wanted =
        (0..n_wanted).rev().filter(|&expert| !cache.holds(layer, expert)).collect::<Vec<_>>();
    let mut n = 0;
    while cache.may_claim(layer) {
        let Some(expert) = wanted.pop() else { break };
        cache.claim(layer, expert);
        n += 1;
    }
    n
}

#[test]
fn a_visit_has_at_once_what_its_layer_holds_and_what_is_free_and_its_share_where_nothing_is() {
    let mut cache = cache(8);
    let experts: Vec<u32> = (0..20).collect();
    assert_eq!(reach(&mut cache, 0, 64), 32, "all are free");
    (1..N_LAYERS).for_each(|layer| {
        visit(&mut cache, layer, &experts[..8]);
    });
    for layer in 0..N_LAYERS {
        assert_eq!(reach(&mut cache, layer, 64), 8, "layer {layer}: none is free");
    }
}
