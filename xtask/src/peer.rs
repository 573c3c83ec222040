//! The speed of frank beside that of a llama.cpp built on this machine, in turns and never at the same time, or how near
//! the choices of both are; and the speed of a pull beside that of aria2c. Never part of CI: a speed says something on a quiet machine only.

mod bound;
mod engines;
mod in_process;
mod moe;
mod pull;
mod rows;
mod serving;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use frank_testkit::assets::{REAL_MODELS, RealModel};

use crate::cargo::{PROFILE, cargo, execute};
use crate::install::{self, llama_cpp_native};
use crate::machine;
use crate::server_process::built_frank;
use crate::statistics::Spread;
use bound::Bound;
use engines::{Engine, THREADS};
use rows::{N_ROWS, ROWS};

/// Runs of each engine on a real model.
const ROUNDS: u64 = 5;

/// What is compared, and how often.
#[derive(Debug, Args)]
pub(crate) struct Peer {
    /// Runs of each engine, in turns [default: 5, or 3 of --moe's large file and 5 of its others]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,

    /// Only the real models with this in their names, as in `gemma` [default: all]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    model: String,

    /// How near the choices of both are, instead of the speed: every real model, as it is and as a copy in F32
    #[arg(long, conflicts_with_all = ["rounds", "model"])]
    distance: bool,

    /// A mixture of experts that does not fit, beside llama.cpp's map of it, instead of the real models
    #[arg(long, conflicts_with_all = ["model", "distance"])]
    moe: bool,

    /// The speed of a pull from this machine beside that of aria2c, instead of models
    #[arg(long, conflicts_with_all = ["model", "distance", "moe"])]
    pull: bool,

    /// Only these rows of --moe, with commas between [default: all]
    #[arg(long, value_name = "ROW", value_delimiter = ',', requires = "moe")]
    rows: Vec<moe::Row>,
}

impl Peer {
    /// Compares what the options say.
    /// # Errors
    /// Something could not be measured, is slower than it has to be, or is not as near.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        if self.pull {
            return pull::compare(root, self.rounds.unwrap_or(ROUNDS));
        }
        install::all()?;
        if self.distance {
            return distance(root);
        }
        llama_cpp_native::install()?;
        let frank = Engine::Frank(built_frank(root, "release")?.get_program().into());
        println!("machine: {}", machine::describe()?);
        println!("{}\n{}", frank.version()?, Engine::LlamaCpp.version()?);
        if self.moe { moe::compare(&frank, &self.rows, self.rounds) } else { self.speed(&frank) }
    }

    /// Measures both engines with the same files, prompts, client and number of threads, and prints what came out.
    fn speed(&self, frank: &Engine) -> Result<()> {
        let models = self.models()?;
        let mut missed = Vec::new();
        for model in models {
            missed.extend(self.compare(model, frank).with_context(|| model.name)?);
        }
        install::warn_of_vanished_models();
        match missed.as_slice() {
            [] => Ok(()),
            _ => bail!("floors that were missed: {}\n{}", missed.len(), missed.join("\n")),
        }
    }

    /// The models that are asked for and installed.
    fn models(&self) -> Result<Vec<&'static RealModel>> {
        let word = self.model.to_lowercase();
        let asked = REAL_MODELS.iter().filter(|model| model.name.to_lowercase().contains(&word));
        let models: Vec<_> = asked.filter(|model| model.vanished().is_none()).collect();
        let names = REAL_MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
        ensure!(!models.is_empty(), "no installed model has {:?} in its name: {names}", self.model);
        Ok(models)
    }

    /// Compares both engines on one model, and returns the rows that missed their floors.
    fn compare(&self, model: &RealModel, frank: &Engine) -> Result<Vec<String>> {
        println!("\n== {} ==", model.name);
        let bound = Bound::measure(frank, &model.path())?;
        let [of_frank, of_llama_cpp] = self.take_turns(model, [frank, &Engine::LlamaCpp])?;
        println!("\n{}, {THREADS} threads each, {}", model.file, machine::load()?);
        println!("rounds: {}, median (range); {bound}", self.rounds.unwrap_or(ROUNDS));
        let mut missed = Vec::new();
        for (i, row) in ROWS.iter().enumerate() {
            let line = row.line(model, &bound, of_frank[i], of_llama_cpp[i]);
            println!("{}", line.text);
            missed.extend(line.missed.then(|| format!("{}, {}", model.name, line.text)));
        }
        bound.print_prediction(&of_frank);
        Ok(missed)
    }

    /// Runs both engines round by round, and returns the values of each by rows.
    fn take_turns(
        &self,
        model: &RealModel,
        engines: [&Engine; 2],
    ) -> Result<[[Spread; N_ROWS]; 2]> {
        let mut values = [const { [const { Vec::new() }; N_ROWS] }; 2];
        for round in 1..=self.rounds.unwrap_or(ROUNDS) {
            println!("round {round}, {}", machine::load()?);
            let mut runs: Vec<_> = engines.into_iter().zip(&mut values).collect();
            // Whoever comes second finds the machine as the first one left it, so they change places.
            if round % 2 == 0 {
                runs.reverse();
            }
            for (engine, values) in runs {
                let measured = rows::measure(engine, &model.path(), round)?;
                values.iter_mut().zip(measured).for_each(|(values, value)| values.push(value));
            }
        }
        Ok(values.map(|rows| rows.map(|values| Spread::of(&values))))
    }
}

/// Compares the choices, which prints what comes out.
fn distance(root: &Path) -> Result<()> {
    let arguments = ["bench", "--package", "frank-models", "--profile", PROFILE];
    let compared = execute(cargo(root, &arguments)?.args(["--bench", "distance"]));
    install::warn_of_vanished_models();
    compared
}
