//! `<model>.frank-usage`: how often each expert was chosen, kept beside the model for the next start. Never changes an
//! answer: it only says what should lie in memory.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use frank_engine::Engine;
use frank_hub::{ModelFile, path_beside, read_beside, update_beside};
use frank_plan::{Hotness, Limits, ModelNeeds};

use crate::report::tell;

/// What is added to the name of a model's first file.
const ENDING: &str = ".frank-usage";

/// Time between two writes while requests are answered.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// What earlier runs learned about the experts of a model.
pub(crate) struct Usage {
    path: PathBuf,
    needs: ModelNeeds,
    /// What the store counts on from, and fills idle slots by: what the file says, or `--hotness`. What the file says
    /// decides nothing else: a cache of all that is left was never slower than one of half, beside experts that stay.
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
        let parse = |text: String| Hotness::parse(&text, needs).map_err(io::Error::other);
        let text = read_beside(&path).map(|text| text.filter(|text| !text.is_empty()));
        let learned = text.and_then(|text| text.map(parse).transpose());
        let learned = learned.unwrap_or_else(|error| {
            tell(&format!("warning: {} is ignored: {error}", path.display()));
            None
        });
        let given = learned.unwrap_or_else(|| Hotness::of_counts(&[], needs.experts));
        Some(Self { path, needs: needs.clone(), given })
    }

    /// The same, with what `--hotness` says in the place of what the file does.
    pub(crate) fn or_given(self, limits: &Limits) -> Self {
        match &limits.ranking.hotness {
            Some(hotness) => Self { given: hotness.clone(), ..self },
            None => self,
        }
    }

    /// How often each expert was chosen before, where anything is known of it.
    pub(crate) fn learned(&self) -> Option<&Hotness> {
        Some(&self.given).filter(|given| !given.is_empty())
    }

    /// What the store counts on from, `[n_layers, n_experts]`.
    pub(crate) fn given(&self) -> Vec<u64> {
        self.given.to_counts(self.needs.layers, self.needs.experts)
    }

    /// The file with `new` counts beside those that it has, which may be another server's too.
    ///
    /// # Errors
    /// When `old` is the text of something else.
    fn merged(&self, old: Option<&str>, new: &[u64]) -> io::Result<String> {
        let (n_layers, n_experts) = (self.needs.layers, self.needs.experts);
        let saved = match old.map(|text| (text, Hotness::parse(text, &self.needs))) {
            Some((_, Ok(saved))) => saved.to_counts(n_layers, n_experts),
            Some((text, Err(error))) if text.lines().next() != Some(Hotness::HEADER) => {
                return Err(io::Error::other(format!("what is there is something else: {error}")));
            }
            // Counts of another model that had this name are about other experts.
            None | Some((_, Err(_))) => vec![0; new.len()],
        };
        let sum = saved.iter().zip(new).map(|(saved, new)| saved.saturating_add(*new));
        Ok(Hotness::of_counts(&sum.collect::<Vec<_>>(), n_experts).to_string())
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
    /// Counts of the store as of the last write.
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
        let written = state.written.get_or_insert_with(|| self.usage.given());
        let new = counts.iter().zip(&*written).map(|(now, then)| now.saturating_sub(*then));
        let new: Vec<u64> = new.collect();
        if new.iter().all(|&count| count == 0) {
            return;
        }
        match update_beside(&self.usage.path, |old| self.usage.merged(old, &new)) {
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
    use frank_kernels::KvType;
    use frank_testkit::assets;

    use super::*;

    /// The usage of a model of 2 layers with 16 experts each, of which nothing is known.
    fn usage() -> Usage {
        let model = ModelFile::open(&assets::tiny("olmoe.gguf")).expect("a tiny model");
        let options = frank_models::KvTypes { k: KvType::F16, v: KvType::F16 };
        let needs = frank_models::needs(&model.header, options).expect("a known family");
        Usage::read(&model, &needs).expect("it has experts")
    }

    /// The text that `counts` of the first experts make of `old`.
    fn merged(old: Option<&str>, counts: &[u64]) -> io::Result<String> {
        let usage = usage();
        let mut new = usage.given();
        new[..counts.len()].copy_from_slice(counts);
        usage.merged(old, &new)
    }

    #[test]
    fn counts_are_added_to_those_of_the_file_whoever_wrote_them() {
        let check = |old, counts: &[u64], text: &str| {
            assert_eq!(merged(old, counts).expect("a usage file"), text);
        };
        check(None, &[0, 3], "layer,expert,count\n0,1,3\n");
        check(Some("0,1,4\n0,2,5\n"), &[0, 3], "layer,expert,count\n0,1,7\n0,2,5\n");
        let most = format!("layer,expert,count\n0,0,{}\n", u64::MAX);
        check(Some(&most), &[3], &most);
        // Of a model with more experts that had the name before.
        check(Some("layer,expert,count\n0,999,5\n"), &[1], "layer,expert,count\n0,0,1\n");
    }

    #[test]
    fn a_file_that_is_something_else_is_not_replaced() {
        let error = merged(Some("my notes\n"), &[1]).expect_err("notes").to_string();
        assert!(error.starts_with("what is there is something else: line 1: "), "{error}");
    }
}
