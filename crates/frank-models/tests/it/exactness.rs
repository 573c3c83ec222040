//! Where bytes lie and how work is cut changes speed, never a bit of the logits.

use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_os::IoBackend;
use frank_testkit::assets;

use crate::step::{Experts, Run};
use crate::tiny::{self, Tiny};

pub(crate) fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Token ids that no tokenizer is needed for.
fn token_ids(n: usize, n_vocab: u32) -> Vec<u32> {
    (0..n as u64)
        .map(|i| u32::try_from((i * 7919 + 13) % u64::from(n_vocab)).expect("below n_vocab"))
        .collect()
}

/// Tokens that are run in small chunks: beyond the first border of the spans of attention, and the largest window.
const N_SMALL_CHUNKS: usize = 330;

fn check(path: &std::path::Path, token_ids: &[u32], kv_type: KvType, chunks: &[usize]) {
    let base = Run { kv_type, ..Run::EXACT };
    let expected = bits(&base.logits(path, token_ids));
    for &chunk in chunks {
        let n_tokens = if chunk < 64 { N_SMALL_CHUNKS } else { usize::MAX };
        let token_ids = &token_ids[..token_ids.len().min(n_tokens)];
        for n_threads in [1, 2] {
            let run = Run { n_threads, chunk, kv_type, first_block: 3, ..Run::EXACT };
            assert!(
                expected.starts_with(&bits(&run.logits(path, token_ids))),
                "{}: chunks of {chunk}, {n_threads} threads",
                path.display()
            );
        }
    }
}

/// Every tiny model of every family whose heads the type takes.
fn check_all(kv_type: KvType, chunks: &[usize]) {
    for name in tiny::names().into_iter().filter(|name| tiny::takes(name, kv_type)) {
        let path = assets::tiny(&format!("{name}.gguf"));
        check(&path, &Tiny::read(&name).token_ids, kv_type, chunks);
    }
}

/// Names of the tiny models with experts.
pub(crate) fn mixtures() -> Vec<String> {
    let has_experts = |name: &String| {
        let path = assets::tiny(&format!("{name}.gguf"));
        let header = ModelFile::open(&path).expect("the tiny model opens").header;
        header.tensors.iter().any(|tensor| tensor.name.contains(".ffn_gate_inp."))
    };
    tiny::names().into_iter().filter(has_experts).collect()
}

#[test]
fn chunks_threads_and_block_places_do_not_change_a_bit_of_any_family() {
    check_all(KvType::F32, &[512, 64, 7, 1]);
}

#[test]
fn where_experts_lie_and_how_many_slots_they_have_does_not_change_a_bit_of_any_mixture() {
    const N_TOKENS: usize = 100;
    let tiers = [
        Experts::Streamed { more_slots: 0 },
        Experts::Streamed { more_slots: 3 },
        Experts::Scattered { seed: 1 },
        Experts::Scattered { seed: 2 },
    ];
    for name in mixtures() {
        let path = assets::tiny(&format!("{name}.gguf"));
        let token_ids = Tiny::read(&name).token_ids;
        let token_ids = &token_ids[..token_ids.len().min(N_TOKENS)];
        let expected = bits(&Run::EXACT.logits(&path, token_ids));
        for (experts, chunk) in tiers.into_iter().flat_map(|t| [512, 7, 1].map(|chunk| (t, chunk)))
        {
            let run = Run { n_threads: 2, chunk, experts, ..Run::EXACT };
            let mut model = run.load(&path, token_ids.len());
            let got = bits(&run.sequence(model.as_mut(), token_ids));
            assert!(got == expected, "{name}: {experts:?}, chunks of {chunk}");
            let statistics = model.expert_statistics().expect("a mixture");
            assert!(statistics.misses > 0, "{name}: some experts were read: {statistics:?}");
        }
    }
}

#[test]
fn how_experts_are_read_and_what_is_read_ahead_does_not_change_a_bit_of_any_mixture() {
    const BACKENDS: [IoBackend; 3] = [IoBackend::Uring, IoBackend::Pread, IoBackend::Mmap];
    // At the floor, and with room for most of a layer, so that guesses find something to do.
    let tiers = [Experts::Streamed { more_slots: 0 }, Experts::Scattered { seed: 3 }];
    let mut n_predicted = 0;
    for name in mixtures() {
        let path = assets::tiny(&format!("{name}.gguf"));
        let token_ids = &Tiny::read(&name).token_ids[..24];
        let expected = bits(&Run::EXACT.logits(&path, token_ids));
        for (io, experts) in BACKENDS.into_iter().flat_map(|io| tiers.map(|tier| (io, tier))) {
            for (prefetch, chunk) in [(false, 1), (true, 1), (true, 7)] {
                let run =
                    Run { n_threads: 2, chunk, experts, io: Some(io), prefetch, ..Run::EXACT };
                let mut model = run.load(&path, token_ids.len());
                let got = bits(&run.sequence(model.as_mut(), token_ids));
                assert!(
                    got == expected,
                    "{name}: {io}, {experts:?}, {prefetch}, chunks of {chunk}"
                );
                let statistics = model.expert_statistics().expect("a mixture");
                assert_eq!(statistics.backend, Some(io), "{name}");
                assert!(prefetch || statistics.predicted == 0, "{name}: nothing is predicted");
                n_predicted += statistics.predicted;
            }
        }
    }
    assert!(n_predicted > 0, "some layer's experts are streamed and predicted");
}

#[test]
fn a_router_bias_decides_which_experts_are_read() {
    for name in mixtures() {
        let path = assets::tiny(&format!("{name}.gguf"));
        let token_ids = &Tiny::read(&name).token_ids[..20];
        let expected = bits(&Run::EXACT.logits(&path, token_ids));
        let run = |router_bias: fn(u32, u32) -> f32| {
            let experts = Experts::Streamed { more_slots: 1000 };
            let run = Run { router_bias: Some(router_bias), experts, ..Run::EXACT };
            let mut model = run.load(&path, token_ids.len());
            let got = bits(&run.sequence(model.as_mut(), token_ids));
            (got, model.expert_statistics().expect("a mixture").misses)
        };
        let (unbiased, n_wanted) = run(|_, _| 0.0);
        assert!(unbiased == expected, "{name}: no bias");
        // The lower an expert's number, the more it is wanted: each layer has but one choice.
        let (biased, n_favoured) =
            run(|_, expert| -1e3 * f32::from(u16::try_from(expert).expect("few experts")));
        assert!(biased != expected && n_favoured < n_wanted, "{name}: {n_favoured} of {n_wanted}");
        assert!(biased.iter().all(|&bits| f32::from_bits(bits).is_finite()), "{name}");
    }
}

#[test]
fn sequences_of_one_batch_do_not_change_a_bit_of_each_other() {
    for arch in frank_models::ARCHS {
        let path = assets::tiny(&format!("{}.gguf", arch.name));
        let (one, other) = (token_ids(70, 280), token_ids(41, 250));
        let mut expected = bits(&Run::EXACT.logits(&path, &one));
        expected.extend(bits(&Run::EXACT.logits(&path, &other)));
        assert!(bits(&Run::EXACT.together(&path, [&one, &other])) == expected, "{}", arch.name);
    }
}

#[test]
fn a_few_tokens_have_the_same_bits_in_chunks_of_any_size_in_every_family_and_kv_type() {
    // Over the border of two blocks. Quick enough for scalar code, where the tests of whole texts take minutes.
    const N_TOKENS: usize = 70;
    for kv_type in KvType::ALL {
        for arch in frank_models::ARCHS.iter().filter(|arch| tiny::takes(arch.name, kv_type)) {
            let path = assets::tiny(&format!("{}.gguf", arch.name));
            let token_ids = Tiny::read(arch.name).token_ids;
            check(&path, &token_ids[..token_ids.len().min(N_TOKENS)], kv_type, &[33, 7]);
        }
    }
}

#[test]
fn chunks_do_not_change_a_bit_where_keys_and_values_are_rounded() {
    check_all(KvType::F16, &[64]);
    check_all(KvType::Q8_0, &[33]);
    check_all(KvType::Q4_0, &[7]);
}

#[test]
fn logits_with_quantized_keys_and_values_stay_near_those_without_rounding() {
    let taken = |name: &String| tiny::takes(name, KvType::Q8_0);
    let names: Vec<String> = tiny::names().into_iter().filter(taken).collect();
    assert!(!names.is_empty(), "a tiny model with heads of 32 components");
    for name in names {
        let path = assets::tiny(&format!("{name}.gguf"));
        let token_ids = &Tiny::read(&name).token_ids;
        let token_ids = &token_ids[..token_ids.len().min(100)];
        let exact = Run::EXACT.logits(&path, token_ids);
        let rms = |x: &mut dyn Iterator<Item = f32>| {
            let (sum, n) = x.fold((0.0, 0.0), |(sum, n), x| (sum + f64::from(x * x), n + 1.0));
            (sum / n).sqrt()
        };
        let size = rms(&mut exact.iter().copied());
        for (kv_type, most) in [(KvType::Q8_0, 0.02), (KvType::Q4_0, 0.3)] {
            let got = Run { kv_type, ..Run::EXACT }.logits(&path, token_ids);
            let off = rms(&mut got.iter().zip(&exact).map(|(got, exact)| got - exact)) / size;
            assert!(off > 0.0 && off < most, "{name}, {kv_type:?}: {off} of the logits' size");
        }
    }
}

#[test]
fn chunks_and_threads_do_not_change_a_bit_of_a_quantized_model() {
    check(&assets::smollm2(), &token_ids(300, 49_152)[..40], KvType::F16, &[1, 7, 32]);
}
