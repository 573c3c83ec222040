//! Models with experts: their options, the files that rank them, and the same answer wherever experts lie.

use std::path::Path;

use frank_plan::Size;
use frank_testkit::assets;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::files::str;
use crate::fit::{DESKTOP, optimized};
use crate::mixture::{COUNT, EXPERT_BYTES, EXPERTS, LAYERS, Moe, SLOTS, STREAMED, USED};
use crate::program::{Run, frank};

impl Moe {
    fn run(&self, command: &[&str], options: &[&str]) -> Run {
        frank([command, &[str(&self.model)], options].concat())
    }

    fn fit(&self, options: &[&str]) -> Run {
        self.run(&["fit", "--no-measure"], options)
    }

    fn plan(&self, options: &[&str]) -> Value {
        self.fit(&[options, &["--json"]].concat()).ended(0).json()
    }

    /// The bytes of a file with the logits of a text.
    fn logits(&self, options: &[&str]) -> Vec<u8> {
        let (ids, out) = (assets::tiny("qwen3moe.ids.npy"), self.folder.path().join("logits.npy"));
        let fixed = ["--ids", str(&ids), "--logits", str(&out)];
        self.run(&["eval"], &[&fixed[..], options].concat()).ended(0);
        std::fs::read(out).expect("the logits were written")
    }
}

/// A greedy answer with the log probabilities of its tokens.
fn answer(endpoint: &Endpoint) -> Value {
    let body = json!({
        "prompt": [256, 116, 104, 101, 32, 113, 117, 105, 99, 107],
        "max_tokens": 24,
        "temperature": 0,
        "ignore_eos": true,
        "logprobs": 1,
    });
    let reply = endpoint.post("/v1/completions", &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["choices"][0].clone()
}

/// Owners that look random and are the same each time.
fn owners(seed: u64) -> String {
    let mut state = seed;
    let words = (0..LAYERS * EXPERTS).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ["primary", "secondary", "stream"][(state >> 33) as usize % 3]
    });
    json!({"owners": words.collect::<Vec<_>>()}).to_string()
}

#[test]
fn logits_are_the_same_bits_wherever_experts_lie() {
    let moe = Moe::new();
    let resident = moe.logits(&[]);
    assert!(resident.len() > 1000, "{} bytes", resident.len());
    let check = |options: &[&str]| {
        assert!(moe.logits(options) == resident, "{options:?} changed the logits");
    };
    check(&STREAMED);
    check(&[&STREAMED[..], &["--ubatch-size", "1"]].concat());
    check(&[&STREAMED[..], &["--threads", "1", "--ubatch-size", "7"]].concat());
    let pools = ["--device", "cpu:1=4MiB", "--expert-budget", "cpu:0=2MiB"];
    check(&pools);
    for seed in 1..=3 {
        let placement = moe.folder.file("owners.json", owners(seed));
        check(&[&pools[..], &["--placement", str(&placement)]].concat());
    }
}

#[test]
fn an_answer_is_the_same_resident_streamed_and_in_two_pools_and_the_log_says_where_experts_are() {
    let moe = Moe::new();
    let check = |options: &[&str], tiers: &str| {
        let endpoint = Endpoint::start(&moe.model, &[&["-c", "64"], options].concat());
        assert!(endpoint.preface.contains(tiers), "{tiers}: {}", endpoint.preface);
        (answer(&endpoint), endpoint.get("/metrics", "").body)
    };
    let (resident, metrics) = check(&[], &format!("experts: {COUNT} on cpu:0\n"));
    let gauge = format!("frank_experts{{tier=\"primary\"}} {COUNT}\n");
    assert!(metrics.contains(&gauge), "{metrics}");
    assert!(metrics.contains("frank_expert_misses_total{tier=\"primary\"} 0\n"), "{metrics}");
    let slot = Size(EXPERT_BYTES);
    let tiers = format!("experts: 0 on cpu:0, {COUNT} streamed through {SLOTS} slots of {slot}\n");
    let (streamed, metrics) = check(&STREAMED, &tiers);
    assert_eq!(streamed, resident);
    assert!(metrics.contains(&gauge.replace("primary", "streamed")), "{metrics}");
    let value = |name: &str| -> u64 {
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix("{tier=\"streamed\"} "));
        value.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse().expect("a number")
    };
    // Fewer slots than experts: some are read again, and some are still there.
    let misses = value("frank_expert_misses_total");
    assert!(misses > SLOTS && value("frank_expert_hits_total") > 0, "{metrics}");
    assert!(value("frank_expert_read_bytes_total") >= misses * EXPERT_BYTES, "{metrics}");
    let placement = moe.folder.file("owners.json", owners(7));
    let pools = ["--device", "cpu:1=2MiB", "--placement", str(&placement)];
    assert_eq!(check(&pools, &format!(", {SLOTS} on cpu:1, ")).0, resident);
}

#[test]
fn a_router_bias_chooses_other_experts_and_zeros_change_nothing() {
    let moe = Moe::new();
    let biased = |bias: [f32; EXPERTS]| {
        let bytes = bias.repeat(LAYERS).into_iter().flat_map(f32::to_le_bytes);
        let path = moe.folder.file("bias.bin", bytes.collect::<Vec<u8>>());
        moe.logits(&["--router-bias", str(&path)])
    };
    let plain = moe.logits(&[]);
    assert!(biased([0.0; EXPERTS]) == plain, "a bias of zero changed the logits");
    let mut first_two = [0.0; EXPERTS];
    first_two[..2].fill(100.0);
    assert!(biased(first_two) != plain, "the bias changed nothing");
}

#[test]
fn the_plan_counts_experts_by_tier_and_their_bytes_by_device() {
    let moe = Moe::new();
    let counts = |options: &[&str]| {
        let plan = moe.plan(options);
        let number = |name: &str| plan["experts"][name].as_u64().expect("a number");
        let tiers = ["primary", "secondary", "stream", "cache_slots"].map(number);
        let bytes = ["experts", "stream_cache"].map(|purpose| {
            let devices = plan["devices"].as_array().expect("devices").iter();
            devices.map(|device| device["use"][purpose].as_u64().expect("bytes") >> 20).collect()
        });
        assert_eq!([number("count"), number("bytes_each")], [COUNT, EXPERT_BYTES]);
        assert_eq!(number("floor_slots"), LAYERS as u64 * USED);
        (tiers, bytes)
    };
    let check = |options: &[&str], tiers: [u64; 4], [experts, cache]: [&[u64]; 2]| {
        assert_eq!(counts(options), (tiers, [experts.to_vec(), cache.to_vec()]), "{options:?}");
    };
    check(&[], [COUNT, 0, 0, 0], [&[10], &[0]]);
    check(&STREAMED, [0, 0, COUNT, SLOTS], [&[0], &[2]]);
    let pools =
        ["--device", "cpu:1=2MiB", "--expert-budget", "cpu:0=4MiB", "--stream-cache", "4MiB"];
    // No more slots than streamed experts.
    let streamed = COUNT - 3 * SLOTS;
    check(&pools, [2 * SLOTS, SLOTS, streamed, streamed], [&[4, 2], &[4, 0]]);
}

#[test]
fn the_most_used_experts_stay_in_memory_and_protected_ones_always() {
    let moe = Moe::new();
    // A header line is allowed.
    let hotness = moe.folder.file("usage.csv", "layer,expert,count\n0,1,5\n2,7,9\n1,3,1\n");
    let protected = moe.folder.file("protected.json", r#"{"1": [0, 6]}"#);
    let options = ["--expert-budget", "cpu:0=2MiB", "--stream-cache", "2MiB"];
    let files = ["--hotness", str(&hotness), "--protected-experts", str(&protected)];
    let planned = moe.plan(&[&options[..], &files].concat());
    let experts = &planned["experts"];
    assert_eq!((&experts["primary"], &experts["stream"]), (&json!(SLOTS), &json!(COUNT - SLOTS)));
    // Protected experts that do not fit are no matter of rank.
    let all: Vec<usize> = (0..EXPERTS).collect();
    let all = moe.folder.file("protected.json", json!({"0": all, "1": all}).to_string());
    let args = [&options[..], &["--protected-experts", str(&all)]].concat();
    let lines: Vec<String> = moe.fit(&args).ended(3).stderr.lines().map(str::to_owned).collect();
    assert!(lines[0].contains("protected"), "{lines:?}");
}

#[test]
fn the_most_experts_stay_in_memory_with_the_smallest_cache_that_works() {
    let moe = Moe::of_layers(8);
    let desktop = moe.folder.file("desktop.toml", DESKTOP);
    let roomy = ["--machine", str(&desktop), "--optimize", "experts"];
    let output = moe.run(&["fit"], &roomy).ended(0).stdout;
    assert!(output.ends_with("\nevery expert stays in memory as it is\n"), "{output}");
    let resident = moe.run(&["fit", "--json"], &roomy).ended(0).json();
    assert_eq!(resident["options"], json!([]));
    // The experts do not fit by a little.
    let used = resident["devices"][0]["used"].as_u64().expect("bytes");
    let budget = (used - (1 << 20)).to_string();
    let options = ["--machine", str(&desktop), "--memory-budget", &budget];
    let (found, planned) = optimized(&moe.model, "experts", &options);
    let [found] = found.as_slice() else { panic!("{found:?}") };
    let size = found.strip_prefix("--stream-cache cpu:0=").expect("the size of the cache");
    let size: u64 = size.strip_suffix("MiB").expect("whole pages").parse().expect("a number");
    let n_resident = |plan: &Value| plan["experts"]["primary"].as_u64().expect("a number");
    let best = n_resident(&planned);
    assert!(best >= SLOTS, "{planned}");
    for other in (2..=10).step_by(2).filter(|&other| other != size) {
        let other_size = format!("{other}MiB");
        let options = [&options[..], &["--stream-cache", &other_size, "--json"]].concat();
        let run = moe.run(&["fit"], &options);
        let n = if run.code == 0 { n_resident(&run.json()) } else { 0 };
        assert!(n < best || (n == best && other < size), "{other_size}: {n} of {best}");
    }
}

/// `frank COMMAND model OPTION file` fails with exit code 2, names the file and says `cause`.
fn check_file(moe: &Moe, command: &[&str], option: &str, file: &Path, cause: &str) {
    let prompt = if command[0] == "run" { &["hi"][..] } else { &[] };
    let lines = moe.run(command, &[&[option, str(file)], prompt].concat()).failed(2);
    let fact = format!("error: cannot use {option} {}", file.display());
    assert_eq!(lines[0], fact, "{lines:?}");
    assert!(lines[1].starts_with("cause: ") && lines[1].contains(cause), "{cause}: {lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_file_about_experts_that_cannot_be_used_is_named_with_what_is_wrong() {
    let moe = Moe::new();
    let all = |word: &str, n: usize| json!({"owners": vec![word; n]}).to_string();
    let mut unknown = vec!["stream"; LAYERS * EXPERTS];
    unknown[3] = "gpu";
    let unknown = json!({"owners": unknown}).to_string();
    for (option, text, cause) in [
        ("--placement", "", "line 1: "),
        ("--placement", "{\"owners\": [\n\"primary\",\n]}", "line 3: "),
        ("--placement", &all("primary", 47), "47 owners, 48 expected (3 layers of 16 experts)"),
        ("--placement", &all("primary", 49), "49 owners, 48 expected (3 layers of 16 experts)"),
        ("--placement", &unknown, "owner 3 is `gpu`; primary, secondary and stream are known"),
        ("--hotness", "0,1,5\n0;1;5\n", "line 2: "),
        ("--hotness", "0,1,-5\n", "line 1: "),
        ("--hotness", "3,0,1\n", "layer 3 is out of range: the model has 3 layers"),
        ("--hotness", "0,16,1\n", "expert 16 of layer 0 is out of range: the layer has 16 experts"),
        ("--protected-experts", "[1]", "line 1: "),
        ("--protected-experts", r#"{"one": [1]}"#, "`one` is not the number of a layer"),
        ("--protected-experts", r#"{"3": [1]}"#, "layer 3 is out of range"),
        ("--protected-experts", r#"{"0": [16]}"#, "expert 16 of layer 0 is out of range"),
    ] {
        check_file(&moe, &["fit"], option, &moe.folder.file("file", text), cause);
    }
    let bias = |n: usize, value: f32| moe.folder.file("bias", value.to_le_bytes().repeat(n));
    check_file(&moe, &["fit"], "--router-bias", &bias(47, 0.0), "188 bytes, 192 expected");
    check_file(&moe, &["fit"], "--router-bias", &bias(48, f32::NAN), "not a finite number");
}

#[test]
fn a_file_about_experts_that_cannot_be_read_is_named_by_every_command() {
    let moe = Moe::new();
    let latin = moe.folder.file("latin", b"\"prim\xe4r\"");
    for option in ["--placement", "--hotness", "--protected-experts", "--router-bias"] {
        check_file(&moe, &["fit"], option, Path::new("/no/such/file"), "No such file or directory");
        check_file(&moe, &["fit"], option, moe.folder.path(), "Is a directory");
        check_file(
            &moe,
            &["fit"],
            option,
            Path::new("/dev/zero"),
            "it is longer than the 67108864 bytes",
        );
        if option != "--router-bias" {
            check_file(&moe, &["fit"], option, &latin, "invalid utf-8");
        }
        for command in
            [&["serve", "--port", "0"][..], &["run", "--raw", "-n", "1"], &["bench", "throughput"]]
        {
            check_file(
                &moe,
                command,
                option,
                Path::new("/no/such/file"),
                "No such file or directory",
            );
        }
    }
}

#[test]
fn options_about_experts_that_make_no_sense_are_refused_by_name() {
    let moe = Moe::new();
    let check = |options: &[&str], expected: &[&str]| {
        assert_eq!(moe.fit(options).failed(2), expected, "{options:?}");
    };
    let has = "hint: it has cpu:0";
    check(
        &["--expert-budget", "cpu:1=1GiB"],
        &["error: --expert-budget cpu:1: the machine has no such device", has],
    );
    check(
        &["--stream-cache", "gpu:0=1GiB"],
        &["error: --stream-cache gpu:0: the machine has no such device", has],
    );
    check(
        &["--device", "gpu:0=1GiB"],
        &["error: --device gpu:0: the machine has no such device", has],
    );
    for (option, value, reason) in [
        ("--io <WAY>", "magic", "`magic` is no way to read; auto, uring, pread and mmap are"),
        ("--expert-budget <ID=SIZE>", "1GiB", "not ID=SIZE, as in cpu:0=4GiB"),
    ] {
        let name = option.split(' ').next().expect("a name");
        let expected = format!("error: invalid value '{value}' for '{option}': {reason}");
        check(&[name, value], &[&expected]);
    }
    for way in ["auto", "uring", "pread", "mmap"] {
        moe.fit(&[&STREAMED[..], &["--io", way]].concat()).ended(0);
    }
}
