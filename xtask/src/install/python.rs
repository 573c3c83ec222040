//! The Python environment of the tests: pinned packages in a venv of its own. Never touches the system's packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use frank_testkit::assets;

use crate::cargo::{execute, succeeds};

/// What the tests import. A change here makes the environment anew.
///
/// litellm and llm share the environment, since nothing that they want contradicts the rest.
const REQUIREMENTS: &[&str] = &[
    "anthropic==2.14.0",
    "gguf==0.19.0",
    "huggingface-hub==2.4.0",
    "jinja2==3.1.6",
    "libgguf==0.2.2",
    "litellm==1.110.2",
    "llm==0.36",
    "numpy==2.4.6",
    "openai==3.57.0",
    "xllamacpp==2026.10.11549",
];
/// Imports everything, as the tests will.
const TRIAL: &str = "import anthropic, gguf, huggingface_hub, jinja2, libgguf, litellm, llm, numpy, openai, xllamacpp";

/// Makes sure that [`assets::python_path`] has exactly [`REQUIREMENTS`].
pub(crate) fn install() -> Result<()> {
    let venv = assets::cache_dir().join("venv");
    let stamp = assets::python_requirements_path();
    let wanted = REQUIREMENTS.join("\n") + "\n";
    let installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
    if installed && assets::python_path().is_file() {
        return Ok(());
    }
    println!("install {} into {}", REQUIREMENTS.join(", "), venv.display());
    make_venv(&venv)?;
    let python = assets::python_path();
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // Of these packages most modules are never imported; those that are get compiled by then.
    execute(pip.arg("--no-compile").args(REQUIREMENTS))?;
    let trial = || {
        let mut command = Command::new(&python);
        // litellm fetches a list of prices otherwise.
        command.args(["-c", TRIAL]).env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        command
    };
    if !succeeds(&mut trial()) {
        install_system_package("libgomp1")?;
    }
    execute(&mut trial())?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

/// Makes an empty environment in the place of whatever was there.
pub(super) fn make_venv(venv: &Path) -> Result<()> {
    if !succeeds(Command::new("python3").arg("--version")) {
        install_system_package("python3")?;
    }
    let make = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(venv);
        command
    };
    // Debian's python3 comes without `venv` and `ensurepip`.
    if !succeeds(&mut make()) {
        install_system_package("python3-venv")?;
        execute(&mut make())?;
    }
    Ok(())
}

/// Installs a Debian package, where we may.
pub(super) fn install_system_package(name: &str) -> Result<()> {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    if !is_root() || !succeeds(&mut apt(&["--version"])) {
        bail!("the system package {name} (its Debian name) is missing: install it and try again");
    }
    execute(&mut apt(&["update", "-qq"]))?;
    execute(&mut apt(&["install", "-qq", "--yes", "--no-install-recommends", name]))
}

fn is_root() -> bool {
    let uid = Command::new("id").arg("--user").output();
    uid.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
