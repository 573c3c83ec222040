//! Real models against llama.cpp: frank reads llama.cpp's own greedy answers and must agree with each choice.

mod agreement;
mod answers;
mod f32_copy;

use frank_testkit::assets::{self, GEMMA3, QWEN2, SMOLLM2};

use agreement::{check, check_near, real, smol_moe};
use f32_copy::f32_copy;

#[test]
fn the_real_weights_in_f32_choose_llama_cpps_token_at_99_of_100_positions_and_miss_by_0_15_nat_at_most()
 {
    // Without quantized weights no engine rounds activations, and the bound is that of equal arithmetic.
    check(&f32_copy(&real(SMOLLM2, assets::smollm2())), 99.0, 0.15);
}

// Both engines round activations to 8 bits on quantized weights, each in its own order, and small models make much of
// that: llama.cpp's own answers change with the prompts that share a batch. So each file is held to a little more than
// what exact arithmetic on the same weights differs by (docs/measurements.md).

/// Measured: 96.3 %, 0.52 nat. Exact arithmetic: 97.4 %, 0.32 nat.
#[test]
fn the_real_file_of_smollm2_differs_from_llama_cpp_by_no_more_than_the_rounding_of_activations() {
    check(&real(SMOLLM2, assets::smollm2()), 95.0, 1.0);
}

/// Measured: 98.1 %, 0.37 nat. Exact arithmetic: 98.3 %, 0.15 nat.
#[test]
fn the_real_file_of_gemma3_differs_from_llama_cpp_by_no_more_than_the_rounding_of_activations() {
    if let Some(path) = assets::gemma3() {
        check(&real(GEMMA3, path), 97.0, 0.75);
    }
}

/// Measured: 99.1 to 99.3 %, 0.15 to 0.23 nat. Exact arithmetic: 99.0 %, 0.13 nat.
#[test]
fn the_real_file_of_qwen2_differs_from_llama_cpp_by_no_more_than_the_rounding_of_activations() {
    if let Some(path) = assets::qwen2() {
        check(&real(QWEN2, path), 98.0, 0.5);
    }
}

// Of the small mixture of experts each token uses half of its experts: 360 choices through all layers, of which four in ten
// are within 0.01 of the next. Rounding activations exchanges 2.4 of 100 experts, some of them for every token, and the order
// of a sum alone a few (docs/measurements.md).

/// Measured: 99.5 %, 0.26 nat.
#[test]
fn a_real_mixture_of_experts_in_f32_chooses_llama_cpps_token_at_98_of_100_positions() {
    if let Some(file) = smol_moe() {
        check(&f32_copy(&file), 98.5, 0.5);
    }
}

/// Measured: 95.8 % equal, 97.5 % nearly tied or equal. Exact arithmetic: 95.8 % equal.
#[test]
fn a_real_mixture_of_experts_chooses_llama_cpps_token_or_one_as_good_at_97_of_100_positions() {
    if let Some(file) = smol_moe() {
        check_near(&file, 94.5, 97.0);
    }
}
