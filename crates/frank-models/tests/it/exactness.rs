//! Where bytes lie and how work is cut changes speed, never a bit of the logits.

use frank_kernels::KvType;
use frank_testkit::assets;

use crate::step::Run;

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
                "chunks of {chunk}, {n_threads} threads"
            );
        }
    }
}

#[test]
fn chunks_threads_and_block_places_do_not_change_a_bit_of_a_float_model() {
    let path = assets::tiny("llama.gguf");
    check(&path, &token_ids(300, 256), KvType::F32, &[1, 7, 64, 256]);
    check(&path, &token_ids(300, 256), KvType::F16, &[1, 7, 64, 256]);
}

#[test]
fn chunks_and_threads_do_not_change_a_bit_of_a_quantized_model() {
    check(&assets::smollm2(), &token_ids(300, 49_152)[..40], KvType::F16, &[1, 7, 32]);
}
