//! `<model>.frank-usage`: how often each expert was chosen, kept beside the model for the next start. Never changes an
//! answer: it only says what should lie in memory.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use frank_engine::Engine;
use frank_hub::{ModelFile, path_beside, read_beside, write_beside};
use frank_plan::{Hotness, Limits, ModelNeeds, Plan};

use crate::options::ModelOptions;
use crate::report::tell;

/// What is added to the name of a model's first file.
const ENDING: &str = ".frank-usage";

/// Time between two writes while requests are answered.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// What earlier runs learned about the experts of a model.
pub(crate) struct Usage {
    path: PathBuf,
    n_layers: u32,
    n_experts: u32,
    /// Whether the file decides what stays in memory.
    ranks: bool,
    /// What the file says.
    saved: Hotness,
    /// What the store counts on from: the same, or what `--hotness` says.
    given: Hotness,
}

impl Usage {
    /// Reads the file beside `model`; `None` for one without experts. A file that cannot be used costs only itself, and
    /// is told.
    pub(crate) fn read(model: &ModelFile, needs: &ModelNeeds) -> Option<Self> {
        if needs.experts == 0 {
            return None;
        }
        let path = path_beside(&model.paths()[0], ENDING);
        let parse = |text: String| Hotness::parse(&text, needs).map_err(std::io::Error::other);
        let learned = read_beside(&path).and_then(|text| text.map(parse).transpose());
        let learned = learned.unwrap_or_else(|error| {
            tell(&format!("warning: {} is ignored: {error}", path.display()));
            None
        });
        let ranks = learned.is_some();
        let saved = learned.unwrap_or_else(|| Hotness::of_counts(&[], needs.experts));
        let (n_layers, n_experts) = (needs.layers, needs.experts);
        Some(Self { path, n_layers, n_experts, ranks, given: saved.clone(), saved })
    }

    /// Ranks experts in `limits` where no option does, and notes what the store counts on from.
    pub(crate) fn rank(&mut self, options: &ModelOptions, limits: &mut Limits) {
        if let Some(hotness) = &limits.ranking.hotness {
            self.given = hotness.clone();
        }
        self.ranks &= !options.ranks_experts();
        if self.ranks {
            limits.ranking.hotness = Some(self.saved.clone());
        }
    }

    /// Says that the file decided what stays in memory, where it did.
    pub(crate) fn tell_use(&self, plan: &Plan) {
        if self.ranks && plan.experts.stream > 0 {
            tell(&format!("experts are ranked by {}", self.path.display()));
        }
    }

    /// Whether the store has anything to count on from.
    pub(crate) fn is_learned(&self) -> bool {
        !self.given.is_empty()
    }

    /// What the store counts on from, `[n_layers, n_experts]`.
    pub(crate) fn given(&self) -> Vec<u64> {
        self.given.to_counts(self.n_layers, self.n_experts)
    }

    /// What the file should say when the store has counted up to `counts`.
    fn total(&self, counts: &[u64]) -> Vec<u64> {
        let given = self.given();
        let new = counts.iter().zip(&given).map(|(count, given)| count.saturating_sub(*given));
        let saved = self.saved.to_counts(self.n_layers, self.n_experts);
        saved.iter().zip(new).map(|(saved, new)| saved.saturating_add(new)).collect()
    }
}

/// Writes what an engine learns to the file. A folder that takes no file is said once.
pub(crate) struct UsageWriter {
    usage: Usage,
    engine: Engine,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts as of the last write.
    written: Option<Vec<u64>>,
    /// Whether it was said that the file cannot be written.
    is_told: bool,
}

impl UsageWriter {
    pub(crate) fn new(usage: Usage, engine: Engine) -> Self {
        Self { usage, engine, state: Mutex::default() }
    }

    /// Writes from time to time, when there is something new. Never ends.
    pub(crate) async fn keep_saving(&self) {
        let mut interval = tokio::time::interval(SAVE_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            tokio::task::block_in_place(|| self.save());
        }
    }

    /// Writes what was learned since the last time, if anything.
    pub(crate) fn save(&self) {
        let Some(counts) = self.engine.expert_usage() else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if counts == *state.written.get_or_insert_with(|| self.usage.given()) {
            return;
        }
        let hotness = Hotness::of_counts(&self.usage.total(&counts), self.usage.n_experts);
        match write_beside(&self.usage.path, &hotness.to_string()) {
            Ok(()) => state.written = Some(counts),
            Err(error) if !std::mem::replace(&mut state.is_told, true) => {
                let path = self.usage.path.display();
                tell(&format!("warning: {path} cannot be written, so nothing is learned: {error}"));
            }
            // The next time may go well; a disk that stays full is said once.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_option_said_is_not_learned() {
        let usage = Usage {
            path: PathBuf::new(),
            n_layers: 1,
            n_experts: 2,
            ranks: false,
            saved: Hotness::of_counts(&[5, 0], 2),
            given: Hotness::of_counts(&[100, 7], 2),
        };
        assert_eq!(usage.total(&[103, 7]), [8, 0]);
        assert_eq!(usage.total(&[100, u64::MAX]), [5, u64::MAX - 7]);
    }
}
