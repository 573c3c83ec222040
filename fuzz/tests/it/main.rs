//! Each fuzz target over its seeds, so that none can rot between two long runs.

use std::path::Path;

use frank_fuzz::TARGETS;

#[test]
fn every_target_holds_on_all_of_its_seeds() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.len() >= 10, "{}: {} seeds", target.name, seeds.len());
        seeds.iter().for_each(|seed| (target.check)(seed));
    }
}

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for target in TARGETS {
        assert!(folder.join(format!("{}.rs", target.name)).is_file(), "{}", target.name);
    }
    let n_programs = folder.read_dir().expect("the folder is there").count();
    assert_eq!(n_programs, TARGETS.len(), "each program belongs to a target");
}
