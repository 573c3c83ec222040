//! The npm packages of the tests, pinned, in a folder of their own beside a link to Node.js. Never installs globally.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use frank_testkit::assets;

use super::python::install_system_package;
use super::remove_folder;
use crate::cargo::{execute, succeeds};

/// What the tests load. None of them needs another package, so their versions are all there is to pin.
const PACKAGES: &[&str] = &["openai@6.49.0"];
/// Loads everything, as the tests will.
const TRIAL: &str = "new (require('openai').OpenAI)({ apiKey: 'none' })";

/// Makes sure that [`assets::node_path`] runs and that [`assets::node_modules_path`] has exactly [`PACKAGES`].
pub(super) fn install() -> Result<()> {
    let folder = assets::node_folder();
    let stamp = folder.join("packages.txt");
    let wanted = PACKAGES.join("\n") + "\n";
    let installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
    if installed && assets::node_path().is_file() {
        return Ok(());
    }
    println!("install {} into {}", PACKAGES.join(", "), folder.display());
    // Debian has npm as a package of its own, others bring it with Node.js.
    for (program, package) in [("node", "nodejs"), ("npm", "npm")] {
        if !succeeds(Command::new(program).arg("--version")) {
            install_system_package(package)?;
        }
    }
    remove_folder(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    link_node(&assets::node_path())?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund"]);
    // Without a prefix npm looks for a project in the folders above.
    execute(npm.args(["--loglevel=error", "--prefix"]).arg(&folder).args(PACKAGES))?;
    let mut trial = Command::new(assets::node_path());
    trial.env("NODE_PATH", assets::node_modules_path()).args(["--eval", TRIAL]);
    execute(&mut trial)?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}

/// Links the program itself, which a test finds without a search path, whatever wrapper `node` may be.
fn link_node(link: &Path) -> Result<()> {
    let mut command = Command::new("node");
    command.args(["--print", "process.execPath"]).stdin(Stdio::null());
    let output = command.output().context("run node")?;
    ensure!(output.status.success(), "node --print: {}", output.status);
    let program = String::from_utf8(output.stdout).context("read the path of node")?;
    symlink(program.trim_end(), link).with_context(|| format!("link {}", link.display()))
}
