//! `frank repack`: the same answers from a file whose experts lie in one piece, or no file at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use frank_hub::ModelFile;
use frank_testkit::assets;

use crate::files::{Folder, llama, str};
use crate::program::frank;

/// The tiny models with experts.
fn mixtures() -> Vec<PathBuf> {
    let has_experts = |path: &PathBuf| {
        let header = ModelFile::open_header(path).expect("a tiny model").header;
        header.tensors.iter().any(|tensor| tensor.name.contains("_exps.weight"))
    };
    assets::tiny_models().into_iter().filter(has_experts).collect()
}

/// The bytes of a file with logits of a text.
fn logits(model: &Path, ids: &Path, folder: &Folder, options: &[&str]) -> Vec<u8> {
    let out = folder.path().join("logits.npy");
    let fixed = ["eval", str(model), "--ids", str(ids), "--logits", str(&out)];
    frank([&fixed[..], options].concat()).ended(0);
    std::fs::read(out).expect("the logits were written")
}

/// Every expert's matrices lie beside each other, with nothing but padding between them.
fn check_layout(path: &Path) -> usize {
    let header = ModelFile::open(path).expect("a whole model").header;
    assert!(header.parts.len() == 1 && header.parts[0].alignment == 4096);
    let mut experts: BTreeMap<_, [Option<(u64, u64)>; 3]> = BTreeMap::new();
    for tensor in &header.tensors {
        assert!(!tensor.name.contains("_exps.weight"), "{}", tensor.name);
        let words: Vec<&str> = tensor.name.split('.').collect();
        let ["blk", layer, part, expert, "weight"] = words[..] else { continue };
        // Layers for drafting have names of as many words.
        let Some(part) = ["ffn_gate", "ffn_up", "ffn_down"].iter().position(|known| *known == part)
        else {
            continue;
        };
        let start = header.parts[0].data_start + tensor.offset;
        let place = (start, start + tensor.bytes().expect("a known type"));
        let key = (layer.to_owned(), expert.to_owned());
        experts.entry(key).or_default()[part] = Some(place);
    }
    for (key, parts) in &experts {
        let [gate, up, down] =
            parts.map(|part| part.unwrap_or_else(|| panic!("{key:?} lacks one")));
        assert!(gate.0.is_multiple_of(4096), "{key:?}");
        assert_eq!(up.0, gate.1.next_multiple_of(4096), "{key:?}");
        assert_eq!(down.0, up.1.next_multiple_of(4096), "{key:?}");
    }
    experts.len()
}

#[test]
fn a_repacked_model_of_every_family_gives_the_same_bits() {
    let mixtures = mixtures();
    assert!(mixtures.len() >= 5, "{mixtures:?}");
    for model in mixtures {
        let folder = Folder::new();
        let out = folder.path().join("out.gguf");
        let report = frank(["repack", "--json", str(&model), str(&out)]).ended(0);
        assert_eq!(report.stderr, "copying\nreading back and comparing\n");
        let report = report.json();
        let n_experts = check_layout(&out) as u64;
        assert_eq!(report["experts"], n_experts, "{}", model.display());
        assert_eq!(report["file_bytes"], std::fs::metadata(&out).expect("the new file").len());
        let ids = model.with_extension("ids.npy");
        let before = logits(&model, &ids, &folder, &[]);
        assert!(logits(&out, &ids, &folder, &[]) == before, "{} differs", model.display());
        // A file that is expert-major already stays so.
        let again = folder.path().join("again.gguf");
        frank(["repack", str(&out), str(&again)]).ended(0);
        assert!(std::fs::read(again).expect("it") == std::fs::read(out).expect("it"));
    }
}

#[test]
fn what_cannot_be_repacked_is_refused_and_leaves_nothing() {
    let folder = Folder::new();
    let out = folder.path().join("out.gguf");
    let moe = assets::tiny("qwen3moe.gguf");
    let refused = |model: &Path, out: &Path| frank(["repack", str(model), str(out)]).failed(2);
    assert_eq!(refused(&llama(), &out), ["error: this llama model has no experts"]);
    assert!(!out.exists());
    let taken = folder.file("taken.gguf", "mine");
    let lines = refused(&moe, &taken);
    let hint = "hint: name a file that does not exist yet";
    let fact = format!("error: {}: it exists already", taken.display());
    assert_eq!(lines, [&fact, hint], "nothing is said to be copied");
    assert_eq!(std::fs::read(&taken).expect("it is there"), b"mine");
    assert!(refused(&moe, &moe).contains(&hint.to_owned()));
    let lines = frank(["repack", str(&moe), "/no/such/folder/out.gguf"]).failed(1);
    assert!(lines[0].contains("/no/such/folder"), "{lines:?}");
}
