//! The real model against llama.cpp: frank reads llama.cpp's own greedy answers and must agree with each choice.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use frank_hub::ModelFile;
use frank_kernels::KvType;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
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
    /// llama.cpp's most likely token at each position of the answer.
    best: Vec<u32>,
}

fn answers(model: &Path) -> Vec<Answer> {
    let mut prompts = tempfile::NamedTempFile::new().expect("a temporary file");
    serde_json::to_writer(&mut prompts, &PROMPTS.as_slice()).expect("texts are JSON");
    prompts.flush().expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/greedy.py");
    let output = Command::new(assets::python())
        .arg(script)
        .args([model, prompts.path()])
        .arg(N_TOKENS.to_string())
        .output()
        .expect("python starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let answers = stdout.lines().find_map(|line| line.strip_prefix("ANSWERS "));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let answers = answers.unwrap_or_else(|| panic!("no answers: {stderr}"));
    serde_json::from_str(answers).expect("the script's JSON")
}

/// How frank's first choices compare with llama.cpp's on the same file.
struct Agreement {
    n_positions: usize,
    n_equal: usize,
    /// Largest distance in nats from frank's first choice to llama.cpp's, where they differ.
    worst_gap: f32,
}

fn compare(model: &Path) -> Agreement {
    let answers = answers(model);
    assert_eq!(answers.len(), PROMPTS.len(), "an answer for each prompt");
    let run = Run { n_threads: 2, kv_type: KvType::F16, ..Run::EXACT };
    let mut loaded = run.load(model, 1024);
    let mut agreement = Agreement { n_positions: 0, n_equal: 0, worst_gap: 0.0 };
    for Answer { prompt, answer, best } in answers {
        assert_eq!((answer.len(), best.len()), (N_TOKENS, N_TOKENS), "llama.cpp's answer is whole");
        let token_ids = [prompt.as_slice(), &answer[..N_TOKENS - 1]].concat();
        let logits = run.sequence(loaded.as_mut(), &token_ids);
        let rows = logits.chunks(logits.len() / token_ids.len()).skip(prompt.len() - 1);
        for (logits, best) in rows.zip(best) {
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let gap = max - logits[best as usize];
            agreement.n_positions += 1;
            agreement.n_equal += usize::from(gap == 0.0);
            agreement.worst_gap = agreement.worst_gap.max(gap);
        }
    }
    assert_eq!(agreement.n_positions, PROMPTS.len() * N_TOKENS);
    agreement
}

/// The real model with every weight written out as the f32 that it stands for: no engine rounds activations then.
fn real_weights_in_f32() -> PathBuf {
    let file = ModelFile::open(&assets::smollm2()).expect("the real model opens");
    let arch = file.header.architecture().expect("it names its family");
    let mut writer = GgufWriter::new(arch);
    for (key, value) in
        file.header.metadata.iter().filter(|(key, _)| *key != "general.architecture")
    {
        writer = writer.value(key, value.clone());
    }
    for tensor in &file.header.tensors {
        let n_bytes =
            usize::try_from(tensor.bytes().expect("a known type")).expect("fits in memory");
        let mut bytes = vec![0; n_bytes];
        file.read(tensor, 0, &mut bytes).expect("the file is whole");
        let mut values = vec![0.0; usize::try_from(tensor.n_values()).expect("fits in memory")];
        (tensor.quant().expect("a type that loads").dequantize)(&bytes, &mut values);
        writer = writer.f32_tensor(&tensor.name, &tensor.dims, &values);
    }
    let path = assets::cache_dir().join("models/SmolLM2-135M-Instruct.F32.gguf");
    let partial = tempfile::NamedTempFile::new_in(path.parent().expect("a folder")).expect("room");
    std::fs::write(partial.path(), writer.to_bytes()).expect("written");
    partial.persist(&path).expect("named");
    path
}

#[test]
fn the_real_weights_in_f32_choose_llama_cpps_token_at_99_of_100_positions_and_miss_by_0_15_nat_at_most()
 {
    let Agreement { n_positions, n_equal, worst_gap } = compare(&real_weights_in_f32());
    assert!(n_equal * 100 >= n_positions * 99, "{n_equal} of {n_positions} positions agree");
    assert!(worst_gap <= 0.15, "a choice differs by {worst_gap} nat");
}

/// Both engines round activations to 8 bits here, each in its own order, and the small model makes much of that:
/// exact arithmetic on the same weights agrees with llama.cpp at 97.4 % of positions (docs/measurements.md).
/// Measured for this file: 96.3 %, 0.52 nat.
#[test]
fn the_real_file_differs_from_llama_cpp_by_no_more_than_the_rounding_of_activations() {
    let Agreement { n_positions, n_equal, worst_gap } = compare(&assets::smollm2());
    assert!(n_equal * 100 >= n_positions * 95, "{n_equal} of {n_positions} positions agree");
    assert!(worst_gap <= 1.0, "a choice differs by {worst_gap} nat");
}
