//! llama.cpp's greedy answers to twenty prompts, computed once for each model file. Never runs frank.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use frank_hub::Sha256;
use frank_testkit::assets;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

pub(super) const N_TOKENS: usize = 64;
/// Copies of llama.cpp that share the prompts, with one thread each: two threads of one copy would wait for each other
/// at barriers whenever a core is taken away.
const N_PROCESSES: usize = 2;
const SCRIPT: &str = include_str!("../../oracle/greedy.py");

/// Twenty beginnings of different kinds: prose, code, lists, other languages, chat markup.
pub(super) const PROMPTS: [&str; 20] = [
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

/// A model file and the digest of what is in it.
pub(super) struct ModelFile {
    pub(super) path: PathBuf,
    pub(super) sha256: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) prompt: Vec<u32>,
    pub(super) answer: Vec<u32>,
    /// llama.cpp's most likely token at each position of the answer.
    pub(super) best: Vec<u32>,
}

/// The answers of llama.cpp, which takes minutes for them the first time and is not asked again while file, script,
/// prompts and package stay the same.
pub(super) fn answers(model: &ModelFile) -> Vec<Answer> {
    let kept = kept_at(model);
    if let Some(answers) = fs::read(&kept).ok().and_then(|kept| serde_json::from_slice(&kept).ok())
    {
        return answers;
    }
    let answers = ask(&model.path);
    let folder = kept.parent().expect("it has a folder");
    fs::create_dir_all(folder).expect("a folder in the test cache");
    let mut file = NamedTempFile::new_in(folder).expect("a file in the test cache");
    serde_json::to_writer(&mut file, &answers).expect("numbers are JSON");
    file.flush().expect("written");
    file.persist(&kept).expect("named");
    answers
}

/// Where the answers to exactly this question belong.
fn kept_at(model: &ModelFile) -> PathBuf {
    let package = assets::python_requirement("xllamacpp");
    let question =
        format!("{}\n{package}\n{N_TOKENS}\n{N_PROCESSES}\n{PROMPTS:?}\n{SCRIPT}", model.sha256);
    let name = model.path.file_stem().unwrap_or_default().display();
    let digest = Sha256::of(question.as_bytes()).to_string();
    assets::cache_dir().join("answers").join(format!("{name}-{}.json", &digest[..16]))
}

fn ask(model: &Path) -> Vec<Answer> {
    let processes: Vec<_> = PROMPTS
        .chunks(PROMPTS.len().div_ceil(N_PROCESSES))
        .map(|prompts| {
            let mut file = NamedTempFile::new().expect("a temporary file");
            serde_json::to_writer(&mut file, prompts).expect("texts are JSON");
            file.flush().expect("written");
            let mut command = Command::new(assets::python());
            command.args(["-c", SCRIPT]).args([model, file.path()]).arg(N_TOKENS.to_string());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            (command.spawn().expect("python starts"), file)
        })
        .collect();
    let answers: Vec<Answer> = processes
        .into_iter()
        .flat_map(|(process, _file)| {
            let output = process.wait_with_output().expect("python ends");
            let stdout = String::from_utf8_lossy(&output.stdout);
            let answers = stdout.lines().find_map(|line| line.strip_prefix("ANSWERS "));
            let stderr = String::from_utf8_lossy(&output.stderr);
            let answers = answers.unwrap_or_else(|| panic!("no answers: {stderr}"));
            serde_json::from_str::<Vec<Answer>>(answers).expect("the script's JSON")
        })
        .collect();
    assert_eq!(answers.len(), PROMPTS.len(), "an answer for each prompt");
    for Answer { answer, best, .. } in &answers {
        assert_eq!((answer.len(), best.len()), (N_TOKENS, N_TOKENS), "llama.cpp's answer is whole");
    }
    answers
}
