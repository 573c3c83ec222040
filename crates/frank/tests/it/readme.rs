//! README.md: its table of what works is made from the program and its tables. Never judges the prose around it.

use std::fs;
use std::path::Path;

use frank_api::DIALECTS;
use frank_gguf::{Metadata, type_layout};
use frank_hub::Reference;
use frank_kernels::Isa;
use frank_models::ARCHS;
use frank_server::{ModelSlot, ServerOptions};
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;
use frank_tokenizer::{Tokenizer, TokenizerError};
use serde_json::json;
use tokio::net::TcpListener;

use crate::files::{Folder, llama_keys};
use crate::program::frank;

const START: &str = "<!-- generated:works -->\n";
const END: &str = "<!-- end -->";

#[tokio::test]
async fn the_table_of_what_works_is_what_the_code_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(&path).expect("the repository has a README.md");
    let (before, rest) = readme.split_once(START).expect("README.md marks where the table starts");
    let (_, after) = rest.split_once(END).expect("README.md marks where the table ends");
    let table = table().await;
    let expected = format!("{before}{START}{table}{END}{after}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).expect("README.md can be written");
    }
    let readme = fs::read_to_string(&path).expect("README.md is still there");
    assert!(
        readme == expected,
        "README.md does not say what works; write its table anew with: \
         UPDATE=1 cargo test -p frank readme\n{table}"
    );
}

async fn table() -> String {
    let rows = [
        ("subcommands", list(subcommands())),
        ("MODEL", list(sources())),
        ("architectures", list(ARCHS.iter().map(|arch| arch.name))),
        ("tensor types", list(tensor_types())),
        ("KV cache types", list(kv_types())),
        ("tokenizers", list(tokenizers())),
        ("pre-tokenizers", list(pre_tokenizers())),
        ("endpoints", list(endpoints().await)),
        ("CPU forms", list(ISAS.iter().map(|isa| isa.name()))),
    ];
    let rows: String =
        rows.iter().map(|(what, entries)| format!("| {what} | {entries} |\n")).collect();
    format!("| | works today |\n|---|---|\n{rows}")
}

fn list<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> String {
    let entries: Vec<String> =
        entries.into_iter().map(|entry| format!("`{}`", entry.as_ref())).collect();
    assert!(!entries.is_empty(), "a row of the table is empty");
    entries.join(", ")
}

/// As `frank --help` lists them. A description that needs a second line is indented further.
fn subcommands() -> Vec<String> {
    let help = frank(["--help"]).ended(0).stdout;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names =
        lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// The kinds of references that are understood, of all that are planned.
fn sources() -> Vec<&'static str> {
    let planned = [
        ("PATH.gguf", "./model.gguf"),
        ("NAME", "model"),
        ("pip:package==version#path/inside", "pip:package==1#model.gguf"),
        ("hf:org/repo", "hf:org/repo"),
        ("https://…", "https://host.example/model.gguf"),
        ("file:…", "file:/model.gguf"),
    ];
    let known = planned.into_iter().filter(|(_, example)| example.parse::<Reference>().is_ok());
    known.map(|(kind, _)| kind).collect()
}

/// The types of which a model may have all its matrices.
fn tensor_types() -> Vec<&'static str> {
    let folder = Folder::new();
    let loads = |type_id: &u32| {
        let Some(layout) = type_layout(*type_id) else { return false };
        let bytes = (SIDE * SIDE / layout.values_per_block * layout.bytes_per_block) as usize;
        let path = folder.gguf("model.gguf", &model_of(*type_id, bytes));
        let plan = frank(["fit".as_ref(), path.as_os_str(), "--json".as_ref()]).ended(0).json();
        plan["warnings"] == json!([])
    };
    let ids = (0..=u32::from(u8::MAX)).filter(loads);
    ids.filter_map(|id| type_layout(id).map(|layout| layout.name)).collect()
}

/// Rows and columns of a matrix: a multiple of every block.
const SIDE: u64 = 256;

/// A llama model of one layer whose matrices are all of one type and take `matrix_bytes` each.
fn model_of(type_id: u32, matrix_bytes: usize) -> GgufWriter {
    let side = u32::try_from(SIDE).expect("a small number");
    let keys = llama_keys("llama", 1)
        .value("llama.embedding_length", side)
        .value("llama.feed_forward_length", side)
        .value("llama.attention.head_count_kv", 4u32)
        .value("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let layer = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let matrices = layer.map(|part| format!("blk.0.{part}.weight"));
    let norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"];
    let with_matrices = matrices
        .iter()
        .map(String::as_str)
        .chain(["token_embd.weight"])
        .fold(keys, |model, name| model.tensor(name, &[SIDE; 2], type_id, vec![0; matrix_bytes]));
    norms.iter().fold(with_matrices, |model, name| {
        model.f32_tensor(&format!("{name}.weight"), &[SIDE], &[0.0; SIDE as usize])
    })
}

/// The types that `--kv-type` takes, of all that are planned.
fn kv_types() -> Vec<&'static str> {
    // A model whose heads are whole blocks of every type.
    let model = assets::tiny("gemma3.gguf");
    let takes = |name: &&str| {
        let run = frank(["fit".as_ref(), model.as_os_str(), "--kv-type".as_ref(), name.as_ref()]);
        run.code == 0
    };
    ["f16", "q8_0", "f32", "q4_0"].into_iter().filter(takes).collect()
}

fn tokenizers() -> Vec<String> {
    match refused_tokenizer(&[("tokenizer.ggml.model", "?")]) {
        TokenizerError::UnknownModel { known, .. } => names(&known),
        other => panic!("{other}"),
    }
}

fn pre_tokenizers() -> Vec<String> {
    match refused_tokenizer(&[("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "?")]) {
        TokenizerError::UnknownPre { known, .. } => names(&known),
        other => panic!("{other}"),
    }
}

fn refused_tokenizer(keys: &[(&str, &str)]) -> TokenizerError {
    let entries = keys.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect();
    let metadata = Metadata::new(entries).expect("no key twice");
    Tokenizer::from_metadata(&metadata).err().expect("`?` is not the name of anything")
}

fn names(known: &str) -> Vec<String> {
    known.split(", ").map(str::to_owned).collect()
}

/// As the page at `/` lists them; each is answered, and every dialect is among them.
async fn endpoints() -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    let endless = std::future::pending();
    let endpoint =
        frank_server::serve(listener, ModelSlot::loading(), ServerOptions::default(), endless);
    tokio::spawn(endpoint);
    let client = reqwest::Client::builder().no_proxy().build().expect("a client without TLS");
    let page = client.get(format!("http://{address}/")).send().await.expect("the page is served");
    let page = page.text().await.expect("the page is text");
    let (_, list) = page.split_once("<pre>\n").expect("the page has a list");
    let mut endpoints = Vec::new();
    for line in list.lines().take_while(|line| !line.starts_with('<')) {
        let mut words = line.split_whitespace();
        let [method, path] = [words.next(), words.next()].map(|word| word.expect("METHOD path"));
        let method: reqwest::Method = method.parse().expect("a method of HTTP");
        let request = client.request(method.clone(), format!("http://{address}{path}"));
        let status = request.send().await.expect("the endpoint answers").status().as_u16();
        assert!(status != 404 && status != 405, "{method} {path} is not answered: {status}");
        endpoints.push(format!("{method} {path}"));
    }
    for dialect in DIALECTS {
        let endpoint = format!("POST {}", dialect.path);
        assert!(endpoints.contains(&endpoint), "the page does not list {endpoint}");
    }
    endpoints
}

/// Every form of the kernels: the match does not compile when there is one more.
const ISAS: [Isa; 4] = {
    match Isa::Scalar {
        Isa::Scalar | Isa::Avx2 | Isa::Avx512Vnni | Isa::Amx => {}
    }
    [Isa::Scalar, Isa::Avx2, Isa::Avx512Vnni, Isa::Amx]
};
