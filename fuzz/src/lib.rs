//! The fuzz targets as ordinary functions: bytes of a stranger in, a panic when something does not hold. Never libFuzzer.
//!
//! The programs of libFuzzer, in `fuzz_targets/`, only call these. They are part of the workspace, so that every build
//! checks them and a test runs each over its seeds.

pub mod chat_template;
pub mod gguf_header;
pub mod tokenizer;

use std::path::Path;
use std::{env, fs, io};

/// One thing that reads what strangers wrote.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its file in `fuzz_targets/`.
    pub name: &'static str,
    /// Panics when `bytes` make it break what it promises.
    pub check: fn(bytes: &[u8]),
    /// What to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub static TARGETS: &[Target] = &[
    Target { name: "gguf_header", check: gguf_header::check, seeds: gguf_header::seeds },
    Target { name: "tokenizer", check: tokenizer::check, seeds: tokenizer::seeds },
    Target { name: "chat_template", check: chat_template::check, seeds: chat_template::seeds },
];

impl Target {
    /// Writes the seeds to files of `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_seeds(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let seeds = (self.seeds)().into_iter().enumerate();
        seeds
            .into_iter()
            .try_for_each(|(n, seed)| fs::write(folder.join(format!("seed-{n}")), seed))
    }
}

/// Runs a target over the files that the command line names: what a fuzzer found, again.
///
/// # Errors
/// A file cannot be read.
pub fn replay(check: fn(&[u8])) -> io::Result<()> {
    env::args_os().skip(1).try_for_each(|file| {
        check(&fs::read(file)?);
        Ok(())
    })
}
