//! What the clients of a soak ask for: seeded, mixed, good and bad. Never touches a socket.

mod bad;

use std::time::Duration;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::http::Request;

/// The context of the soaked server.
pub(super) const CTX_SIZE: usize = 2048;
/// Keys of two clients, who must not see each other's cached prefixes.
pub(super) const API_KEYS: [&str; 2] = ["soak-one", "soak-two"];
const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const N_VOCAB: u32 = 49_152;
/// Token ids that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;
/// Tokens of the prompt and of the answer of each question whose answer is known.
const KNOWN: [(usize, usize); 6] = [(1, 90), (7, 40), (31, 70), (64, 1), (200, 30), (600, 60)];
const TOPICS: [&str; 6] =
    ["rivers", "the moon", "bread", "a cat and a dog", "primes", "Ærøskøbing 🚲"];
/// Answers that constraints allow, so that a small model has no choice but to end.
const GRAMMAR: &str = r#"root ::= "{\"" ("yes" | "no") "\": " [1-9] [0-9]? "}""#;

/// A prompt of token ids and its greedy continuation, which must be the same whatever runs beside it.
#[derive(Debug, Clone)]
pub(super) struct Question {
    prompt: Vec<u32>,
    max_tokens: usize,
    /// What the server answered when nothing ran beside it.
    pub(super) answer: Choice,
}

/// The text of an answer and, where they were asked for, the log probabilities of its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) logprobs: Vec<f64>,
}

/// One request of a client, and what has to come of it.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) request: Request,
    pub(super) reading: Reading,
    pub(super) expected: Expected,
}

/// How the client takes the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// A reply in one piece.
    Whole,
    /// A stream to its end, with a pause after each event.
    Stream { pause: Duration },
    /// Leaves after so many events of a stream.
    Cut { n_events: usize },
    /// Leaves so long after the request, having read nothing.
    Leave { after: Duration },
    /// Leaves in the middle of its own request.
    HalfAsked,
}

/// What a reply is checked against.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expected {
    /// So many times this continuation, and exactly these counts.
    Continuation {
        answer: Choice,
        n_choices: usize,
        prompt_tokens: usize,
        completion_tokens: usize,
    },
    /// So many messages of at most so many tokens each.
    Message { n_choices: usize, max_tokens: usize },
    /// A message that is a JSON object when the model ended it itself.
    Object { max_tokens: usize },
    /// A refusal with this status.
    Refusal(u16),
}

impl Expected {
    pub(super) fn n_choices(&self) -> usize {
        match self {
            Self::Continuation { n_choices, .. } | Self::Message { n_choices, .. } => *n_choices,
            Self::Object { .. } => 1,
            Self::Refusal(_) => 0,
        }
    }
}

/// What varies when a question is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) api_key: &'static str,
    pub(super) n_choices: usize,
    pub(super) logprobs: bool,
    pub(super) stream: bool,
}

/// Questions for [`turn`], without their answers.
pub(super) fn questions(rng: &mut ChaCha8Rng) -> Vec<Question> {
    let mut question = |(n_prompt, max_tokens)| {
        let prompt = (0..n_prompt).map(|_| rng.random_range(TEXT_IDS)).collect();
        Question { prompt, max_tokens, answer: Choice::default() }
    };
    KNOWN.map(&mut question).to_vec()
}

impl Question {
    /// The question as a request.
    pub(super) fn request(&self, asking: Asking) -> Request {
        let mut body = json!({
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "ignore_eos": true,
            "n": asking.n_choices,
        });
        if asking.logprobs {
            body["logprobs"] = json!(1);
        }
        request(COMPLETIONS, body, asking.api_key, asking.stream)
    }

    pub(super) fn expected(&self, asking: Asking) -> Expected {
        let mut answer = self.answer.clone();
        if !asking.logprobs {
            answer.logprobs.clear();
        }
        Expected::Continuation {
            answer,
            n_choices: asking.n_choices,
            prompt_tokens: self.prompt.len(),
            completion_tokens: self.max_tokens * asking.n_choices,
        }
    }
}

/// The next thing that a client does.
pub(super) fn turn(rng: &mut ChaCha8Rng, questions: &[Question], api_key: &'static str) -> Turn {
    if rng.random_ratio(1, 6) {
        let (request, status) = bad::request(rng, api_key);
        return Turn { request, reading: Reading::Whole, expected: Expected::Refusal(status) };
    }
    let reading = reading(rng);
    let stream = match reading {
        Reading::Whole => false,
        Reading::Stream { .. } | Reading::Cut { .. } => true,
        Reading::Leave { .. } | Reading::HalfAsked => rng.random(),
    };
    let n_choices = if rng.random_ratio(1, 6) { rng.random_range(2..4) } else { 1 };
    let (request, expected) = match rng.random_range(0..10) {
        0..5 => {
            let question = questions.choose(rng).expect("there are questions");
            let asking = Asking { api_key, n_choices, logprobs: rng.random(), stream };
            (question.request(asking), question.expected(asking))
        }
        5..8 => message(rng, n_choices, api_key, stream),
        _ => object(rng, api_key, stream),
    };
    Turn { request, reading, expected }
}

fn reading(rng: &mut ChaCha8Rng) -> Reading {
    match rng.random_range(0..20) {
        0..6 => Reading::Whole,
        6..11 => Reading::Stream { pause: Duration::ZERO },
        11..13 => Reading::Stream { pause: Duration::from_millis(rng.random_range(20..150)) },
        13..16 => Reading::Cut { n_events: rng.random_range(1..40) },
        16..19 => Reading::Leave { after: Duration::from_millis(rng.random_range(0..500)) },
        _ => Reading::HalfAsked,
    }
}

/// The next message of a conversation. All conversations about a topic begin alike, so each finds the turns of others in
/// the cache.
fn message(
    rng: &mut ChaCha8Rng,
    n_choices: usize,
    api_key: &'static str,
    stream: bool,
) -> (Request, Expected) {
    let max_tokens = rng.random_range(1..160);
    let topic = TOPICS.choose(rng).expect("there are topics");
    let rules = format!("You know all about {topic} and say it in a few words. ").repeat(8);
    let mut messages = vec![json!({"role": "system", "content": rules})];
    for n in 0..rng.random_range(0..6) {
        messages.push(json!({"role": "user", "content": format!("What is fact {n} of {topic}?")}));
        let fact = format!("Fact {n} of {topic} is that there are more. ").repeat(n + 1);
        messages.push(json!({"role": "assistant", "content": fact}));
    }
    let ask = format!("Tell me about {topic}. ").repeat(rng.random_range(1..10));
    messages.push(json!({"role": "user", "content": ask}));
    let mut body = json!({
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": rng.random_range(0.0..1.5),
        "top_p": rng.random_range(0.5..1.0),
        "seed": rng.random_range(0..1000),
        "n": n_choices,
    });
    if rng.random() {
        body["logprobs"] = json!(true);
        body["top_logprobs"] = json!(rng.random_range(0..4));
    }
    (request(CHAT, body, api_key, stream), Expected::Message { n_choices, max_tokens })
}

/// A message that is kept to a form.
fn object(rng: &mut ChaCha8Rng, api_key: &'static str, stream: bool) -> (Request, Expected) {
    let max_tokens = rng.random_range(1..80);
    let topic = TOPICS.choose(rng).expect("there are topics");
    let mut body = json!({
        "messages": [{"role": "user", "content": format!("Describe {topic} as JSON.")}],
        "max_tokens": max_tokens,
        "seed": rng.random_range(0..1000),
    });
    match rng.random_range(0..3) {
        0 => body["response_format"] = json!({"type": "json_object"}),
        1 => body["grammar"] = json!(GRAMMAR),
        _ => body["response_format"] = json!({"type": "json_schema", "json_schema": schema()}),
    }
    (request(CHAT, body, api_key, stream), Expected::Object { max_tokens })
}

fn schema() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer"}},
        "required": ["name", "size"],
        "additionalProperties": false,
    });
    json!({"name": "thing", "strict": true, "schema": schema})
}

fn request(path: &'static str, mut body: Value, api_key: &'static str, stream: bool) -> Request {
    if stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    Request::post(path, body.to_string()).with_key(api_key)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn turns(seed: u64) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let questions = questions(&mut rng);
        (0..2_000).map(|_| format!("{:?}", turn(&mut rng, &questions, API_KEYS[0]))).collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(turns(1), turns(1));
        assert_ne!(turns(1), turns(2));
    }

    #[test]
    fn everything_is_asked_sooner_or_later() {
        let turns = turns(1);
        for part in [
            "Whole",
            "Stream",
            "Cut",
            "Leave",
            "HalfAsked",
            "Message",
            "Continuation",
            "Object",
            "n_choices: 1",
            "n_choices: 3",
            "json_object",
            "json_schema",
            "grammar",
            "logprobs",
        ] {
            assert!(turns.iter().any(|turn| turn.contains(part)), "{part}");
        }
        for status in [400, 401, 404, 405] {
            let refusal = format!("Refusal({status})");
            assert!(turns.iter().any(|turn| turn.contains(&refusal)), "{status}");
        }
    }
}
