//! A hub on loopback and a home whose store is empty, for the program.

use std::path::{Path, PathBuf};
use std::process::Command;

use frank_testkit::mock_hub::{MockHub, Repository};

use crate::files::{Folder, llama};
use crate::program::{Run, command, run};

/// The repository that most tests pull from, and what they pull of it.
pub(crate) const REPO: &str = "org/tiny-GGUF";
pub(crate) const TINY: &str = "hf:org/tiny-GGUF:F32";
pub(crate) const MODEL: &str = "tiny-F32.gguf";
pub(crate) const PROJECTOR: &str = "mmproj-tiny-F16.gguf";

pub(crate) struct HubHome {
    pub(crate) hub: MockHub,
    pub(crate) folder: Folder,
}

impl HubHome {
    pub(crate) fn new(repositories: Vec<Repository>) -> Self {
        Self { hub: MockHub::start(repositories), folder: Folder::new() }
    }

    /// A hub with the tiny llama model and something that is called its projector.
    pub(crate) fn tiny() -> Self {
        Self::new(vec![tiny()])
    }

    /// The program in this home, in a folder without a `frank.lock`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        for variable in ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "CREDENTIALS_DIRECTORY"] {
            command.env_remove(variable);
        }
        command
            .env("HF_ENDPOINT", self.hub.endpoint())
            .env("XDG_DATA_HOME", self.folder.path().join("data"))
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path());
        command
    }

    pub(crate) fn frank(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    /// Pulls [`TINY`], and returns the name and the folder of its payload.
    pub(crate) fn pull(&self) -> (String, PathBuf) {
        let pulled = self.frank(&["pull", "--json", TINY]).ended(0).json();
        let text = |key: &str| pulled["payloads"][0][key].as_str().expect("a text").to_owned();
        (text("name"), PathBuf::from(text("path")))
    }

    pub(crate) fn models(&self) -> PathBuf {
        self.folder.path().join("data/frank/models")
    }
}

pub(crate) fn tiny() -> Repository {
    let model = std::fs::read(llama()).expect("the tiny model");
    Repository::new(REPO)
        .lfs(MODEL, model)
        .lfs(PROJECTOR, b"GGUF of a projector")
        .git("README.md", "# tiny")
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it is readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
