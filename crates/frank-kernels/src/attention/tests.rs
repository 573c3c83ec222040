//! Attention against plain sums in f64, and the same bits whatever computes it.

use super::*;
use crate::kv::{KvLayerMut, KvType, store_kv};
use frank_gguf::quant::quant_type;
use frank_gguf::type_id;
use half::f16;
use proptest::prelude::*;

/// A sequence whose keys and values are a function of position, head and component.
struct Sequence {
    shape: AttentionShape,
    /// Of keys.
    kv_type: KvType,
    v_type: KvType,
    n_positions: usize,
    sinks: Option<Vec<f32>>,
}

fn noise(i: usize) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "values below 1000")]
    let x = ((i * 7919 + i / 13 * 104_729) % 997) as f32;
    x / 498.0 - 1.0
}

impl Sequence {
    fn new(
        n_head: usize,
        n_head_kv: usize,
        head_dim: usize,
        kv_type: KvType,
        n_positions: usize,
    ) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let scale = 1.0 / (head_dim as f32).sqrt();
        Self {
            shape: AttentionShape {
                n_head,
                n_head_kv,
                head_dim,
                value_dim: head_dim,
                scale,
                window: None,
                soft_cap: None,
            },
            kv_type,
            v_type: kv_type,
            n_positions,
            sinks: None,
        }
    }

    fn with_v_type(mut self, v_type: KvType) -> Self {
        self.v_type = v_type;
        self
    }

    fn with_value_dim(mut self, value_dim: usize) -> Self {
        self.shape.value_dim = value_dim;
        self
    }

    /// Sinks from far below the scores to well above them.
    fn with_sinks(mut self) -> Self {
        self.sinks = Some((0..self.shape.n_head).map(|head| 6.0 * noise(head + 77)).collect());
        self
    }

    fn k(&self, position: usize) -> Vec<f32> {
        let n = self.shape.n_head_kv * self.shape.head_dim;
        (0..n).map(|i| noise(position * n + i)).collect()
    }

    fn v(&self, position: usize) -> Vec<f32> {
        let n = self.shape.n_head_kv * self.shape.value_dim;
        (0..n).map(|i| noise(31 + position * n + i)).collect()
    }

    fn q(&self, position: usize) -> Vec<f32> {
        let n = self.shape.n_head * self.shape.head_dim;
        (0..n).map(|i| 3.0 * noise(position * n + i + 5)).collect()
    }

    /// Attention of the rows at `positions`, with blocks laid out by `table`.
    fn run(&self, isa: Isa, n_threads: usize, table: &[u32], positions: &[u32]) -> Vec<f32> {
        self.run_where(isa, n_threads, table, positions, 0)
    }

    /// As `run`, with keys and values for the positions from `first` on only.
    fn run_where(
        &self,
        isa: Isa,
        n_threads: usize,
        table: &[u32],
        positions: &[u32],
        first: usize,
    ) -> Vec<f32> {
        let held = &table[first / KV_BLOCK..];
        let n_blocks = *held.iter().max().expect("a block") as usize + 1;
        let AttentionShape { n_head, n_head_kv, head_dim, value_dim, .. } = self.shape;
        let words = |kv_type: KvType, dim| kv_type.bytes(n_blocks * KV_BLOCK * n_head_kv * dim) / 4;
        let (k_type, v_type) = (self.kv_type, self.v_type);
        // NaN as a float of either size, and as the scale of a tile.
        let unwritten = f32::from_bits(0x7fff_7fff);
        let mut k = vec![unwritten; words(k_type, head_dim)];
        let mut v = vec![unwritten; words(v_type, value_dim)];
        let (k_bytes, v_bytes) =
            (bytemuck::cast_slice_mut(&mut k), bytemuck::cast_slice_mut(&mut v));
        let mut kv = KvLayerMut { k: k_bytes, v: v_bytes, k_type, v_type };
        for (p, position) in (0..self.n_positions).zip(0..).skip(first) {
            store_kv(&self.shape, &mut kv, table, position, &self.k(p), &self.v(p));
        }
        let q: Vec<f32> = positions.iter().flat_map(|&p| self.q(p as usize)).collect();
        let mut out = vec![f32::NAN; positions.len() * n_head * value_dim];
        let queries = Queries {
            q: &q,
            positions,
            sequences: &vec![0; positions.len()],
            block_tables: &[table],
            sinks: self.sinks.as_deref(),
        };
        let kv =
            KvLayer { k: bytemuck::cast_slice(&k), v: bytemuck::cast_slice(&v), k_type, v_type };
        attention_with(isa, &mut Pool::new(n_threads), &self.shape, queries, kv, &mut out);
        out
    }

    /// The textbook formula in f64, over values rounded as the cache rounds them.
    fn exact(&self, position: usize) -> Vec<f64> {
        let AttentionShape { n_head, n_head_kv, head_dim, value_dim, scale, .. } = self.shape;
        let q = self.q(position);
        let (keys, values): (Vec<_>, Vec<_>) = (0..=position)
            .map(|p| (round(self.kv_type, self.k(p)), round(self.v_type, self.v(p))))
            .unzip();
        let mut out = Vec::new();
        for (head, q) in q.chunks(head_dim).enumerate() {
            let head_kv = head / (n_head / n_head_kv);
            let dot = |k: &Vec<f32>| {
                let k = &k[head_kv * head_dim..][..head_dim];
                q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>()
            };
            let score = |k: &Vec<f32>| {
                let score = dot(k) * f64::from(scale);
                let capped = |cap: f32| f64::from(cap) * (score / f64::from(cap)).tanh();
                self.shape.soft_cap.map_or(score, capped)
            };
            let seen = |p: usize| self.shape.window.is_none_or(|window| position - p < window);
            let weight = |(p, k): (usize, &Vec<f32>)| if seen(p) { score(k).exp() } else { 0.0 };
            let weights: Vec<f64> = keys.iter().enumerate().map(weight).collect();
            let sink = self.sinks.as_ref().map_or(0.0, |sinks| f64::from(sinks[head]).exp());
            let sum = sink + weights.iter().sum::<f64>();
            for d in head_kv * value_dim..(head_kv + 1) * value_dim {
                let weighed = weights.iter().zip(&values).map(|(w, v)| w * f64::from(v[d]));
                out.push(weighed.sum::<f64>() / sum);
            }
        }
        out
    }
}

/// Values as a file of the type would give them back.
fn round(kv_type: KvType, values: Vec<f32>) -> Vec<f32> {
    let type_id = match kv_type {
        KvType::F32 => return values,
        KvType::F16 => return values.into_iter().map(|x| f16::from_f32(x).to_f32()).collect(),
        KvType::Q8_0 => type_id::Q8_0,
        KvType::Q4_0 => type_id::Q4_0,
    };
    let quant = quant_type(type_id).expect("a known type");
    let (mut bytes, mut rounded) = (Vec::new(), vec![0.0; values.len()]);
    (quant.quantize.expect("it can be written"))(&values, &mut bytes);
    (quant.dequantize)(&bytes, &mut rounded);
    rounded
}

fn table(n_positions: usize) -> Vec<u32> {
    (0..n_positions.div_ceil(KV_BLOCK)).zip(0..).map(|(_, i)| i).collect()
}

#[test]
fn attention_is_the_softmax_of_the_textbook_within_rounding() {
    for (kv_type, n) in
        [(KvType::F32, 1), (KvType::F32, 300), (KvType::F16, 257), (KvType::F16, 600)]
    {
        let sequence = Sequence::new(6, 2, 48, kv_type, n);
        let last = u32::try_from(n - 1).expect("small");
        let out = sequence.run(isa(), 2, &table(n), &[0, last]);
        let exact = [sequence.exact(0), sequence.exact(n - 1)].concat();
        for (got, exact) in out.iter().zip(exact) {
            assert!((f64::from(*got) - exact).abs() < 2e-6, "{got} for {exact} at {n} positions");
        }
    }
}

#[test]
fn each_pair_of_types_agrees_with_the_textbook_over_values_that_are_rounded_as_in_files() {
    for (k_type, v_type) in pairs() {
        for (head_dim, value_dim, n) in [(32, 96, 1), (64, 64, 300), (160, 32, 45)] {
            let sequence = Sequence::new(6, 2, head_dim, k_type, n)
                .with_value_dim(value_dim)
                .with_v_type(v_type);
            let last = u32::try_from(n - 1).expect("small");
            let out = sequence.run(isa(), 2, &table(n), &[last]);
            for (got, exact) in out.iter().zip(sequence.exact(n - 1)) {
                assert!(
                    (f64::from(*got) - exact).abs() < 5e-6,
                    "{got} for {exact}, {k_type:?} {v_type:?}, {n} positions"
                );
            }
        }
    }
}

/// All types of keys with all of values.
fn pairs() -> impl Iterator<Item = (KvType, KvType)> {
    KvType::ALL.into_iter().flat_map(|k| KvType::ALL.map(|v| (k, v)))
}

#[test]
fn instruction_sets_give_the_same_bits_for_each_pair_of_types_and_number_of_heads() {
    for (k_type, v_type) in pairs() {
        for (group, n) in (1..=9).zip([1, 31, 32, 33, 64, 70, 256, 257, 300]) {
            let sequence = Sequence::new(group, 1, 64, k_type, n).with_value_dim(96);
            let mut sequence = sequence.with_v_type(v_type);
            sequence.shape.window = (group % 2 == 0).then_some(40);
            check_same_bits(&sequence);
        }
    }
}

#[test]
fn a_window_and_a_soft_cap_are_those_of_the_textbook_across_blocks_and_spans() {
    for window in [1, 2, 31, 32, 33, 256, 257, 300, 599, 600, 5000] {
        let mut sequence = Sequence::new(2, 1, 16, KvType::F32, 600);
        sequence.shape.window = Some(window);
        sequence.shape.soft_cap = (window % 2 == 0).then_some(2.5);
        for position in [0, 31, 32, 33, 255, 256, 257, 287, 288, 511, 512, 599] {
            let last = u32::try_from(position).expect("small");
            let out = sequence.run(isa(), 1, &table(600), &[last]);
            for (got, exact) in out.iter().zip(sequence.exact(position)) {
                assert!(
                    (f64::from(*got) - exact).abs() < 2e-6,
                    "{got} for {exact} at {position}, window of {window}"
                );
            }
        }
    }
}

#[test]
fn what_lies_before_the_window_is_not_read() {
    let mut sequence = Sequence::new(2, 1, 16, KvType::F32, 600);
    sequence.shape.window = Some(40);
    let expected = sequence.run(isa(), 1, &table(600), &[599]);
    // Blocks that the window does not reach are not even in the table.
    let mut blocks = table(600);
    blocks[..560 / KV_BLOCK].fill(u32::MAX);
    let out = sequence.run_where(isa(), 1, &blocks, &[599], 560 / KV_BLOCK * KV_BLOCK);
    assert_eq!(bits(&out), bits(&expected));
}

#[test]
fn heads_of_every_supported_size_agree_with_the_textbook() {
    for head_dim in [16, 32, 48, 64, 80, 128, 256, 320, 512, 1024] {
        let sequence = Sequence::new(3, 1, head_dim, KvType::F16, 70);
        let out = sequence.run(isa(), 2, &table(70), &[69]);
        for (got, exact) in out.iter().zip(sequence.exact(69)) {
            // Scores of long heads are longer chains of sums.
            assert!((f64::from(*got) - exact).abs() < 1e-5, "{got} for {exact}, {head_dim}");
        }
    }
    let supported = |head_dim, value_dim| {
        let sequence = Sequence::new(1, 1, head_dim, KvType::F16, 1).with_value_dim(value_dim);
        sequence.shape.is_supported()
    };
    assert!(supported(576, 512));
    for bad in [0, 24, 1040] {
        assert!(!supported(bad, 64) && !supported(64, bad), "{bad}");
    }
}

#[test]
fn many_heads_over_one_latent_agree_with_the_textbook() {
    // Numbers of heads that are one tile or two, and turns of equal and of unequal size.
    for (n_head, kv_type, n) in [
        (16, KvType::F32, 40),
        (13, KvType::F16, 300),
        (67, KvType::F16, 33),
        (128, KvType::F32, 257),
    ] {
        let sequence = Sequence::new(n_head, 1, 576, kv_type, n).with_value_dim(512);
        let last = u32::try_from(n - 1).expect("small");
        let out = sequence.run(isa(), 2, &table(n), &[last]);
        for (i, (got, exact)) in out.iter().zip(sequence.exact(n - 1)).enumerate() {
            let head = i / 512;
            assert!(
                (f64::from(*got) - exact).abs() < 1e-5,
                "{got} for {exact}, {head} of {n_head}"
            );
        }
    }
}

#[test]
fn a_sink_takes_its_part_of_the_softmax_and_adds_nothing() {
    for (window, cap, n) in
        [(None, None, 1), (None, None, 600), (Some(100), None, 600), (Some(300), Some(2.5), 600)]
    {
        let mut sequence = Sequence::new(12, 2, 32, KvType::F32, n).with_value_dim(48).with_sinks();
        (sequence.shape.window, sequence.shape.soft_cap) = (window, cap);
        let last = u32::try_from(n - 1).expect("small");
        let out = sequence.run(isa(), 2, &table(n), &[last]);
        for (got, exact) in out.iter().zip(sequence.exact(n - 1)) {
            assert!((f64::from(*got) - exact).abs() < 2e-6, "{got} for {exact}, {window:?}, {n}");
        }
    }
}

#[test]
fn a_sink_below_all_scores_changes_no_bit_and_one_above_all_takes_everything() {
    let mut sequence = Sequence::new(3, 1, 16, KvType::F32, 600);
    let without = sequence.run(isa(), 1, &table(600), &[599]);
    for low in [f32::NEG_INFINITY, -1e30] {
        sequence.sinks = Some(vec![low; 3]);
        assert_eq!(bits(&sequence.run(isa(), 1, &table(600), &[599])), bits(&without), "{low}");
    }
    sequence.sinks = Some(vec![1e30; 3]);
    assert!(sequence.run(isa(), 1, &table(600), &[599]).iter().all(|&x| x == 0.0));
}

#[test]
fn what_lies_past_a_rows_position_does_not_touch_it() {
    // Blocks past the sequence hold NaN, so a read of them would show.
    let sequence = Sequence::new(2, 1, 16, KvType::F32, 40);
    let out = sequence.run(isa(), 1, &table(40), &[10, 39]);
    assert!(out.iter().all(|x| x.is_finite()));
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(frank_testkit::property_cases(24)))]
    #[test]
    fn instruction_set_threads_batch_and_block_places_do_not_change_a_bit(
        group in prop_oneof![1usize..20, 60usize..70], n_head_kv in 1usize..3, dim in 1usize..6,
        value_dim in 1usize..6, f16: bool, n in 1usize..530, window in prop::option::of(1usize..530),
        cap: bool, sinks: bool,
    ) {
        let kv_type = if f16 { KvType::F16 } else { KvType::F32 };
        let sequence = Sequence::new(group * n_head_kv, n_head_kv, 16 * dim, kv_type, n);
        let sequence = sequence.with_value_dim(16 * value_dim);
        let mut sequence = if sinks { sequence.with_sinks() } else { sequence };
        sequence.shape.window = window;
        sequence.shape.soft_cap = cap.then_some(3.0);
        check_same_bits(&sequence);
    }

    #[test]
    fn nor_do_they_for_heads_as_large_as_a_latent(
        n_head in 1usize..20, dim in 30usize..64, value_dim in 20usize..64, f16: bool, n in 1usize..300,
        sinks: bool,
    ) {
        let kv_type = if f16 { KvType::F16 } else { KvType::F32 };
        let sequence = Sequence::new(n_head, 1, 16 * dim, kv_type, n).with_value_dim(16 * value_dim);
        check_same_bits(&if sinks { sequence.with_sinks() } else { sequence });
    }
}

/// The last row alone on the plain code, against other code, threads, places of blocks and rows beside it.
fn check_same_bits(sequence: &Sequence) {
    let n = sequence.n_positions;
    let last = u32::try_from(n - 1).expect("small");
    let scalar = sequence.run(Isa::Scalar, 1, &table(n), &[last]);
    assert_eq!(bits(&scalar), bits(&sequence.run(Isa::Avx2, 5, &table(n), &[last])));
    let mut scattered = table(n);
    scattered.reverse();
    let rows: Vec<u32> = (last - (last / 2).min(40)..=last).collect();
    let together = sequence.run(Isa::Avx512Vnni, 2, &scattered, &rows);
    assert_eq!(bits(&scalar), bits(&together[together.len() - scalar.len()..]));
}
