//! The programs that read units for the tests: podman's quadlet generator, taken out of Debian's package without installing
//! it, and systemd's own checker.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use frank_testkit::assets;

use super::python::install_system_package;
use super::remove_folder;
use crate::cargo::{execute, succeeds};

/// The release of Debian that the generator is taken from: the first whose podman has quadlets.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Makes sure that [`assets::quadlet_generator_path`] and [`assets::systemd_analyze_path`] are there.
pub(super) fn install() -> Result<()> {
    if !assets::systemd_analyze_path().is_file() {
        install_system_package("systemd")?;
    }
    if assets::quadlet_generator_path().is_file() {
        return Ok(());
    }
    let target = assets::quadlet_generator_path();
    println!("install {} from the package podman of Debian {SUITE}", target.display());
    let folder = assets::cache_dir().join("quadlet.new");
    remove_folder(&folder)?;
    let generator = take_generator(&folder).context(
        "the quadlet generator of podman comes from a package of Debian: copy the program `quadlet` of a podman 5.4 by hand to \
         that path where there is no apt",
    )?;
    let parent = target.parent().context("the generator lies in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    fs::rename(&generator, &target).with_context(|| format!("rename {}", generator.display()))?;
    remove_folder(&folder)
}

/// Fetches the package into `folder`, unpacks it and returns the path of the generator.
fn take_generator(folder: &Path) -> Result<PathBuf> {
    for part in ["lists/partial", "cache"] {
        let part = folder.join(part);
        fs::create_dir_all(&part).with_context(|| format!("create {}", part.display()))?;
    }
    let sources = folder.join("sources.list");
    let signed = if Path::new(KEYRING).is_file() {
        format!("[signed-by={KEYRING}] ")
    } else {
        String::new()
    };
    let line = format!("deb {signed}{} {SUITE} main\n", mirror()?);
    fs::write(&sources, line).with_context(|| format!("write {}", sources.display()))?;
    execute(apt(folder).args(["update", "-qq"]))?;
    execute(apt(folder).args(["download", "-qq", "podman"]))?;
    let package = package_in(folder)?;
    let tree = folder.join("tree");
    execute(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&tree))?;
    Ok(tree.join("usr/libexec/podman/quadlet"))
}

/// apt with nothing but the sources, lists and cache in `folder`: the machine's own stay as they are.
fn apt(folder: &Path) -> Command {
    let option = |name: &str, path: PathBuf| {
        let mut option = OsString::from(format!("{name}="));
        option.push(path);
        option
    };
    let mut command = Command::new("apt-get");
    command.current_dir(folder).args([
        "-o",
        "Dir::Etc::SourceParts=/dev/null",
        "-o",
        "APT::Sandbox::User=root",
    ]);
    let own = [
        option("Dir::Etc::SourceList", folder.join("sources.list")),
        option("Dir::State::Lists", folder.join("lists")),
        option("Dir::Cache", folder.join("cache")),
    ];
    own.into_iter().for_each(|option| {
        command.arg("-o").arg(option);
    });
    command
}

/// Where this machine's own packages come from.
fn mirror() -> Result<String> {
    if !succeeds(Command::new("apt-get").arg("--version")) {
        bail!("there is no apt-get on this machine");
    }
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(ORIGIN)\t$(REPO_URI)", "Created-By: Packages"]);
    let output = command.stdin(Stdio::null()).output().context("run apt-get")?;
    ensure!(output.status.success(), "apt-get indextargets: {}", output.status);
    let targets = String::from_utf8_lossy(&output.stdout);
    let mut origins = targets.lines().filter_map(|line| line.split_once('\t'));
    let debian = origins.find(|(origin, uri)| *origin == "Debian" && !uri.contains("security"));
    let (_, uri) = debian.context("apt knows no source of Debian: run `apt-get update` once")?;
    Ok(uri.to_owned())
}

fn package_in(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut packages =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    packages.next().context("apt-get downloaded no package")
}
