//! schemathesis, which generates requests from an OpenAPI document: in an environment of its own, so that what it brings
//! changes nothing for the other tests.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use frank_testkit::assets;

use super::python::make_venv;
use crate::cargo::execute;

/// hypothesis draws the requests: with another version the same seed gives others.
const REQUIREMENTS: &[&str] = &["schemathesis==4.32.5", "hypothesis==6.170.17"];

/// Makes sure that [`assets::schemathesis_python_path`] has [`REQUIREMENTS`].
pub(super) fn install() -> Result<()> {
    let venv = assets::cache_dir().join("schemathesis");
    let stamp = venv.join("requirements.txt");
    let wanted = REQUIREMENTS.join("\n") + "\n";
    let installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
    let python = assets::schemathesis_python_path();
    if installed && python.is_file() {
        return Ok(());
    }
    println!("install {} into {}", REQUIREMENTS.join(", "), venv.display());
    make_venv(&venv)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    execute(pip.arg("--no-compile").args(REQUIREMENTS))?;
    execute(Command::new(&python).args(["-c", "import schemathesis"]))?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}
