//! The schemas of Kubernetes with a program that checks objects by them: a Python package in an environment of its own, so
//! that the one of the other tests stays as small as they need it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use frank_testkit::assets;

use super::python::make_venv;
use crate::cargo::execute;

const REQUIREMENT: &str = "kubernetes-validate==1.37.0";

/// Makes sure that [`assets::kubernetes_python_path`] can import [`REQUIREMENT`].
pub(super) fn install() -> Result<()> {
    let venv = assets::cache_dir().join("kubernetes");
    let stamp = venv.join("requirements.txt");
    let installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == REQUIREMENT);
    let python = assets::kubernetes_python_path();
    if installed && python.is_file() {
        return Ok(());
    }
    println!("install {REQUIREMENT} into {}", venv.display());
    make_venv(&venv)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    execute(pip.args(["--no-compile", REQUIREMENT]))?;
    execute(Command::new(&python).args(["-c", "import kubernetes_validate"]))?;
    fs::write(&stamp, REQUIREMENT).with_context(|| format!("write {}", stamp.display()))
}
