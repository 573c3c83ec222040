//! `frank fit` as a drawing: bars in the terminal, and a picture that replaces nothing but a picture.

use std::path::Path;

use frank_testkit::gguf_writer::GgufWriter;

use super::{desktop, fit};
use crate::files::{Folder, llama};

#[test]
fn each_device_has_a_bar_that_is_plain_where_nobody_looks_at_a_terminal() {
    let folder = Folder::new();
    let desktop = desktop(&folder);
    let output = fit(&llama(), &["--machine", desktop.to_str().unwrap()]).ended(0).stdout;
    let (_, bars) = output.split_once("\ncpu:0\n").expect("a bar below the table");
    let bar = bars.lines().next().expect("the bar");
    assert_eq!(bar.chars().count(), 80, "{bar}");
    // 4 of 64 GiB are held by others, and 2 stay free.
    assert!(bar.starts_with("  [-----###") && bar.ends_with("  ..]"), "{bar}");
    assert!(!output.contains('\x1b'), "{output}");
}

#[test]
fn the_plan_is_a_picture_too_and_nothing_else_is_overwritten() {
    let folder = Folder::new();
    let svg = folder.path().join("plan.svg");
    let draw = |model: &Path, options: &[&str]| {
        fit(model, &[options, &["--svg", svg.to_str().unwrap()]].concat())
    };
    draw(&llama(), &[]).ended(0);
    let picture = std::fs::read_to_string(&svg).expect("it was written");
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    for expected in ["llama, 3 layers", "cpu:0: ", "dense ", "kv_cache ", "headroom "] {
        assert!(picture.contains(expected), "{expected}: {picture}");
    }
    draw(&llama(), &["--memory-budget", "1MiB", "--json"]).ended(3);
    let picture = std::fs::read_to_string(&svg).expect("it was written again");
    assert!(picture.contains("does not fit on cpu:0"), "{picture}");
    let evil = GgufWriter::new("<script>\x1b").f32_tensor("output.weight", &[4], &[0.0; 4]);
    draw(&folder.gguf("evil.gguf", &evil), &[]).ended(0);
    let picture = std::fs::read_to_string(&svg).expect("and again");
    assert!(picture.contains(r"&lt;script&gt;\u{1b}") && !picture.contains("<script"), "{picture}");
    let model = folder.file("model.gguf", "weights");
    for (place, cause) in [
        (model.as_path(), "cause: what is there is no .svg file"),
        (folder.path(), "cause: what is there is no .svg file"),
        (Path::new("/no/such/folder/plan.svg"), "cause: No such file or directory"),
    ] {
        let lines = fit(&llama(), &["--svg", place.to_str().unwrap()]).failed(2);
        assert_eq!(lines[0], format!("error: cannot write the plan to {}", place.display()));
        assert!(lines[1].starts_with(cause), "{lines:?}");
    }
    assert_eq!(std::fs::read(&model).unwrap(), b"weights");
}
