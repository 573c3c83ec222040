//! Experts that are read while answers are made: the same tokens by every way of reading, and what happens when reading
//! fails or nothing can be learned.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reply};
use crate::files::str;
use crate::mixture::{self, Moe};
use crate::program::{command, frank, run};

/// Of the experts, which are all streamed, 10 have a slot.
const STREAMED: [&str; 6] = {
    let [budget, none, cache, size] = mixture::STREAMED;
    [budget, none, cache, size, "-c", "64"]
};

fn ask(endpoint: &Endpoint, first: u32) -> Reply {
    let body = json!({
        "prompt": [first, 116, 104, 101, 32, 113, 117, 105, 99, 107],
        "max_tokens": 16,
        "temperature": 0,
        "ignore_eos": true,
        "logprobs": 1,
    });
    endpoint.post("/v1/completions", &body.to_string())
}

fn answer(endpoint: &Endpoint) -> Value {
    let reply = ask(endpoint, 256);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["choices"][0].clone()
}

fn usage_of(model: &Path) -> PathBuf {
    PathBuf::from(format!("{}.frank-usage", model.display()))
}

#[test]
fn every_way_of_reading_gives_the_same_tokens_from_both_forms_of_the_file() {
    let Moe { folder, model } = Moe::new();
    let repacked = folder.path().join("repacked.gguf");
    frank(["repack", str(&model), str(&repacked)]).ended(0);
    let resident = answer(&Endpoint::start(&model, &["-c", "64"]));
    assert!(!usage_of(&model).exists(), "nothing is learned where nothing is streamed");
    let check = |model: &Path, options: &[&str], way: &str| {
        let endpoint = Endpoint::start(model, &[&STREAMED[..], options].concat());
        let line = format!("48 experts are read with {way}");
        assert!(endpoint.preface.contains(&line), "{line}: {}", endpoint.preface);
        assert_eq!(answer(&endpoint), resident, "{options:?}");
    };
    check(&model, &["--io", "uring"], "io_uring ");
    check(&model, &["--io", "pread", "--parallel", "1"], "pread ");
    check(&model, &["--io", "mmap", "--no-prefetch"], "mmap ");
    check(&repacked, &["--no-prefetch"], "");
    check(&repacked, &["--io", "pread"], "pread ");
}

#[test]
fn options_about_streamed_experts_are_refused_where_none_is_streamed() {
    let Moe { folder: _folder, model } = Moe::new();
    for option in [&["--io", "auto"][..], &["--no-prefetch"], &["--stream-cache", "2MiB"]] {
        for command in [&["fit", "--no-measure"][..], &["run", "--raw", "-n", "1"]] {
            let prompt: &[&str] = if command[0] == "run" { &["hi"] } else { &[] };
            let args = [command, &[str(&model)], option, prompt].concat();
            let lines = frank(args).failed(2);
            let fact = format!("error: {} has no effect: every expert stays in memory", option[0]);
            assert_eq!(lines[0], fact, "{lines:?}");
        }
    }
}

#[test]
fn what_a_server_learned_fills_idle_slots_at_the_next_start() {
    const WARM: &str = ", filled with the most used ones while idle";
    let Moe { folder: _folder, model } = Moe::new();
    let endpoint = Endpoint::start(&model, &STREAMED);
    assert!(!endpoint.preface.contains(WARM), "{}", endpoint.preface);
    let first = answer(&endpoint);
    endpoint.signal("-TERM");
    assert_eq!(endpoint.end().0, Some(0));
    let total = || -> u64 {
        let text = std::fs::read_to_string(usage_of(&model)).expect("it was learned");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("layer,expert,count"));
        let count = |line: &str| line.rsplit(',').next().and_then(|count| count.parse().ok());
        lines.map(|line| -> u64 { count(line).unwrap_or_else(|| panic!("{line}")) }).sum()
    };
    let learned = total();
    assert!(learned > 0);
    let endpoint = Endpoint::start(&model, &STREAMED);
    assert!(endpoint.preface.contains(WARM), "{}", endpoint.preface);
    assert_eq!(answer(&endpoint), first);
    endpoint.signal("-TERM");
    assert_eq!(endpoint.end().0, Some(0));
    assert_eq!(total(), 2 * learned, "counts go on from those that were there");
}

#[test]
fn a_usage_file_that_cannot_be_used_or_written_is_said_and_costs_nothing_else() {
    let Moe { folder: _folder, model } = Moe::new();
    let usage = usage_of(&model);
    let ask = ["run", str(&model), "--raw", "-n", "2", "hi"];
    std::fs::write(&usage, "layer,expert,count\n0,99,1\n").expect("written");
    let args = [&ask[..], &STREAMED].concat();
    let said = frank(&args).ended(0).stderr;
    let line = format!("warning: {} is ignored: line 2: expert 99 of layer 0", usage.display());
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    std::fs::remove_file(&usage).expect("it was replaced");
    let said = run(command(&args).env("FRANK_FAULTS", "no-space")).ended(0).stderr;
    let line = format!("warning: {} cannot be written", usage.display());
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    assert!(!usage.exists());
}

/// Serves with faults, and gives the endpoint.
fn faulty(model: &Path, faults: &str, options: &[&str]) -> Endpoint {
    Endpoint::start_with(&[("FRANK_FAULTS", faults)], model, &[&STREAMED[..], options].concat())
}

#[test]
fn a_read_that_fails_for_a_moment_costs_no_answer() {
    let Moe { folder: _folder, model } = Moe::new();
    let expected = answer(&Endpoint::start(&model, &STREAMED));
    for way in ["uring", "pread", "mmap"] {
        let endpoint = faulty(&model, "read-error:20+2", &["--io", way]);
        assert_eq!(answer(&endpoint), expected, "{way}");
        let metrics = endpoint.get("/metrics", "").body;
        assert!(metrics.contains("frank_expert_rereads_total 2\n"), "{way}: {metrics}");
    }
}

#[test]
fn a_read_that_fails_fails_its_request_and_the_server_goes_on() {
    let Moe { folder: _folder, model } = Moe::new();
    let expected = answer(&Endpoint::start(&model, &STREAMED));
    for way in ["uring", "pread", "mmap"] {
        // Each read is tried three times, and some are under way at once.
        let endpoint = faulty(&model, "read-error:20+100", &["--io", way]);
        let mut n_failed = 0;
        let answered = loop {
            let reply = ask(&endpoint, 256);
            if reply.status == 200 {
                break reply.json()["choices"][0].clone();
            }
            assert_eq!(reply.status, 500, "{way}: {}", reply.body);
            assert!(reply.json()["error"]["message"].is_string(), "{way}: {}", reply.body);
            n_failed += 1;
            assert!(n_failed <= 33, "{way}: {}", reply.body);
        };
        assert!(n_failed > 0, "{way}: no request has failed");
        assert_eq!(answered, expected, "{way}");
        assert_eq!(endpoint.get("/health", "").status, 200, "{way}");
    }
}

#[test]
fn short_reads_are_continued_and_refusals_of_the_system_are_said() {
    let Moe { folder: _folder, model } = Moe::new();
    let expected = answer(&Endpoint::start(&model, &STREAMED));
    for (faults, options, said) in [
        ("short-read:0", &["--io", "pread"][..], None),
        ("short-read:0", &["--io", "uring"], None),
        ("uring-refused", &[], Some("with pread")),
        ("direct-refused-at-open", &[], Some("through the page cache")),
        ("direct-refused-at-transfer", &["--io", "pread"], None),
    ] {
        let endpoint = faulty(&model, faults, options);
        if let Some(said) = said {
            assert!(endpoint.preface.contains(said), "{faults}: {}", endpoint.preface);
            assert!(endpoint.preface.contains("warning: "), "{faults}: {}", endpoint.preface);
        }
        assert_eq!(answer(&endpoint), expected, "{faults}");
    }
}

#[test]
fn a_file_that_is_cut_off_or_replaced_under_a_server_gives_no_wrong_answer() {
    let Moe { folder, model } = Moe::new();
    let expected = answer(&Endpoint::start(&model, &STREAMED));
    let bytes = std::fs::read(&model).expect("the model");
    for way in ["uring", "pread", "mmap"] {
        let endpoint = Endpoint::start(&model, &[&STREAMED[..], &["--io", way]].concat());
        // A new file of the same name is another file: the server has the old one open.
        std::fs::rename(&model, folder.path().join("old.gguf")).expect("renamed");
        std::fs::write(&model, vec![0; bytes.len()]).expect("replaced");
        assert_eq!(answer(&endpoint), expected, "{way}");
        std::fs::rename(folder.path().join("old.gguf"), &model).expect("put back");
        let file = std::fs::File::options().write(true).open(&model).expect("the model");
        file.set_len(bytes.len() as u64 / 4).expect("cut off");
        let reply = ask(&endpoint, 77);
        assert_eq!(reply.status, 500, "{way}: {}", reply.body);
        assert_eq!(endpoint.get("/health", "").status, 503, "{way}");
        drop(endpoint);
        std::fs::write(&model, &bytes).expect("whole again");
    }
}
