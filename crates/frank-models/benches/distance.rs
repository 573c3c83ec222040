//! How near frank's choices are to llama.cpp's on every real model, as it is and as a copy in F32: what
//! `cargo xtask peer --distance` runs. Takes minutes, and gigabytes of the test cache.

#[path = "../tests/it/llama_cpp/agreement.rs"]
#[expect(dead_code, reason = "the tests hold one model to another bound")]
mod agreement;
#[path = "../tests/it/llama_cpp/answers.rs"]
mod answers;
#[path = "../tests/it/llama_cpp/f32_copy.rs"]
mod f32_copy;
#[path = "../tests/it/step.rs"]
#[expect(dead_code, reason = "the tests run models in more ways")]
mod step;

use agreement::{check, compare, real, report, smol_moe};
use f32_copy::f32_copy;
use frank_testkit::assets::{self, GEMMA3, QWEN2, SMOLLM2};

/// Holds every model in F32 to the bound of equal arithmetic, and prints how far rounding alone moves choices.
fn main() {
    let smollm2 = Some(assets::smollm2());
    let dense = [(SMOLLM2, smollm2), (GEMMA3, assets::gemma3()), (QWEN2, assets::qwen2())];
    let dense = dense.into_iter().filter_map(|(model, path)| Some(real(model, path?)));
    let bounded = dense.map(|file| (file, 99.0, 0.15));
    for (quantized, equal_percent_min, gap_max) in
        bounded.chain(smol_moe().map(|file| (file, 98.5, 0.5)))
    {
        let copy = f32_copy(&quantized);
        report(&quantized, &quantized, &compare(&quantized, &quantized));
        check(&copy, equal_percent_min, gap_max);
        report(&copy, &quantized, &compare(&copy, &quantized));
        report(&quantized, &copy, &compare(&quantized, &copy));
    }
}
