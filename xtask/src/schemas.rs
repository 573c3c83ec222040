//! How much of a corpus of JSON schemas is accepted, and whether every answer that a mask lets through validates. Never
//! part of CI: the corpus is not in this repository.

mod answers;
mod corpus;
mod reasons;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use frank_grammar::{Grammar, GrammarError, Limits, Matcher};
use jsonschema::PatternOptions;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::Value;

use answers::{Answer, Words};
use corpus::Schema;
use tally::Tally;

/// Stack of a thread that validates: schemas are nested, and the validator follows them.
const STACK_BYTES: usize = 64 << 20;
const N_THREADS: usize = 2;
/// Steps back of the validator: some expressions need many, and one that is given up counts as no match.
const BACKTRACKS_MAX: usize = 100_000_000;

/// Which schemas of a corpus are tried.
#[derive(Debug, Args)]
pub(crate) struct Schemas {
    /// A folder of folders of JSON schemas, such as `data` of JSONSchemaBench: one folder for each set
    dir: PathBuf,

    /// Schemas in all, drawn evenly over the sets
    #[arg(long, value_name = "N", default_value_t = 500)]
    count: usize,

    /// Answers to each schema
    #[arg(long, value_name = "N", default_value_t = 3)]
    answers: u64,

    /// Another draw of schemas and answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What became of one schema.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was accepted, and every answer to it validates.
    Accepted { n_answers: usize, n_unfinished: usize },
    /// It was refused for this reason.
    Refused(GrammarError),
    /// It was accepted, and this answer does not validate.
    Invalid { answer: String, reason: String },
    /// It was accepted, and is no schema for the validator.
    Unverified(String),
}

impl Schemas {
    /// Compiles the schemas, draws answers to them, validates these and prints what became of them.
    /// # Errors
    /// The corpus cannot be read, or an answer does not validate.
    pub(crate) fn run(&self, _root: &Path) -> Result<()> {
        let schemas = corpus::draw(&self.dir, self.count, self.seed)?;
        ensure!(!schemas.is_empty(), "there are no schemas in {}", self.dir.display());
        let words = Words::small()?;
        let (open, tally) = (Mutex::new(schemas.iter()), Mutex::new(Tally::default()));
        thread::scope(|scope| {
            for _ in 0..N_THREADS {
                let work = || {
                    loop {
                        let Some(schema) = open.lock().ok().and_then(|mut open| open.next()) else {
                            return;
                        };
                        let (outcome, time) = self.outcome(schema, &words);
                        if let Ok(mut tally) = tally.lock() {
                            tally.add(schema, outcome, time);
                        }
                    }
                };
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, work).expect("a thread can be started");
            }
        });
        let tally = tally.into_inner().expect("no thread died");
        println!("{tally}");
        ensure!(tally.n_invalid() == 0, "{} answers do not validate", tally.n_invalid());
        Ok(())
    }

    /// What becomes of a schema, and how long it took to compile.
    fn outcome(&self, schema: &Schema, words: &Words) -> (Outcome, Duration) {
        let grammar = Grammar::json_schema(&schema.value);
        let start = Instant::now();
        let compiled = grammar.compile(words.vocabulary(), &Limits::default());
        let time = start.elapsed();
        let outcome = match compiled {
            Ok(matcher) => self.answered(schema, &matcher, words),
            Err(error) => Outcome::Refused(error),
        };
        (outcome, time)
    }

    fn answered(&self, schema: &Schema, matcher: &Matcher, words: &Words) -> Outcome {
        let validator = match validator(&schema.value) {
            Ok(validator) => validator,
            Err(reason) => return Outcome::Unverified(reason),
        };
        let (mut n_answers, mut n_unfinished) = (0, 0);
        for number in 0..self.answers {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(number));
            let answer = match words.wander(matcher, &mut rng) {
                Answer::Whole(answer) => answer,
                Answer::Unfinished => {
                    n_unfinished += 1;
                    continue;
                }
            };
            match serde_json::from_str::<Value>(&answer) {
                Ok(mut value) => {
                    make_whole(&mut value);
                    if let Err(error) = validator.validate(&value) {
                        let reason = format!("{error} at {}", error.instance_path());
                        return Outcome::Invalid { answer, reason };
                    }
                    n_answers += 1;
                }
                // JSON has no bound on a number, the reader has.
                Err(error) if error.to_string().starts_with("number out of range") => {}
                Err(error) => return Outcome::Invalid { answer, reason: error.to_string() },
            }
        }
        Outcome::Accepted { n_answers, n_unfinished }
    }
}

/// The validator of a schema, by the draft that it names.
fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    let mut schema = schema.clone();
    allow_null(&mut schema);
    let build = |options: jsonschema::ValidationOptions<'_>| {
        options
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX))
            .build(&schema)
    };
    // A name of a draft that nobody knows says nothing.
    let known = build(jsonschema::options());
    let draft = jsonschema::Draft::Draft7;
    known
        .or_else(|_| build(jsonschema::options().with_draft(draft)))
        .map_err(|error| error.to_string())
}

/// Says in JSON Schema's words what OpenAPI's `nullable` says.
fn allow_null(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let name = map.get("type").and_then(Value::as_str).map(str::to_owned);
            if map.get("nullable") == Some(&Value::Bool(true))
                && let Some(name) = name
            {
                map.insert("type".to_owned(), serde_json::json!([name, "null"]));
            }
            map.values_mut().for_each(allow_null);
        }
        Value::Array(list) => list.iter_mut().for_each(allow_null),
        _ => {}
    }
}

/// Reads `-0` as most programs do: the reader of this one makes a fraction of it, and the validator no whole number.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = 0.into(),
        Value::Array(list) => list.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        _ => {}
    }
}
