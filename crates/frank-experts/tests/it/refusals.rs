//! Tables that do not fit their files, and tiers that do not fit the table, are refused by name before memory is taken.

use frank_experts::{ExpertStore, ExpertTable, FilePlace, StoreOptions};
use frank_gguf::type_id;
use frank_kernels::{MatrixShape, Pool, WeightType};
use frank_plan::Tier;

use crate::made::{MIXED, Made, SMALL, options};

const N_LAYERS: usize = 3;
const N_EXPERTS: usize = 4;

/// The refusal of a table after `breaking`; without it, the store opens.
fn refusal(breaking: impl FnOnce(&mut ExpertTable, &mut StoreOptions)) -> String {
    let made = Made::new(N_LAYERS, &[(0, 4, MIXED), (2, 3, SMALL)], 1);
    let mut table = made.table.clone();
    let tiers = vec![Tier::Stream; N_LAYERS * N_EXPERTS];
    let mut options = options(tiers, 2);
    made.open(&options);
    breaking(&mut table, &mut options);
    let opened = ExpertStore::open(table, made.files(), &options, &mut Pool::new(1));
    opened.expect_err("a broken table").to_string()
}

#[test]
fn layers_out_of_order_twice_or_past_the_last_are_refused() {
    let expected = |layer: u32| format!("experts of layer {layer} are out of place among 3 layers");
    assert_eq!(refusal(|table, _| table.layers.reverse()), expected(0));
    assert_eq!(refusal(|table, _| table.layers[1].layer = 0), expected(0));
    assert_eq!(refusal(|table, _| table.layers[1].layer = 3), expected(3));
    assert_eq!(refusal(|table, _| table.layers[1].layer = u32::MAX), expected(u32::MAX));
}

#[test]
fn layers_without_experts_parts_or_places_are_refused() {
    assert_eq!(
        refusal(|table, _| table.layers[0].n_experts = 0),
        "layer 0 has 0 experts of 3 matrices"
    );
    assert_eq!(
        refusal(|table, _| table.layers[1].parts.clear()),
        "layer 2 has 3 experts of 0 matrices"
    );
    let message = refusal(|table, _| {
        table.layers[0].parts[1].places.pop();
    });
    assert_eq!(message, "part 1 of the experts of layer 0 has 3 places, 4 expected");
    let message = refusal(|table, _| table.layers[0].n_experts = u32::MAX);
    assert_eq!(message, "part 0 of the experts of layer 0 has 4 places, 4294967295 expected");
}

#[test]
fn places_outside_of_the_files_are_refused() {
    let message = refusal(|table, _| table.layers[1].parts[0].places[2].file = 1);
    assert_eq!(message, "part 0 of expert 2 of layer 2 lies in file 1 of 1");
    for offset in [u64::MAX, 1 << 40] {
        let place = FilePlace { file: 0, offset };
        let message = refusal(|table, _| table.layers[0].parts[2].places[3] = place);
        assert!(
            message.starts_with(&format!(
                "part 2 of expert 3 of layer 0: 3360 bytes at offset {offset} of a file of "
            )),
            "{message}"
        );
    }
}

#[test]
fn matrices_larger_than_the_file_or_any_number_are_refused() {
    let f32s = WeightType::of(type_id::F32).expect("the kernels multiply F32");
    for n_out in [1 << 40, usize::MAX] {
        let shape = MatrixShape::new(f32s, 1 << 30, n_out).expect("rows of whole blocks");
        let message = refusal(|table, _| table.layers[0].parts[1].shape = shape);
        assert!(message.starts_with("part 1 of expert 0 of layer 0: "), "{message}");
        assert!(message.contains("18446744073709551615 bytes"), "{message}");
    }
}

#[test]
fn tiers_of_another_model_are_refused() {
    for n_tiers in [0, 11, 13, 24] {
        let message = refusal(|_, options| options.tiers = vec![Tier::Stream; n_tiers]);
        assert_eq!(message, format!("{n_tiers} tiers of 3 layers with up to 4 experts"));
    }
    let message = refusal(|table, _| table.n_layers = usize::MAX);
    assert_eq!(message, format!("12 tiers of {} layers with up to 4 experts", usize::MAX));
}

#[test]
fn streaming_without_slots_is_refused() {
    let message = refusal(|_, options| options.cache_slots = 0);
    assert_eq!(message, "7 experts are streamed through no slots");
}

#[test]
fn counts_of_another_model_are_refused() {
    let message = refusal(|_, options| options.usage = Some(vec![1; 11]));
    assert_eq!(message, "11 counts of use for 12 experts");
}

#[test]
fn rows_that_no_read_can_hold_are_refused() {
    // A row of 4 MiB, in a staging of 2.
    let made = Made::new(1, &[(0, 1, &[(type_id::F32, 1 << 20, 1)])], 1);
    let options = options(vec![Tier::Stream; 1], 1);
    let message = made.open_tight(&options).expect_err("a row too long").to_string();
    assert_eq!(
        message,
        "part 0 of the experts of layer 0 has rows of 4194304 bytes, 2097152 bytes are read at most"
    );
}
