//! Settings that change which tokens are drawn, and when an answer may end.

use serde_json::{Value, json};

use crate::script::says;
use crate::server::{Setup, ask, chunks_of, server_that_says};

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().expect("an answer has a text")
}

#[tokio::test]
async fn a_bias_makes_a_token_certain_or_impossible() {
    let server = server_that_says("Hello.").await;
    for bias in [json!({"74": 100}), json!([[74, 100]]), json!([["J", 100]]), json!({"J": 100})] {
        let body = ask("Hi", json!({"logit_bias": bias, "max_tokens": 3}));
        assert_eq!(text(&server.chat_ok(&body).await), "JJJ", "{bias}");
    }
    let banned = json!({"logit_bias": [["Hel", false], ["o", 1]], "max_tokens": 6});
    assert_eq!(text(&server.chat_ok(&ask("Hi", banned)).await), "ooooo.");
}

#[tokio::test]
async fn a_bias_of_a_token_that_is_not_there_is_refused() {
    let server = server_that_says("Hello.").await;
    let response = server.chat(&ask("Hi", json!({"logit_bias": {"259": 1}}))).await;
    assert_eq!(response.status(), 400);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["param"], "logit_bias");
}

#[tokio::test]
async fn repeated_sequences_are_penalized_up_to_a_breaker() {
    let endless = Setup { answer: vec![u32::from(b'x')], ..Setup::default() }.start().await;
    let with = |extra: Value| {
        let mut body = ask("Hi", json!({"max_tokens": 12, "dry_multiplier": 60}));
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let answer = endless.chat_ok(&with(json!({}))).await;
    assert_ne!(text(&answer), "x".repeat(12), "a repetition costs more than 50");
    let free = with(json!({"dry_sequence_breakers": ["x"]}));
    assert_eq!(text(&endless.chat_ok(&free).await), "x".repeat(12));
    let off = ask("Hi", json!({"max_tokens": 12, "dry_multiplier": 0}));
    assert_eq!(text(&endless.chat_ok(&off).await), "x".repeat(12));
}

#[tokio::test]
async fn every_sampler_can_be_asked_for() {
    let server = server_that_says("Hello.").await;
    for extra in [
        json!({"typical_p": 0.9, "top_n_sigma": 1, "xtc_probability": 0.1, "xtc_threshold": 0.2, "min_keep": 1}),
        json!({"dynatemp_range": 0.5, "dynatemp_exponent": 2, "top_k": 40, "top_p": 0.9, "min_p": 0.1}),
        json!({"mirostat": 1, "mirostat_tau": 1}),
        json!({"mirostat": 2, "mirostat_eta": 0.2}),
        json!({"samplers": "edskypmxt", "repeat_last_n": -1, "presence_penalty": 1}),
        json!({"samplers": ["top_k", "temperature"], "top_k": 1}),
    ] {
        let mut body = ask("Hi", json!({"temperature": 0.8, "seed": 1}));
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert_eq!(text(&server.chat_ok(&body).await), "Hello.", "{extra}");
    }
}

#[tokio::test]
async fn an_answer_does_not_end_before_its_least_number_of_tokens() {
    let server = server_that_says("Hi").await;
    let answer = server.chat_ok(&ask("Hi", json!({"min_tokens": 5}))).await;
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert!(text(&answer).starts_with("Hi"));
}

#[tokio::test]
async fn a_stop_text_does_not_end_an_answer_before_its_least_number_of_tokens() {
    let server = Setup { answer: says("x.x.x.x."), ..Setup::default() }.start().await;
    let answer = server.chat_ok(&ask("Hi", json!({"min_tokens": 4, "stop": "."}))).await;
    assert_eq!(text(&answer), "x.x");
    let answer = server.chat_ok(&ask("Hi", json!({"min_tokens": 5, "stop": "."}))).await;
    assert_eq!(text(&answer), "x.x.x");
}

#[tokio::test]
async fn an_answer_without_end_never_ends_by_a_token() {
    let server = server_that_says("Hi").await;
    let answer = server.chat_ok(&ask("Hi", json!({"ignore_eos": true, "max_tokens": 9}))).await;
    assert_eq!(answer["usage"]["completion_tokens"], 9);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn timings_tell_how_long_it_took() {
    let server = server_that_says("Hello.").await;
    let answer = server.chat_ok(&ask("Hi", json!({}))).await;
    let timings = &answer["timings"];
    assert_eq!(timings["prompt_n"], answer["usage"]["prompt_tokens"]);
    assert_eq!((&timings["cache_n"], &timings["predicted_n"]), (&json!(0), &json!(6)));
    assert!(timings["prompt_ms"].as_f64().unwrap() > 0.0, "{timings}");
    assert!(timings["predicted_per_second"].as_f64().unwrap() > 0.0, "{timings}");
    let chunks = server.chat_stream(&ask("Hi", json!({"stream": true}))).await;
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["timings"]["predicted_n"], 6);
    assert!(others.iter().all(|chunk| chunk.get("timings").is_none()));
}

#[tokio::test]
async fn usage_has_the_times_whole_or_streamed_in_both_dialects() {
    let server = server_that_says("Hello.").await;
    let options = json!({"include_usage": true});
    for (path, body) in [
        ("/v1/chat/completions", ask("Hi", json!({}))),
        ("/v1/completions", json!({"prompt": "Once"})),
    ] {
        let whole: Value = server.post(path, &body).send().await.unwrap().json().await.unwrap();
        let mut body = body;
        body["stream"] = true.into();
        body["stream_options"] = options.clone();
        let text = server.post(path, &body).send().await.unwrap().text().await.unwrap();
        let chunks = chunks_of(text.strip_suffix("data: [DONE]\n\n").unwrap());
        for usage in [&whole["usage"], &chunks.last().unwrap()["usage"]] {
            let timings = usage["timings"].as_object().unwrap();
            let names: Vec<_> = timings.keys().map(String::as_str).collect();
            assert_eq!(
                names,
                ["cached_prefix_tokens", "prefilled_tokens", "prefill_ms", "decode_ms"]
            );
            assert_eq!(timings["cached_prefix_tokens"], 0);
            assert_eq!(timings["prefilled_tokens"], usage["prompt_tokens"]);
            assert!(timings["prefill_ms"].as_f64().unwrap() > 0.0, "{usage}");
            assert!(timings["decode_ms"].as_f64().unwrap() > 0.0, "{usage}");
        }
    }
}
