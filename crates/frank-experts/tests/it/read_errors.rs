//! A read that fails is named, and the store goes on as before.

use std::error::Error;

use frank_experts::{ExpertStore, FilePlace, StoreError, StoreOptions};
use frank_plan::Tier;

use crate::made::{MIXED, Made};

fn visit(made: &Made, store: &mut ExpertStore, wanted: &[u32]) -> Result<usize, StoreError> {
    let mut n_served = 0;
    store.visit(0, wanted, &mut |wave| {
        n_served += wave.len();
        wave.iter().for_each(|expert| made.check(0, expert.expert, expert.bytes));
    })?;
    Ok(n_served)
}

#[test]
fn a_file_cut_while_open_is_a_named_error_and_the_next_visit_is_whole() {
    for n_threads in [1, 4] {
        let made = Made::new(1, &[(0, 8, MIXED)], 2);
        let options = StoreOptions { tiers: vec![Tier::Stream; 8], cache_slots: 4, n_threads };
        let mut store = ExpertStore::open(made.table.clone(), made.files(), &options).unwrap();
        assert_eq!(visit(&made, &mut store, &[0, 3]).unwrap(), 2);
        let lost = last_of_file(&made, 1);
        std::fs::write(&made.paths[1], b"cut").unwrap();
        let error = visit(&made, &mut store, &[lost]).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read expert {lost} of layer 0"));
        let reason = error.source().expect("the file, the place").to_string();
        assert!(reason.contains("1.gguf ends before offset"), "{reason}");
        // More than there are slots, of which some cannot be read.
        visit(&made, &mut store, &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap_err();
        made.write(1);
        for wanted in [&[lost][..], &[0, 1, 2, 3, 4, 5, 6, 7], &[1, 2, lost]] {
            assert_eq!(visit(&made, &mut store, wanted).unwrap(), wanted.len());
        }
    }
}

#[test]
fn a_resident_expert_that_cannot_be_read_is_named_when_the_store_is_opened() {
    let made = Made::new(1, &[(0, 8, MIXED)], 2);
    let files = made.files();
    std::fs::write(&made.paths[0], b"cut").unwrap();
    let options = StoreOptions { tiers: vec![Tier::Primary; 8], cache_slots: 0, n_threads: 2 };
    let error = ExpertStore::open(made.table.clone(), files, &options).unwrap_err();
    assert!(matches!(error, StoreError::Read { layer: 0, .. }), "{error}");
}

/// An expert of which a part lies in that file.
fn last_of_file(made: &Made, wanted_file: usize) -> u32 {
    let experts = 4..made.table.layers[0].n_experts;
    let lies_there = |expert: &u32| {
        let place = |part: &frank_experts::ExpertPart| part.places[*expert as usize];
        let mut places = made.table.layers[0].parts.iter().map(place);
        places.any(|FilePlace { file, .. }| file == wanted_file)
    };
    experts.rev().find(lies_there).expect("experts lie in each file")
}
