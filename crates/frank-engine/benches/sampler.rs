//! Cost of drawing one token from the largest vocabulary in use, by settings. A sampler must stay below a millisecond
//! with the common ones. Run with `cargo bench -p frank-engine`.

use divan::Bencher;
use frank_engine::{SampleContext, Sampler, SamplingParams};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Tokens of Gemma's vocabulary.
const N_VOCAB: usize = 262_144;

fn main() {
    divan::main();
}

/// Logits as models give them: most are near each other, few are likely.
fn logits() -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut normal = move || (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0;
    (0..N_VOCAB).map(|_| 3.0 * normal()).collect()
}

fn bench(bencher: Bencher<'_, '_>, params: SamplingParams, context: SampleContext<'_>) {
    let (logits, mut sampler) = (logits(), Sampler::new(params, 1));
    bencher.with_inputs(|| logits.clone()).bench_local_values(|mut logits| {
        sampler.sample(&mut logits, &context).expect("a token can be drawn")
    });
}

fn plain() -> SamplingParams {
    SamplingParams::default()
}

#[divan::bench]
fn greedy(bencher: Bencher<'_, '_>) {
    bench(bencher, SamplingParams::greedy(), SampleContext::default());
}

#[divan::bench]
fn temperature_alone(bencher: Bencher<'_, '_>) {
    bench(bencher, SamplingParams { temperature: 0.8, ..plain() }, SampleContext::default());
}

#[divan::bench]
fn llama_cpp_defaults(bencher: Bencher<'_, '_>) {
    let params =
        SamplingParams { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..plain() };
    bench(bencher, params, SampleContext::default());
}

#[divan::bench]
fn top_p_alone(bencher: Bencher<'_, '_>) {
    bench(bencher, SamplingParams { top_p: 0.95, ..plain() }, SampleContext::default());
}

#[divan::bench]
fn min_p_alone(bencher: Bencher<'_, '_>) {
    bench(bencher, SamplingParams { min_p: 0.05, ..plain() }, SampleContext::default());
}

#[divan::bench]
fn typical_p_alone(bencher: Bencher<'_, '_>) {
    bench(bencher, SamplingParams { typical_p: 0.9, ..plain() }, SampleContext::default());
}

#[divan::bench]
fn greedy_with_20_logprobs(bencher: Bencher<'_, '_>) {
    let context = SampleContext { n_logprobs: Some(20), ..SampleContext::default() };
    bench(bencher, SamplingParams::greedy(), context);
}

#[divan::bench]
fn greedy_under_a_mask(bencher: Bencher<'_, '_>) {
    let mask = vec![0x5555_5555; N_VOCAB / 32];
    let context = SampleContext { allowed: Some(&mask), ..SampleContext::default() };
    bench(bencher, SamplingParams::greedy(), context);
}
