//! Writes the seeds of a target: `seeds TARGET FOLDER`. Never runs it.

use std::path::Path;
use std::{env, io};

use frank_fuzz::TARGETS;

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, folder] = args.as_slice() else {
        return Err(io::Error::other("give the name of a target and a folder"));
    };
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| io::Error::other(format!("there is no target {name}")))?;
    target.write_seeds(Path::new(folder))
}
