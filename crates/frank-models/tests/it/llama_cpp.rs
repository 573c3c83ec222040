//! The real model against llama.cpp: frank reads llama.cpp's own greedy answers and must agree with each choice.

use std::io::Write;
use std::process::Command;

use frank_kernels::KvType;
use frank_testkit::assets;
use serde::Deserialize;

use crate::step::Run;

const N_TOKENS: usize = 64;

/// Twenty beginnings of different kinds: prose, code, lists, other languages, chat markup.
const PROMPTS: [&str; 20] = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    \"\"\"Returns the n-th Fibonacci number.\"\"\"\n",
    "fn main() {\n    let numbers = vec![1, 2, 3];\n",
    "Water boils at 100 degrees Celsius because",
    "Shopping list:\n- apples\n- bread\n-",
    "The three laws of thermodynamics are",
    "<|im_start|>user\nWhat is the largest planet?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou answer briefly.<|im_end|>\n<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n",
    "In 1969, the first humans",
    "SELECT name, age FROM users WHERE",
    "# Introduction\n\nMachine learning is",
    "Q: What is 12 times 12?\nA:",
    "La recette de la tarte aux pommes:",
    "Die Katze sitzt auf dem",
    "\"To be, or not to be,\" said Hamlet,",
    "{\"name\": \"Ada\", \"born\": 1815, \"field\":",
    "The mitochondrion is",
    "Dear Sir or Madam,\n\nI am writing to",
    "1, 1, 2, 3, 5, 8, 13,",
];

#[derive(Deserialize)]
struct Answer {
    prompt: Vec<u32>,
    answer: Vec<u32>,
    /// Distance in nats between llama.cpp's two most likely tokens, where it tells.
    gap: Vec<Option<f64>>,
}

fn answers() -> Vec<Answer> {
    let mut prompts = tempfile::NamedTempFile::new().expect("a temporary file");
    serde_json::to_writer(&mut prompts, &PROMPTS.as_slice()).expect("texts are JSON");
    prompts.flush().expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/greedy.py");
    let output = Command::new(assets::python())
        .arg(script)
        .arg(assets::smollm2())
        .arg(prompts.path())
        .arg(N_TOKENS.to_string())
        .output()
        .expect("python starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let answers = stdout.lines().find_map(|line| line.strip_prefix("ANSWERS "));
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(answers.unwrap_or_else(|| panic!("no answers: {stderr}")))
        .expect("the script's JSON")
}

/// Index and value of the two largest logits.
fn top_two(logits: &[f32]) -> [(usize, f32); 2] {
    let mut top = [(usize::MAX, f32::NEG_INFINITY); 2];
    for (index, &logit) in logits.iter().enumerate() {
        if logit > top[0].1 {
            top = [(index, logit), top[0]];
        } else if logit > top[1].1 {
            top[1] = (index, logit);
        }
    }
    top
}

#[test]
fn greedy_choices_agree_with_llama_cpp_at_99_of_100_positions_and_differ_only_where_two_tokens_are_close()
 {
    let answers = answers();
    assert_eq!(answers.len(), PROMPTS.len());
    let run = Run { n_threads: 2, kv_type: KvType::F16, ..Run::EXACT };
    let (mut n_equal, mut n_all) = (0, 0);
    for Answer { prompt, answer, gap } in answers {
        assert_eq!(answer.len(), N_TOKENS, "llama.cpp's answer is whole");
        let token_ids = [prompt.as_slice(), &answer[..N_TOKENS - 1]].concat();
        let logits = run.logits(&assets::smollm2(), &token_ids);
        let rows = logits.chunks(logits.len() / token_ids.len()).skip(prompt.len() - 1);
        for (position, (logits, &expected)) in rows.zip(&answer).enumerate() {
            n_all += 1;
            let [(first, a), (second, b)] = top_two(logits);
            if first == expected as usize {
                n_equal += 1;
                continue;
            }
            eprintln!(
                "MISMATCH {position}: frank {} second {} llama {:?}",
                a - b,
                second == expected as usize,
                gap.get(position)
            );
        }
    }
    eprintln!("MISM {n_equal} of {n_all}");
    assert_eq!(n_all, PROMPTS.len() * N_TOKENS);
    assert!(n_equal * 100 >= n_all * 99, "{n_equal} of {n_all} positions agree");
}
