//! What the clients of a soak ask for: seeded, mixed, good and bad. Never touches a socket.

use std::time::Duration;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::http::Request;

/// The context of the soaked server.
pub(super) const CTX_SIZE: usize = 2048;
pub(super) const API_KEY: &str = "soak";
const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const N_VOCAB: u32 = 49_152;
/// Token ids that stand for text.
const TEXT_IDS: std::ops::Range<u32> = 1_000..40_000;
/// Tokens of the prompt and of the answer of each question whose answer is known.
const KNOWN: [(usize, usize); 6] = [(1, 90), (7, 40), (31, 70), (64, 1), (200, 30), (600, 60)];
const TOPICS: [&str; 6] =
    ["rivers", "the moon", "bread", "a cat and a dog", "primes", "Ærøskøbing 🚲"];

/// A prompt of token ids and its greedy continuation, which must be the same whatever runs beside it.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) prompt: Vec<u32>,
    pub(super) max_tokens: usize,
    /// What the server answered when nothing ran beside it.
    pub(super) answer: String,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// This continuation, and exactly these counts.
    Continuation { answer: String, prompt_tokens: usize, completion_tokens: usize },
    /// Any message of at most so many tokens.
    Message { max_tokens: usize },
    /// A refusal with this status.
    Refusal(u16),
}

/// Questions for [`turn`], without their answers.
pub(super) fn questions(rng: &mut ChaCha8Rng) -> Vec<Question> {
    let mut question = |(n_prompt, max_tokens)| {
        let prompt = (0..n_prompt).map(|_| rng.random_range(TEXT_IDS)).collect();
        Question { prompt, max_tokens, answer: String::new() }
    };
    KNOWN.map(&mut question).to_vec()
}

impl Question {
    /// The question as a request.
    pub(super) fn request(&self, stream: bool) -> Request {
        let mut body = json!({
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "ignore_eos": true,
            "stream": stream,
        });
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        Request::post(COMPLETIONS, body.to_string()).with_key(API_KEY)
    }

    pub(super) fn expected(&self) -> Expected {
        Expected::Continuation {
            answer: self.answer.clone(),
            prompt_tokens: self.prompt.len(),
            completion_tokens: self.max_tokens,
        }
    }
}

/// The next thing that a client does.
pub(super) fn turn(rng: &mut ChaCha8Rng, questions: &[Question]) -> Turn {
    if rng.random_ratio(1, 6) {
        let (request, status) = bad(rng);
        return Turn { request, reading: Reading::Whole, expected: Expected::Refusal(status) };
    }
    let reading = reading(rng);
    let stream = match reading {
        Reading::Whole => false,
        Reading::Stream { .. } | Reading::Cut { .. } => true,
        Reading::Leave { .. } | Reading::HalfAsked => rng.random(),
    };
    if rng.random() {
        let question = questions.choose(rng).expect("there are questions");
        Turn { request: question.request(stream), reading, expected: question.expected() }
    } else {
        let max_tokens = rng.random_range(1..160);
        let request = chat(rng, max_tokens, stream);
        Turn { request, reading, expected: Expected::Message { max_tokens } }
    }
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

fn chat(rng: &mut ChaCha8Rng, max_tokens: usize, stream: bool) -> Request {
    let topic = TOPICS.choose(rng).expect("there are topics");
    let text = format!("Tell me about {topic}. ").repeat(rng.random_range(1..40));
    let mut body = json!({
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": rng.random_range(0.0..1.5),
        "top_p": rng.random_range(0.5..1.0),
        "seed": rng.random_range(0..1000),
        "stream": stream,
    });
    if stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    Request::post(CHAT, body.to_string()).with_key(API_KEY)
}

/// A request that has to be refused, and the status of the refusal.
fn bad(rng: &mut ChaCha8Rng) -> (Request, u16) {
    let hello = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8});
    if rng.random_ratio(1, 8) {
        return (Request::post(CHAT, hello.to_string()).with_key("wrong"), 401);
    }
    let chat = |field: &str, value: Value| {
        let mut body = hello.clone();
        body[field] = value;
        Request::post(CHAT, body.to_string())
    };
    let tokens = |n: usize, id: u32| {
        Request::post(COMPLETIONS, json!({"prompt": vec![id; n], "max_tokens": 8}).to_string())
    };
    let all = [
        (Request::post(CHAT, "{\"messages\": [{\"role\":"), 400),
        (Request::post(CHAT, "[".repeat(5_000)), 400),
        (Request::post(CHAT, "{}"), 400),
        (chat("no_such_field", json!(1)), 400),
        (chat("temperature", json!("hot")), 400),
        (chat("max_tokens", json!(0)), 400),
        (chat("model", json!("no-such-model")), 404),
        (tokens(CTX_SIZE + rng.random_range(0..500), 1_000), 400),
        (tokens(1, N_VOCAB), 400),
        (tokens(0, 0), 400),
        (Request::post("/v1/nothing", "{}"), 404),
        (Request::get(CHAT), 405),
    ];
    let (request, status) = all.choose(rng).expect("there are bad requests").clone();
    (request.with_key(API_KEY), status)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn turns(seed: u64) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let questions = questions(&mut rng);
        (0..2_000).map(|_| format!("{:?}", turn(&mut rng, &questions))).collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(turns(1), turns(1));
        assert_ne!(turns(1), turns(2));
    }

    #[test]
    fn everything_is_asked_sooner_or_later() {
        let turns = turns(1);
        for part in ["Whole", "Stream", "Cut", "Leave", "HalfAsked", "Message", "Continuation"] {
            assert!(turns.iter().any(|turn| turn.contains(part)), "{part}");
        }
        for status in [400, 401, 404, 405] {
            let refusal = format!("Refusal({status})");
            assert!(turns.iter().any(|turn| turn.contains(&refusal)), "{status}");
        }
    }
}
