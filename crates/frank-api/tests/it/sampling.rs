//! How tokens are to be drawn, as the dialects read it.

use frank_api::{BiasTarget, Stage};
use serde_json::{Value, json};

use crate::requests::{accepted, refused};

#[test]
fn sampling_parameters_are_read_and_bounded() {
    let request = accepted(json!({
        "temperature": 0.5, "top_p": 1, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "repeat_last_n": 32,
        "presence_penalty": -1, "frequency_penalty": 2, "seed": -7,
    }));
    let sampling = request.options.sampling;
    assert_eq!(sampling.temperature, Some(0.5));
    assert_eq!((sampling.top_p, sampling.top_k, sampling.min_p), (Some(1.0), Some(40), Some(0.05)));
    assert_eq!((sampling.repeat_penalty, sampling.repeat_last_n), (Some(1.1), Some(32)));
    assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (Some(-1.0), Some(2.0)));
    assert_eq!(sampling.seed, Some((-7_i64).cast_unsigned()));
    assert_eq!(accepted(json!({"top_k": -1})).options.sampling.top_k, Some(0));
    assert_eq!(
        accepted(json!({"repetition_penalty": 1.5})).options.sampling.repeat_penalty,
        Some(1.5)
    );
    refused(json!({"temperature": -0.1}), "temperature", "must be from 0 to 2, not -0.1");
    refused(json!({"temperature": 2.1}), "temperature", "must be from 0 to 2");
    refused(json!({"top_p": 1.5}), "top_p", "must be from 0 to 1");
    refused(json!({"top_k": -2}), "top_k", "must be from -1");
    refused(json!({"top_k": 1.5}), "top_k", "must be an integer");
    refused(json!({"repeat_penalty": 0}), "repeat_penalty", "must be from 0.01");
    refused(
        json!({"repeat_penalty": 1.1, "repetition_penalty": 1.2}),
        "repetition_penalty",
        "differ",
    );
    refused(json!({"seed": "7"}), "seed", "must be an integer, not a string");
    refused(json!({"temperature": "hot"}), "temperature", "must be a number, not a string");
    refused(json!({"stream": 1}), "stream", "must be true or false, not a number");
}

#[test]
fn samplers_that_only_llama_cpp_has_are_read_and_bounded() {
    let sampling = accepted(json!({
        "typical_p": 0.9, "top_n_sigma": 1.5, "xtc_probability": 0.5, "xtc_threshold": 0.2, "dynatemp_range": 0.25,
        "dynatemp_exponent": 2, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "min_keep": 3,
        "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": -1,
        "dry_sequence_breakers": ["\n", "x"], "repeat_last_n": -1,
    }))
    .options
    .sampling;
    assert_eq!((sampling.typical_p, sampling.top_n_sigma), (Some(0.9), Some(1.5)));
    assert_eq!((sampling.xtc_probability, sampling.xtc_threshold), (Some(0.5), Some(0.2)));
    assert_eq!((sampling.dynatemp_range, sampling.dynatemp_exponent), (Some(0.25), Some(2.0)));
    assert_eq!((sampling.mirostat, sampling.min_keep), (Some(2), Some(3)));
    assert_eq!((sampling.mirostat_tau, sampling.mirostat_eta), (Some(4.0), Some(0.2)));
    assert_eq!(sampling.repeat_last_n, Some(u32::MAX));
    let dry = sampling.dry;
    assert_eq!((dry.multiplier, dry.base, dry.allowed_length), (Some(0.8), Some(2.0), Some(3)));
    assert_eq!(dry.penalty_last_n, Some(u32::MAX));
    assert_eq!(dry.breakers.as_deref(), Some(["\n".to_owned(), "x".to_owned()].as_slice()));
    refused(json!({"typical_p": 1.1}), "typical_p", "must be from 0 to 1");
    refused(json!({"xtc_probability": -0.1}), "xtc_probability", "must be from 0 to 1");
    refused(json!({"mirostat": 3}), "mirostat", "must be from 0 to 2");
    refused(json!({"dry_base": 0.5}), "dry_base", "must be from 1");
    refused(json!({"dry_penalty_last_n": -2}), "dry_penalty_last_n", "must be from -1");
    refused(json!({"dry_sequence_breakers": "x"}), "dry_sequence_breakers", "a list of strings");
    let many = vec!["x"; 65];
    refused(json!({"dry_sequence_breakers": many}), "dry_sequence_breakers", "at most 64 texts");
    let long = json!({"dry_sequence_breakers": ["x".repeat(65)]});
    refused(long, "dry_sequence_breakers[0]", "at most 64 bytes");
}

#[test]
fn a_seed_of_minus_one_is_another_one_each_time() {
    assert_eq!(accepted(json!({"seed": -1})).options.sampling.seed, None);
    assert_eq!(accepted(json!({"seed": 0})).options.sampling.seed, Some(0));
}

#[test]
fn the_order_of_samplers_has_names_or_letters() {
    let stages = |value: Value| accepted(json!({"samplers": value})).options.sampling.stages;
    let named =
        ["penalties", "DRY", "top_n_sigma", "top-k", "typ_p", "nucleus", "minp", "xtc", "temp"];
    let all = [
        Stage::Penalties,
        Stage::Dry,
        Stage::TopNSigma,
        Stage::TopK,
        Stage::TypicalP,
        Stage::TopP,
        Stage::MinP,
        Stage::Xtc,
        Stage::Temperature,
    ];
    assert_eq!(stages(json!(named)).as_deref(), Some(all.as_slice()));
    assert_eq!(stages(json!("edskypmxt")).as_deref(), Some(all.as_slice()));
    assert_eq!(stages(json!([])).as_deref(), Some([].as_slice()));
    refused(json!({"samplers": ["top_k", "infill"]}), "samplers", "holds \"infill\"");
    refused(json!({"samplers": "kz"}), "samplers", "holds z");
    refused(json!({"samplers": vec!["top_k"; 17]}), "samplers", "at most 16");
    refused(json!({"samplers": 5}), "samplers", "a list of names or a string of letters");
    refused(json!({"samplers": "k", "mirostat": 1}), "samplers", "no effect beside mirostat");
    assert!(accepted(json!({"samplers": "k", "mirostat": 0})).options.sampling.stages.is_some());
}

#[test]
fn biases_name_tokens_or_texts_in_both_forms() {
    let biases = |value: Value| {
        let biases = accepted(json!({"logit_bias": value})).options.sampling.logit_bias;
        biases.into_iter().map(|bias| (bias.target, bias.bias)).collect::<Vec<_>>()
    };
    let text = |text: &str| BiasTarget::Text(text.to_owned());
    assert_eq!(biases(json!({"15": -100})), [(BiasTarget::Token(15), -100.0)]);
    assert_eq!(biases(json!({"Hello": 1})), [(text("Hello"), 1.0)]);
    assert_eq!(biases(json!({"+15": 1})), [(text("+15"), 1.0)]);
    // An id that is too large is none of the vocabulary, and no text either.
    assert_eq!(biases(json!({"99999999999": 1})), [(BiasTarget::Token(u32::MAX), 1.0)]);
    assert_eq!(
        biases(json!([[15, 0.5], ["Hi", false]])),
        [(BiasTarget::Token(15), 0.5), (text("Hi"), f32::NEG_INFINITY)]
    );
    refused(json!({"logit_bias": {"15": 101}}), "logit_bias.15", "must be from -100 to 100");
    refused(json!({"logit_bias": [[15, true]]}), "logit_bias[0]", "or false, not true");
    refused(json!({"logit_bias": [[15]]}), "logit_bias[0]", "a pair of a token and a number");
    refused(json!({"logit_bias": [[-1, 1]]}), "logit_bias[0][0]", "a token id or a text");
    refused(json!({"logit_bias": [["", 1]]}), "logit_bias[0]", "1 to 256 bytes, not 0");
    refused(json!({"logit_bias": vec![json!([1, 1]); 1025]}), "logit_bias", "at most 1024");
    refused(json!({"logit_bias": 5}), "logit_bias", "an object or a list of pairs");
}
