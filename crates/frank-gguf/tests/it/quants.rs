//! Every entry of the quant table.

use frank_gguf::quant::{QUANTS, QuantType, quant_type};
use frank_gguf::type_layout;
use proptest::prelude::{Strategy, prop, proptest};

#[test]
fn every_quant_type_has_the_layout_of_its_id() {
    for quant in QUANTS {
        assert_eq!(type_layout(quant.id), Some(quant.layout));
        assert!(
            std::ptr::eq(quant_type(quant.id).unwrap(), quant),
            "id {} is in the table twice",
            quant.id
        );
    }
    assert!(quant_type(250).is_none());
}

/// The values of a tensor after writing and reading it in a type.
fn round_trip(quant: &QuantType, values: &[f32]) -> Vec<f32> {
    let mut bytes = Vec::new();
    quant.quantize.expect("a type that can be made")(values, &mut bytes);
    let layout = quant.layout;
    assert_eq!(
        bytes.len() as u64,
        values.len() as u64 / layout.values_per_block * layout.bytes_per_block
    );
    let mut back = vec![f32::NAN; values.len()];
    (quant.dequantize)(&bytes, &mut back);
    back
}

/// The largest error that a type may make in a block of values within `-1.0..=1.0`.
fn tolerance(quant: &QuantType, block: &[f32]) -> f32 {
    let largest = block.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let low = block.iter().copied().fold(f32::INFINITY, f32::min);
    let high = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // Half a step, plus the rounding of scale (and minimum) to f16 at the far end of the range.
    let f16_error = (largest + (high - low)) / 1024.0 + 1e-7;
    match quant.layout.name {
        "F32" => 0.0,
        "F16" => f16_error,
        "Q4_1" => (high - low) / 15.0 / 2.0 + f16_error,
        "Q8_0" => largest / 127.0 / 2.0 + f16_error,
        other => panic!("{other} needs a tolerance here"),
    }
}

fn three_rows() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-1.0f32..=1.0, 3 * 256)
}

proptest! {
    #[test]
    fn a_round_trip_stays_within_half_a_step(values in three_rows()) {
        for quant in QUANTS.iter().filter(|quant| quant.quantize.is_some()) {
            let back = round_trip(quant, &values);
            let block = (quant.layout.values_per_block as usize).max(32);
            for (values, back) in values.chunks(block).zip(back.chunks(block)) {
                let tolerance = tolerance(quant, values);
                for (value, back) in values.iter().zip(back) {
                    assert!((value - back).abs() <= tolerance, "{}: {value} became {back}", quant.layout.name);
                }
            }
        }
    }
}

#[test]
fn zeros_stay_zero_and_no_values_make_no_bytes() {
    for quant in QUANTS.iter().filter(|quant| quant.quantize.is_some()) {
        assert_eq!(round_trip(quant, &[0.0; 512]), [0.0; 512], "{}", quant.layout.name);
        assert_eq!(round_trip(quant, &[]), [0.0f32; 0]);
    }
}

/// One block of each, against the bytes that the python package `gguf` makes of the same values.
#[test]
fn blocks_equal_those_of_other_tools() {
    let values: Vec<f32> = (0..32).map(|index| ((index * 37 % 64) as f32 - 31.5) * 0.031).collect();
    let expected = [("Q4_1", GGUF_PY_Q4_1), ("Q8_0", GGUF_PY_Q8_0)];
    for (name, hex) in expected {
        let quant = QUANTS.iter().find(|quant| quant.layout.name == name).unwrap();
        let mut bytes = Vec::new();
        quant.quantize.unwrap()(&values, &mut bytes);
        let got: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(got, hex, "{name}");
    }
}

const GGUF_PY_Q4_1: &str = "2b30d0bb40d962fb952eb751da730c953ec851ea";
const GGUF_PY_Q8_0: &str = "e01f8116a93ed267fa8d22b54bde7306992ec257ea7f12a53ace63f6891eb147da6f";
