//! From what a repository lists to what a payload is made of: groups, picks, roles and names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use frank_gguf::SplitInfo;
use frank_hub::listing::{JoinError, glued_split, may_join};
use frank_hub::{
    ChooseError, Chosen, FailureKind, Listing, Reference, RemoteFile, Role, choose, groups,
};
use frank_testkit::gguf_writer::GgufWriter;
use frank_testkit::property_cases;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

/// A repository of one model in many quants, with some cut into parts in folders, as large models are published.
const LARGE: &str = "
    .gitattributes 3
    README.md 9
    config.json 2
    imatrix_unsloth.gguf 70
    BF16/GLM-5-BF16-00001-of-00002.gguf 4000
    BF16/GLM-5-BF16-00002-of-00002.gguf 4100
    GLM-5-UD-IQ1_M.gguf 900
    UD-IQ4_XS/GLM-5-UD-IQ4_XS-00001-of-00003.gguf 500
    UD-IQ4_XS/GLM-5-UD-IQ4_XS-00002-of-00003.gguf 501
    UD-IQ4_XS/GLM-5-UD-IQ4_XS-00003-of-00003.gguf 502
    UD-Q4_K_XL/GLM-5-UD-Q4_K_XL-00001-of-00001.gguf 1600
    MXFP4_MOE/GLM-5-MXFP4_MOE.gguf 1550
    MTP/GLM-5-MTP-BF16.gguf 60
    MTP/GLM-5-MTP-Q8_0.gguf 30
";

/// A small model that sees, with a template and several projectors.
const SEEING: &str = "
    README.md 9
    chat_template.jinja 5
    gemma-3-4b-it-Q4_K_M.gguf 2500
    gemma-3-4b-it-Q8_0.gguf 4100
    gemma-3-4b-it-BF16.gguf 7800
    mmproj-BF16.gguf 851
    mmproj-F16.gguf 850
    mmproj-F32.gguf 1700
    params 1
";

/// Quants with an importance matrix, of which the large ones are raw slices, as they were published once.
const FRAGMENTS: &str = "
    Mixtral-8x22B.i1-IQ2_M.gguf 4600
    Mixtral-8x22B.i1-Q4_K_M.gguf.part1of3 3700
    Mixtral-8x22B.i1-Q4_K_M.gguf.part2of3 3700
    Mixtral-8x22B.i1-Q4_K_M.gguf.part3of3 3697
    Mixtral-8x22B.i1-Q4_K_S.gguf.part1of3 3500
    Mixtral-8x22B.i1-Q4_K_S.gguf.part2of3 3500
    Mixtral-8x22B.i1-Q4_K_S.gguf.part3of3 3409
    Mixtral-8x22B.imatrix.gguf 20
";

fn listing(repo: &str, files: &str) -> Listing {
    let lines = files.lines().map(str::trim).filter(|line| !line.is_empty());
    let files = lines.map(|line| {
        let (path, bytes) = line.rsplit_once(' ').unwrap();
        let url = format!("https://hub.example/{repo}/resolve/c/{path}").parse().unwrap();
        let bytes = Some(bytes.parse().unwrap());
        RemoteFile { path: path.to_owned(), bytes, digest: None, url }
    });
    let source = format!("hf:{repo}");
    Listing { source, revision: "c".repeat(40), files: files.collect() }
}

/// What `pick` takes of a repository: payload, and for each file its role and name.
fn taken(repo: &str, files: &str, pick: &str) -> (String, Vec<String>) {
    let chosen = choose(&listing(repo, files), Some(pick).filter(|pick| !pick.is_empty()));
    let chosen = chosen.unwrap_or_else(|error| panic!("{pick}: {error}"));
    let files = chosen.files.iter().map(|file| format!("{} {}", file.role, file.name));
    (chosen.payload.clone(), files.collect())
}

fn check(repo: &str, files: &str, pick: &str, payload: &str, expected: &[&str]) {
    let (name, files) = taken(repo, files, pick);
    assert_eq!(
        (name.as_str(), files),
        (payload, expected.iter().map(|file| (*file).to_owned()).collect()),
        "{pick}"
    );
}

fn refusal(repo: &str, files: &str, pick: &str) -> ChooseError {
    let chosen = choose(&listing(repo, files), Some(pick).filter(|pick| !pick.is_empty()));
    let error = match chosen {
        Err(error) => error,
        Ok(Chosen { files, .. }) => panic!("{pick}: {files:?}"),
    };
    assert_eq!(error.kind(), FailureKind::Input);
    error
}

#[test]
fn every_file_is_listed_grouped_by_model_quant_and_scheme() {
    let shown = |files: &str| -> Vec<String> {
        let all = groups(&listing("o/r", files));
        let n_files: usize = all.iter().map(|group| group.files.len()).sum();
        assert_eq!(n_files, files.lines().filter(|line| !line.trim().is_empty()).count());
        all.iter()
            .map(|group| {
                let role = group.role.map_or("-", Role::word);
                format!("{role} {} {group} {}", group.model, group.bytes.unwrap())
            })
            .collect()
    };
    assert_eq!(
        shown(FRAGMENTS),
        [
            "model Mixtral-8x22B i1-IQ2_M 4600",
            "model Mixtral-8x22B i1-Q4_K_S (3 fragments) 10409",
            "model Mixtral-8x22B i1-Q4_K_M (3 fragments) 11097",
            "- Mixtral-8x22B.imatrix Mixtral-8x22B.imatrix 20",
        ]
    );
    assert_eq!(
        shown(LARGE),
        [
            "model GLM-5 UD-IQ1_M 900",
            "model GLM-5 UD-IQ4_XS (3 parts) 1503",
            "model GLM-5 MXFP4_MOE 1550",
            "model GLM-5 UD-Q4_K_XL 1600",
            "model GLM-5 BF16 (2 parts) 8100",
            "draft GLM-5-MTP Q8_0 30",
            "draft GLM-5-MTP BF16 60",
            "config config.json config.json 2",
            "- .gitattributes .gitattributes 3",
            "- README.md README.md 9",
            "- imatrix_unsloth imatrix_unsloth 70",
        ]
    );
}

#[test]
fn quants_are_found_whatever_their_case_and_scheme() {
    let large = |pick, label: &str, files: &[&str]| {
        check("unsloth/GLM-5-GGUF", LARGE, pick, &format!("unsloth--GLM-5-GGUF--{label}"), files);
    };
    let iq4 = [
        "model GLM-5-UD-IQ4_XS-00001-of-00003.gguf",
        "model GLM-5-UD-IQ4_XS-00002-of-00003.gguf",
        "model GLM-5-UD-IQ4_XS-00003-of-00003.gguf",
    ];
    for pick in ["UD-IQ4_XS", "ud-iq4_xs", "IQ4_XS", "iq4xs", "UD_IQ4_XS"] {
        large(pick, "UD-IQ4_XS", &iq4);
    }
    large("mxfp4_moe", "MXFP4_MOE", &["model GLM-5-MXFP4_MOE.gguf"]);
    large("Q4_K_XL", "UD-Q4_K_XL", &["model GLM-5-UD-Q4_K_XL-00001-of-00001.gguf"]);
    large(
        "bf16",
        "BF16",
        &["model GLM-5-BF16-00001-of-00002.gguf", "model GLM-5-BF16-00002-of-00002.gguf"],
    );
    for pick in ["Q4_K_S", "i1-Q4_K_S", "q4_k_s", "I1.Q4_K_S"] {
        check(
            "mradermacher/Mixtral-8x22B-i1-GGUF",
            FRAGMENTS,
            pick,
            "mradermacher--Mixtral-8x22B-i1-GGUF--i1-Q4_K_S",
            &["model Mixtral-8x22B.i1-Q4_K_S.gguf"],
        );
    }
}

#[test]
fn a_plain_quant_goes_before_one_with_a_makers_mark() {
    let files = "m-Q4_K_M.gguf 5\nm-UD-Q4_K_M.gguf 6";
    check("o/m-GGUF", files, "q4_k_m", "o--m-GGUF--Q4_K_M", &["model m-Q4_K_M.gguf"]);
    check("o/m-GGUF", files, "ud-q4_k_m", "o--m-GGUF--UD-Q4_K_M", &["model m-UD-Q4_K_M.gguf"]);
    check("o/m-GGUF", files, "", "o--m-GGUF--Q4_K_M", &["model m-Q4_K_M.gguf"]);
}

#[test]
fn a_miss_prints_the_nearest_names_and_all_there_are() {
    let error = refusal("o/r", FRAGMENTS, "Q4_K_L");
    assert_eq!(
        error.to_string(),
        "hf:o/r has no quant, file or role `Q4_K_L` (near it: i1-Q4_K_M, i1-Q4_K_S); there are: \
         i1-IQ2_M, i1-Q4_K_S, i1-Q4_K_M"
    );
    let error = refusal("o/r", SEEING, "gemma-3-4b-it-Q4_K_S.gguf");
    let ChooseError::NotFound { near, .. } = &error else { panic!("{error}") };
    assert_eq!(near[0], "gemma-3-4b-it-Q4_K_M.gguf");
}

#[test]
fn without_a_pick_it_is_q4_k_m_or_the_only_model_or_an_error_that_lists() {
    let seeing = [
        "model gemma-3-4b-it-Q4_K_M.gguf",
        "mmproj mmproj-F16.gguf",
        "template chat_template.jinja",
    ];
    for pick in ["", "latest"] {
        check(
            "ggml-org/gemma-3-4b-it-GGUF",
            SEEING,
            pick,
            "ggml-org--gemma-3-4b-it-GGUF--Q4_K_M",
            &seeing,
        );
    }
    let only = "README.md 1\ngpt-oss-20b-mxfp4.gguf 12";
    check(
        "ggml-org/gpt-oss-20b-GGUF",
        only,
        "",
        "ggml-org--gpt-oss-20b-GGUF--MXFP4",
        &["model gpt-oss-20b-mxfp4.gguf"],
    );
    let joined = ["model Mixtral-8x22B.i1-Q4_K_M.gguf"];
    check("o/Mixtral-8x22B-GGUF", FRAGMENTS, "", "o--Mixtral-8x22B-GGUF--i1-Q4_K_M", &joined);
    assert_eq!(
        refusal("o/r", LARGE, "").to_string(),
        "hf:o/r has 5 models to choose from: UD-IQ1_M, UD-IQ4_XS, MXFP4_MOE, UD-Q4_K_XL, BF16"
    );
    let two_models = "a-Q4_K_M.gguf 1\nb-Q4_K_M.gguf 2\nb-Q8_0.gguf 3";
    assert_eq!(
        refusal("o/r", two_models, "").to_string(),
        "hf:o/r has 2 models to choose from: a-Q4_K_M.gguf, b-Q4_K_M.gguf"
    );
}

#[test]
fn several_that_fit_are_an_error_that_lists_them() {
    let files = "a-Q8_0.gguf 1\nb-Q8_0.gguf 2\nsub/a-Q8_0.gguf 3";
    assert_eq!(
        refusal("o/r", files, "q8_0").to_string(),
        "hf:o/r has 3 that fit `q8_0`: a-Q8_0.gguf, sub/a-Q8_0.gguf, b-Q8_0.gguf"
    );
    assert!(matches!(refusal("o/r", files, "*Q8*"), ChooseError::Ambiguous { .. }));
    for pick in ["a-Q8_0.gguf,b-Q8_0.gguf", "model=a-Q8_0.gguf,model=b-Q8_0.gguf"] {
        assert!(matches!(refusal("o/r", files, pick), ChooseError::Ambiguous { .. }), "{pick}");
    }
    assert!(matches!(refusal("o/r", files, "-model"), ChooseError::BadPick { .. }));
    let error = refusal("o/r", "a/config.json 1\nb/config.json 1", "config.json");
    let ChooseError::Ambiguous { candidates, .. } = &error else { panic!("{error}") };
    assert_eq!(*candidates, ["a/config.json", "b/config.json"]);
    check("o/r", files, "sub/a-Q8_0.gguf", "o--r--sub--a-Q8_0", &["model a-Q8_0.gguf"]);
    check("o/r", files, "b-q8_0", "o--r--b-Q8_0", &["model b-Q8_0.gguf"]);
}

#[test]
fn files_and_globs_come_alone_and_pieces_come_whole() {
    let name = "ggml-org--gemma-3-4b-it-GGUF--Q8_0";
    let seeing =
        |pick, files: &[&str]| check("ggml-org/gemma-3-4b-it-GGUF", SEEING, pick, name, files);
    seeing("gemma-3-4b-it-Q8_0.gguf", &["model gemma-3-4b-it-Q8_0.gguf"]);
    seeing("GEMMA-3-4b-it-q8_0.GGUF", &["model gemma-3-4b-it-Q8_0.gguf"]);
    seeing("gemma-3-4b-it-Q8_0", &["model gemma-3-4b-it-Q8_0.gguf"]);
    seeing("*q8_0.gguf", &["model gemma-3-4b-it-Q8_0.gguf"]);
    seeing("*Q8*,mmproj-BF16.gguf", &["model gemma-3-4b-it-Q8_0.gguf", "mmproj mmproj-BF16.gguf"]);
    let iq4 = "o--GLM-5-GGUF--UD-IQ4_XS";
    for pick in ["GLM-5-UD-IQ4_XS-00002-of-00003.gguf", "UD-IQ4_XS/*", "*IQ4_XS-00001*"] {
        let (payload, files) = taken("o/GLM-5-GGUF", LARGE, pick);
        assert_eq!((payload.as_str(), files.len()), (iq4, 3), "{pick}");
    }
    let (_, files) = taken("o/r", FRAGMENTS, "Mixtral-8x22B.i1-Q4_K_S.gguf.part2of3");
    assert_eq!(files, ["model Mixtral-8x22B.i1-Q4_K_S.gguf"]);
    check("o/r", SEEING, "params,README.md", "o--r", &["config params", "config README.md"]);
}

#[test]
fn roles_of_one_payload_are_asked_for_by_their_word_and_left_out_with_a_minus() {
    let model = "model gemma-3-4b-it-Q8_0.gguf";
    let seeing = |pick, files: &[&str]| {
        assert_eq!(taken("o/r", SEEING, pick).1, files, "{pick}");
    };
    seeing("Q8_0", &[model, "mmproj mmproj-F16.gguf", "template chat_template.jinja"]);
    seeing("Q8_0,-mmproj", &[model, "template chat_template.jinja"]);
    seeing("q8_0,-mmproj,-template", &[model]);
    seeing("q8_0,mmproj=bf16,-template", &[model, "mmproj mmproj-BF16.gguf"]);
    seeing("mmproj=F32,-model", &["mmproj mmproj-F32.gguf"]);
    seeing("-mmproj", &["model gemma-3-4b-it-Q4_K_M.gguf", "template chat_template.jinja"]);
    seeing("model=q8_0,-mmproj,-template", &[model]);
    let large = |pick, last: &[&str]| {
        assert_eq!(taken("o/r", LARGE, pick).1[1..], *last, "{pick}");
    };
    large("UD-IQ1_M", &[]);
    large("UD-IQ1_M,draft=Q8_0,config", &["draft GLM-5-MTP-Q8_0.gguf", "config config.json"]);
    large("UD-IQ1_M,MTP/GLM-5-MTP-BF16.gguf", &["draft GLM-5-MTP-BF16.gguf"]);
    assert_eq!(
        refusal("o/r", LARGE, "UD-IQ1_M,draft").to_string(),
        "hf:o/r has 2 that fit `draft`: Q8_0, BF16"
    );
    assert_eq!(taken("o/r", LARGE, "BF16,draft").1[2..], ["draft GLM-5-MTP-BF16.gguf"]);
    assert!(matches!(refusal("o/r", LARGE, "UD-IQ1_M,mmproj"), ChooseError::NotFound { .. }));
}

#[test]
fn a_projector_goes_with_the_model_that_it_names() {
    let files = "a-7b-Q4_0.gguf 9\na-7b-mmproj-f16.gguf 1\na-7b-chat-Q4_0.gguf 9\na-7b-chat-mmproj-f16.gguf 1";
    let of = |pick| taken("o/r", files, pick).1;
    assert_eq!(of("model=a-7b-Q4_0.gguf"), ["model a-7b-Q4_0.gguf", "mmproj a-7b-mmproj-f16.gguf"]);
    assert_eq!(
        of("model=a-7b-chat-Q4_0"),
        ["model a-7b-chat-Q4_0.gguf", "mmproj a-7b-chat-mmproj-f16.gguf",]
    );
}

#[test]
fn a_head_that_drafts_is_told_from_a_model_that_has_one_inside() {
    let role = |files: &str, path: &str| {
        let all = groups(&listing("o/r", files));
        all.iter().find(|group| group.files[0].path == path).unwrap().role
    };
    let beside = "m-Q4_K_M.gguf 1000\nm-MTP-Q4_K_M.gguf 1050\nm-mtp-Q8_0.gguf 80";
    assert_eq!(role(beside, "m-MTP-Q4_K_M.gguf"), Some(Role::Model));
    assert_eq!(role(beside, "m-mtp-Q8_0.gguf"), Some(Role::Draft));
    assert_eq!(
        role("m-MTP-Q4_K_M.gguf 1\nm-MTP-Q8_0.gguf 2", "m-MTP-Q8_0.gguf"),
        Some(Role::Model)
    );
    assert_eq!(
        role("Qwen3-0.6B-draft-Q8_0.gguf 1", "Qwen3-0.6B-draft-Q8_0.gguf"),
        Some(Role::Model)
    );
}

#[test]
fn pieces_that_are_not_there_are_named() {
    let parts = "q/m-Q8_0-00002-of-00004.gguf 1\nq/m-Q8_0-00004-of-00004.gguf 1";
    assert_eq!(
        refusal("o/r", parts, "Q8_0").to_string(),
        "hf:o/r lacks 2 of the 4 parts of q/m-Q8_0: q/m-Q8_0-00001-of-00004.gguf, q/m-Q8_0-00003-of-00004.gguf"
    );
    for (files, missing) in [
        ("m.gguf.part1of3 1\nm.gguf.part3of3 1", "m.gguf.part2of3"),
        ("m.gguf.part1of3 1\nm.gguf.part2of3 1", "m.gguf.part3of3"),
        ("m.gguf.part2 1\nm.gguf.part3 1", "m.gguf.part1"),
        ("m.gguf.part0 1\nm.gguf.part2 1", "m.gguf.part1"),
        ("m.gguf-split-a 1\nm.gguf-split-c 1", "m.gguf-split-b"),
    ] {
        let error = refusal("o/r", files, "");
        let ChooseError::Missing { missing: named, n: 1, .. } = &error else { panic!("{error}") };
        assert_eq!(*named, [missing]);
    }
    let group = &groups(&listing("o/r", parts))[0];
    assert_eq!(group.missing().count(), 2);
}

#[test]
fn a_part_of_tens_of_thousands_names_the_first_that_are_missing() {
    let error = refusal("o/r", "m-00001-of-65535.gguf 1", "");
    let ChooseError::Missing { missing, n: 65_534, .. } = &error else { panic!("{error}") };
    assert_eq!(missing.len(), 40);
}

#[test]
fn fragments_are_joined_in_the_order_of_their_numbers() {
    let mut files: Vec<String> =
        (1..=12).map(|no| format!("m-Q6_K.gguf.part{no}of12 {no}")).collect();
    files.sort();
    let chosen = choose(&listing("o/m-GGUF", &files.join("\n")), None).unwrap();
    let segments = &chosen.files[0].segments;
    assert_eq!(chosen.files[0].name, "m-Q6_K.gguf");
    assert_eq!(chosen.files[0].bytes(), Some(78));
    let sizes: Vec<u64> = segments.iter().map(|segment| segment.bytes.unwrap()).collect();
    assert_eq!(sizes, (1..=12).collect::<Vec<u64>>());
    assert_eq!(taken("o/r", "m.gguf.part0 1\nm.gguf.part1 1", "").1, ["model m.gguf"]);
    let twice = "m.gguf.part1 1\nm.gguf.part01 1\nm.gguf.part2 1";
    assert!(matches!(refusal("o/r", twice, ""), ChooseError::SamePiece { .. }));
}

#[test]
fn a_repository_without_a_model_says_what_it_has() {
    let files = "README.md 1\nconfig.json 1\nmodel-00001-of-00002.safetensors 9\nmodel-00002-of-00002.safetensors 9";
    let error = refusal("o/r", files, "");
    assert_eq!(
        error.to_string(),
        "hf:o/r holds no GGUF model; it has model-00001-of-00002.safetensors, config.json, README.md"
    );
    assert!(error.hint().is_some());
    // A checkpoint for another engine is one payload too, when all of it is asked for.
    check(
        "o/r",
        files,
        "*.safetensors,config",
        "o--r",
        &[
            "model model-00001-of-00002.safetensors",
            "model model-00002-of-00002.safetensors",
            "config config.json",
        ],
    );
    assert!(matches!(refusal("o/r", "", ""), ChooseError::NoModel { .. }));
}

#[test]
fn no_two_sources_share_the_name_of_a_payload() {
    let mut names = Vec::new();
    for (repo, files, pick) in [
        ("o/m-GGUF", "m-Q8_0.gguf 1", ""),
        ("p/m-GGUF", "m-Q8_0.gguf 1", ""),
        ("o/m", "m-Q8_0.gguf 1", ""),
        ("o/m-GGUF@v1", "m-Q8_0.gguf 1", ""),
        ("o/m-GGUF@refs/pr/1", "m-Q8_0.gguf 1", ""),
        ("o/m-GGUF@refs-pr-1", "m-Q8_0.gguf 1", ""),
        ("o/m-GGUF", "n-Q8_0.gguf 1", ""),
        ("o/m-GGUF", "n.Q8_0.gguf 1", ""),
        ("o/m-GGUF", "a/n-Q8_0.gguf 1", ""),
        ("o/m-GGUF", "a b-Q8_0.gguf 1", ""),
        ("o/m-GGUF", "a_b-Q8_0.gguf 1", ""),
        ("o/m-GGUF", "m.gguf.gguf 1", ""),
        ("o/m-GGUF", "config.json 1", "config.json"),
        ("o/n-GGUF", "n-Q8_0.gguf 1\nQ8_0/n-Q8_0.gguf 1", "n-Q8_0.gguf"),
        ("o/n-GGUF", "n-Q8_0.gguf 1\nQ8_0/n-Q8_0.gguf 1", "Q8_0/n-Q8_0.gguf"),
        ("o/s-GGUF", "s-Q8_0.gguf 1\ns-Q8_0-00001-of-00001.gguf 1", "s-Q8_0.gguf"),
        ("o/s-GGUF", "s-Q8_0.gguf 1\ns-Q8_0-00001-of-00001.gguf 1", "s-Q8_0-00001-of-00001.gguf"),
        ("o/m-GGUF", "a/b--c.gguf 1", ""),
        ("o/m-GGUF", "a--b/c.gguf 1", ""),
        ("o/m-GGUF", "a/b/c.gguf 1", ""),
    ] {
        let name = taken(repo, files, pick).0;
        assert!(name.parse() == Ok(Reference::Name(name.clone())), "{name}");
        names.push(name);
    }
    let n = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), n, "{names:#?}");
    let long = format!("{}-Q8_0.gguf 1", "x".repeat(180));
    assert!(taken("o/m-GGUF", &long, "").0.len() < 200);
}

#[test]
fn files_of_one_name_from_two_folders_both_have_a_place() {
    let files = "Q8_0/m-00001-of-00001.gguf 9\nMTP/m-00001-of-00001.gguf 1\nconfig.json 1\nMTP/config.json 1";
    assert_eq!(
        taken("o/r", files, "Q8_0,draft,config").1,
        [
            "model m-00001-of-00001.gguf",
            "draft MTP--m-00001-of-00001.gguf",
            "config config.json",
            "config MTP--config.json",
        ]
    );
    for name in [".hidden.gguf", "payload.lock", "a*b.gguf"] {
        assert!(
            matches!(refusal("o/r", &format!("{name} 1"), name), ChooseError::BadName { .. }),
            "{name}"
        );
    }
}

/// A model without a split in its header, cut into slices.
fn slices(sizes: &[usize]) -> (Vec<u8>, Vec<u64>) {
    let whole = GgufWriter::new("llama").f32_tensor("t", &[64], &[1.0; 64]).to_bytes();
    let mut sizes: Vec<u64> = sizes.iter().map(|&bytes| bytes as u64).collect();
    sizes.push(whole.len() as u64 - sizes.iter().sum::<u64>());
    (whole, sizes)
}

fn join_error(joined: Vec<u8>, sizes: &[u64]) -> String {
    may_join(&mut Cursor::new(joined), sizes).unwrap_err().to_string()
}

#[test]
fn raw_slices_of_a_model_may_be_joined() {
    let (whole, sizes) = slices(&[100, 50]);
    may_join(&mut Cursor::new(&whole), &sizes).unwrap();
    let (whole, sizes) = slices(&[10, 3, 1]);
    may_join(&mut Cursor::new(&whole), &sizes).unwrap();
}

#[test]
fn parts_with_headers_of_their_own_may_not_be_joined() {
    let part = |no: u16| {
        let writer = if no == 0 { GgufWriter::new("llama") } else { GgufWriter::without_keys() };
        writer.split(no, 3, 3).f32_tensor(&format!("t{no}"), &[8], &[0.0; 8]).to_bytes()
    };
    let parts: Vec<Vec<u8>> = (0..3).map(part).collect();
    let sizes: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
    assert!(
        join_error(parts.concat(), &sizes).contains("fragment 2 begins a GGUF file of its own")
    );
    // A part that was itself cut into slices is still a part.
    let half = sizes[0] / 2;
    let cut = join_error(parts[0].clone(), &[half, sizes[0] - half]);
    assert!(cut.starts_with("fragment 1 is part 1 of 3 of a split by its header"), "{cut}");
}

#[test]
fn what_is_no_beginning_or_lacks_its_end_may_not_be_joined() {
    let (whole, sizes) = slices(&[100, 50]);
    let moved = [&whole[100..150], &whole[..100], &whole[150..]].concat();
    assert!(
        join_error(moved, &[50, 100, sizes[2]]).contains("fragment 1 does not begin a GGUF file")
    );
    let short = &whole[..whole.len() - 1];
    let error = may_join(&mut Cursor::new(short), &[100, short.len() as u64 - 100]).unwrap_err();
    assert!(matches!(error, JoinError::Header { .. }), "{error}");
    assert!(matches!(may_join(&mut Cursor::new(b""), &[]), Err(JoinError::Header { .. })));
}

#[test]
fn a_file_with_the_header_of_a_part_has_to_be_named_like_it() {
    let split = SplitInfo { no: 0, count: 3, tensors_count: 3 };
    glued_split(split, "m-00001-of-00003.gguf").unwrap();
    glued_split(SplitInfo { no: 0, count: 1, tensors_count: 3 }, "m.gguf").unwrap();
    for name in ["m.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf"] {
        let error = glued_split(split, name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{name}: header says 3 parts, file name is not part 1 of 3")
        );
        assert!(error.hint().contains("-00001-of-00003.gguf"), "{}", error.hint());
    }
}

fn a_path() -> impl Strategy<Value = String> {
    let folder =
        prop_oneof![Just(""), Just("MTP/"), Just("Q4_K_M/"), Just("UD-IQ4_XS/"), Just("a/b--c/")];
    let stem = prop_oneof![
        "[a-zA-Z]{1,3}",
        Just("m".to_owned()),
        Just("mmproj".to_owned()),
        Just("m--x".to_owned()),
        Just("日本 m".to_owned()),
    ];
    let quant = prop_oneof![
        Just(""),
        Just("-Q4_K_M"),
        Just(".i1-Q4_K_M"),
        Just("-UD-IQ4_XS"),
        Just("-bf16")
    ];
    let end = prop_oneof![
        Just(".gguf"),
        Just("-00001-of-00002.gguf"),
        Just("-00002-of-00002.gguf"),
        Just(".gguf.part1of2"),
        Just(".gguf.part2of2"),
        Just(".gguf.part01"),
        Just(".gguf-split-a"),
        Just(".safetensors"),
        Just(".json"),
        Just(".jinja"),
        Just(""),
    ];
    (folder, stem, quant, end)
        .prop_map(|(folder, stem, quant, end)| format!("{folder}{stem}{quant}{end}"))
}

fn any_listing() -> impl Strategy<Value = Listing> {
    let paths = prop::collection::btree_set(prop_oneof![9 => a_path(), 1 => "[!-~]{1,20}"], 0..12);
    paths.prop_map(|paths| {
        let lines: Vec<String> =
            paths.iter().enumerate().map(|(no, path)| format!("{path} {no}")).collect();
        listing("o/m-GGUF", &lines.join("\n"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(property_cases(256)))]

    #[test]
    fn of_any_listing_every_file_is_in_one_group_and_can_be_asked_for(listing in any_listing()) {
        let all = groups(&listing);
        let mut grouped: Vec<&str> =
            all.iter().flat_map(|group| &group.files).map(|file| file.path.as_str()).collect();
        let mut paths: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        grouped.sort_unstable();
        paths.sort_unstable();
        prop_assert_eq!(grouped, paths);
        let mut names = BTreeMap::new();
        for group in &all {
            let path = &group.files[0].path;
            let Ok(chosen) = choose(&listing, Some(path)) else { continue };
            let has = |file: &RemoteFile| chosen.files.iter().any(|chosen| chosen.segments.contains(file));
            // A word for a role is read as that, and the others are no plain names.
            let is_role = Role::ALL.iter().any(|role| path.trim_start_matches('-').starts_with(role.word()));
            let is_glob = path.contains(['*', '?', ',']) || is_role;
            prop_assert!(is_glob || group.files.iter().all(has), "{path}: {chosen:?}");
            prop_assert!(chosen.payload.parse() == Ok(Reference::Name(chosen.payload.clone())), "{}", chosen.payload);
            if !is_glob && group.role == Some(Role::Model) && chosen.payload != "o--m-GGUF" {
                let other = names.insert(chosen.payload.clone(), path);
                prop_assert_eq!(other, None, "two payloads are called {}", chosen.payload);
            }
        }
    }

    #[test]
    fn no_pick_makes_two_files_of_one_name(listing in any_listing(), pick in "[ -~]{0,12}|\\*|\\*,config|Q4_K_M,draft|bf16") {
        if let Ok(chosen) = choose(&listing, Some(&pick)) {
            let names: BTreeSet<&str> = chosen.files.iter().map(|file| file.name.as_str()).collect();
            prop_assert_eq!(names.len(), chosen.files.len());
            prop_assert!(names.iter().all(|name| !name.contains('/') && !name.starts_with('.')));
        }
    }

    #[test]
    fn any_text_is_a_reference_that_prints_as_it_was_or_an_error(text in "(hf:|https://|file:|pip:)?[ -~\u{e9}]{0,30}") {
        if let Ok(reference) = text.parse::<Reference>() {
            let again: Reference = reference.to_string().parse().unwrap();
            prop_assert_eq!(again, reference);
        }
    }
}
