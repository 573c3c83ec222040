//! A model without arithmetic: the next token is the last one plus one, and every step can be held.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use frank_models::{Batch, Model};

pub(crate) const N_VOCAB: usize = 1000;

/// A token whose step panics.
pub(crate) const POISON: u32 = 666;

/// What one step was given.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) token_ids: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) n_outputs: usize,
}

/// Lets a test watch the steps and, when `held`, allow them one by one.
pub(crate) struct Controls {
    pub(crate) steps: Arc<Mutex<Vec<Step>>>,
    permits: Option<Sender<()>>,
}

impl Controls {
    /// Allows `n` more steps of a held model.
    pub(crate) fn allow(&self, n: usize) {
        let permits = self.permits.as_ref().expect("a held model");
        (0..n).for_each(|_| permits.send(()).expect("the model lives"));
    }
}

pub(crate) struct Script {
    n_rows_max: usize,
    steps: Arc<Mutex<Vec<Step>>>,
    permits: Option<Receiver<()>>,
    /// Which token lies in which slot of the cache: a row must find its sequence's earlier tokens there.
    cache: HashMap<(u32, u32), u32>,
}

impl Script {
    pub(crate) fn model(n_rows_max: usize, held: bool) -> (Box<dyn Model>, Controls) {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let (permits_in, permits_out) =
            if held { (Some(sender), Some(receiver)) } else { (None, None) };
        let script = Self {
            n_rows_max,
            steps: Arc::clone(&steps),
            permits: permits_out,
            cache: HashMap::new(),
        };
        (Box::new(script), Controls { steps, permits: permits_in })
    }

    /// Puts each row in its slot and checks that the one before it is what this sequence put there.
    fn remember(&mut self, batch: &Batch<'_>) {
        for (row, (&token_id, &position)) in batch.token_ids.iter().zip(batch.positions).enumerate()
        {
            let table = batch.block_tables[batch.sequences[row]];
            let slot = |position: u32| (table[position as usize / 32], position % 32);
            if position > 0 {
                assert!(
                    self.cache.contains_key(&slot(position - 1)),
                    "position {position} came too early"
                );
            }
            self.cache.insert(slot(position), token_id);
        }
    }
}

impl Model for Script {
    fn n_vocab(&self) -> usize {
        N_VOCAB
    }

    fn n_rows_max(&self) -> usize {
        self.n_rows_max
    }

    fn n_outputs_max(&self) -> usize {
        self.n_rows_max
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) {
        let free = self.permits.as_ref().is_some_and(|permits| permits.recv().is_err());
        if free {
            // A test that ends drops its side; the last steps then run freely.
            self.permits = None;
        }
        assert!(!batch.token_ids.contains(&POISON), "the poisoned token");
        self.remember(batch);
        self.steps.lock().expect("no test panics while it looks").push(Step {
            token_ids: batch.token_ids.to_vec(),
            positions: batch.positions.to_vec(),
            n_outputs: batch.output_rows.len(),
        });
        logits.fill(0.0);
        for (&row, logits) in batch.output_rows.iter().zip(logits.chunks_exact_mut(N_VOCAB)) {
            logits[(batch.token_ids[row] as usize + 1) % N_VOCAB] = 50.0;
        }
    }
}
