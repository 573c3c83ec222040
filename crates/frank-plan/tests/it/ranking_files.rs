//! Ranking files: what is read of each format, and how each error is named.

use frank_plan::{Hotness, ModelNeeds, Placement, Protected, RankingError, parse_router_bias};

use crate::made_up::expert_model;

/// 30 layers of 8 experts, of which the first has none.
fn needs() -> ModelNeeds {
    let mut needs = expert_model();
    needs.expert_layers.remove(0);
    needs
}

fn owners(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("{{\"owners\": [{}]}}", quoted.join(",\n"))
}

fn refused<T: std::fmt::Debug>(result: Result<T, RankingError>, expected: &str) {
    assert_eq!(result.expect_err(expected).to_string(), expected);
}

#[test]
fn a_placement_file_names_a_tier_for_each_expert_of_each_layer() {
    let parse = |text: &str| Placement::parse(text, &needs());
    let all = vec!["stream"; 240];
    assert_eq!(parse(&owners(&all)), parse(&owners(&all)));
    assert_ne!(parse(&owners(&all)), parse(&owners(&["primary"; 240])));
    refused(parse(&owners(&all[1..])), "239 owners, 240 expected (30 layers of 8 experts)");
    refused(parse(&owners(&[])), "0 owners, 240 expected (30 layers of 8 experts)");
    let mut odd = all;
    odd[17] = "Primary";
    let expected = "owner 17 is `Primary`; primary, secondary and stream are known";
    refused(parse(&owners(&odd)), expected);
}

#[test]
fn what_is_no_placement_file_is_named_with_its_line() {
    let check = |text: &str, expected: &str| refused(Placement::parse(text, &needs()), expected);
    check("", "line 1: EOF while parsing a value");
    check("{}", "line 1: missing field `owners`");
    check("[]", "line 1: invalid length 0, expected struct PlacementFile with 1 element");
    check("{\"owners\":\n 3}", "line 2: invalid type: integer `3`, expected a sequence");
    check("{\"owners\":\n\n[1]}", "line 3: invalid type: integer `1`, expected a string");
    check("{\"owner\": []}", "line 1: unknown field `owner`, expected `owners`");
    check("{\"owners\": []}\nx", "line 2: trailing characters");
}

#[test]
fn a_hotness_file_counts_experts_line_by_line() {
    let parse = |text: &str| Hotness::parse(text, &needs()).expect(text);
    let plain = parse("1,2,30\n29,7,1\n");
    assert_eq!(parse("layer,expert,count\r\n1,2,30\r\n29,7,1\r\n"), plain);
    assert_eq!(parse("\n29, 7 ,1\n\n1,2,10\n1,2,20"), plain);
    assert_ne!(parse("1,2,31\n29,7,1\n"), plain);
    let most = u64::MAX;
    assert_eq!(parse(&format!("1,0,{most}\n1,0,1\n")), parse(&format!("1,0,{most}\n")));
}

#[test]
fn what_is_no_hotness_file_is_named_with_its_line() {
    let check = |text: &str, expected: &str| refused(Hotness::parse(text, &needs()), expected);
    let line = |line: usize, text: &str| {
        format!("line {line}: `{text}` is not layer,expert,count in whole numbers")
    };
    for text in
        ["1,2", "1,2,3,4", "a,b,c", "1,2,-3", "1,2,3.5", "1;2;3", ",,", "1,2,18446744073709551616"]
    {
        check(&format!("1,2,3\n{text}\n"), &line(2, text));
    }
    // A header is the first line and no other.
    check("1,2,3\nlayer,expert,count\n", &line(2, "layer,expert,count"));
    check("30,0,1", "line 1: layer 30 is out of range: the model has 30 layers");
    check("\n4294967296,0,1", "line 2: layer 4294967296 is out of range: the model has 30 layers");
    check("29,8,1", "line 1: expert 8 of layer 29 is out of range: the layer has 8 experts");
    check("0,0,1", "line 1: layer 0 has no experts");
    for text in ["", "layer,expert,count\n", "\n\n"] {
        check(text, "it names no expert, and so it has no effect");
    }
    let long = "9".repeat(5000);
    let message = Hotness::parse(&long, &needs()).expect_err("one number").to_string();
    assert!(message.len() < 200, "an error is a line that can be read: {} bytes", message.len());
}

#[test]
fn a_file_of_protected_experts_lists_them_by_layer() {
    let parse = |text: &str| Protected::parse(text, &needs()).expect(text);
    let plain = parse(r#"{"1": [0, 7], "29": [3]}"#);
    assert_eq!(parse(r#"{"29": [3, 3], "1": [7], "1": [0]}"#), plain);
    assert_ne!(parse(r#"{"29": [3], "1": [7]}"#), plain);
    for text in ["{}", r#"{"4": []}"#] {
        refused(Protected::parse(text, &needs()), "it names no expert, and so it has no effect");
    }
}

#[test]
fn what_is_no_file_of_protected_experts_is_named() {
    let check = |text: &str, expected: &str| refused(Protected::parse(text, &needs()), expected);
    check("", "line 1: EOF while parsing a value");
    check(
        "[1]",
        "line 1: invalid type: sequence, expected an object of layers with lists of experts",
    );
    check("{\n\"1\": 3}", "line 2: invalid type: integer `3`, expected a sequence");
    check("{\n\"1\": [-1]}", "line 2: invalid value: integer `-1`, expected u64");
    check(r#"{"one": [1]}"#, "`one` is not the number of a layer");
    check(r#"{"30": []}"#, "layer 30 is out of range: the model has 30 layers");
    check(r#"{"29": [1, 8]}"#, "expert 8 of layer 29 is out of range: the layer has 8 experts");
    check(
        r#"{"29": [4294967296]}"#,
        "expert 4294967296 of layer 29 is out of range: the layer has 8 experts",
    );
    check(r#"{"0": [1]}"#, "layer 0 has no experts");
}

#[test]
fn a_file_of_router_biases_is_a_number_for_each_expert_of_each_layer() {
    let biases: Vec<f32> = (0..240).map(|n| n as f32 / 8.0 - 3.0).collect();
    let bytes: Vec<u8> = biases.iter().flat_map(|bias| bias.to_le_bytes()).collect();
    assert_eq!(parse_router_bias(&bytes, &needs()), Ok(biases.clone()));
    let check =
        |bytes: &[u8], expected: &str| refused(parse_router_bias(bytes, &needs()), expected);
    check(&bytes[1..], "959 bytes, 960 expected (30 layers of 8 experts)");
    check(&[], "0 bytes, 960 expected (30 layers of 8 experts)");
    for (value, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let mut odd = bytes.clone();
        odd[4 * (3 * 8 + 5)..][..4].copy_from_slice(&value.to_le_bytes());
        check(&odd, &format!("the bias of expert 5 of layer 3 is {word}, not a finite number"));
    }
}

#[test]
fn a_header_cannot_make_a_file_take_more_memory_than_it_is_long() {
    let absurd =
        ModelNeeds { layers: u32::MAX, experts: u32::MAX, expert_layers: Vec::new(), ..needs() };
    let expected = "18446744065119617025 owners";
    let error = Placement::parse(&owners(&["stream"]), &absurd).expect_err("1 owner").to_string();
    assert!(error.contains("1 owners, ") && error.contains(&expected[..20]), "{error}");
    assert!(parse_router_bias(&[0; 4], &absurd).is_err());
    assert!(Hotness::parse("4294967294,4294967294,1", &absurd).is_ok());
    assert!(Protected::parse(r#"{"4294967294": [4294967294]}"#, &absurd).is_ok());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,60}", lines in "([0-9]{0,3},){0,3}[0-9]{0,3}\n") {
        for text in [&text, &lines] {
            let _read = Hotness::parse(text, &needs());
            let _read = Placement::parse(text, &needs());
            let _read = Protected::parse(text, &needs());
            let _read = parse_router_bias(text.as_bytes(), &needs());
        }
    }
}
