//! Where bytes lie and how work is cut changes speed, never a bit of the logits.

use frank_kernels::KvType;
use frank_testkit::assets;

use crate::step::Run;
use crate::tiny::{self, Tiny};

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Token ids that no tokenizer is needed for.
fn token_ids(n: usize, n_vocab: u32) -> Vec<u32> {
    (0..n as u64)
        .map(|i| u32::try_from((i * 7919 + 13) % u64::from(n_vocab)).expect("below n_vocab"))
        .collect()
}

fn check(path: &std::path::Path, token_ids: &[u32], kv_type: KvType, chunks: &[usize]) {
    let base = Run { kv_type, ..Run::EXACT };
    let expected = bits(&base.logits(path, token_ids));
    for &chunk in chunks {
        for n_threads in [1, 2] {
            let run = Run { n_threads, chunk, kv_type, first_block: 3 };
            assert!(
                bits(&run.logits(path, token_ids)) == expected,
                "{}: chunks of {chunk}, {n_threads} threads",
                path.display()
            );
        }
    }
}

/// Every tiny model of every family.
fn check_all(kv_type: KvType, chunks: &[usize]) {
    for name in tiny::names() {
        let path = assets::tiny(&format!("{name}.gguf"));
        check(&path, &Tiny::read(&name).token_ids, kv_type, chunks);
    }
}

#[test]
fn chunks_threads_and_block_places_do_not_change_a_bit_of_any_family() {
    check_all(KvType::F32, &[512, 64, 7, 1]);
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
fn chunks_do_not_change_a_bit_where_keys_and_values_are_rounded() {
    check_all(KvType::F16, &[64]);
}

#[test]
fn chunks_and_threads_do_not_change_a_bit_of_a_quantized_model() {
    check(&assets::smollm2(), &token_ids(300, 49_152)[..40], KvType::F16, &[1, 7, 32]);
}
