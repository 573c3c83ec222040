//! A model without arithmetic: each answer is a given list of tokens, and every step can be held.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use frank_gguf::{Array, Metadata, Value};
use frank_models::{Batch, Model};
use frank_tokenizer::Tokenizer;

/// Begins a message; written by the template only.
pub(crate) const IM_START: u32 = 256;
/// Ends a message and an answer.
pub(crate) const IM_END: u32 = 257;
/// A token whose sampling panics.
pub(crate) const POISON: u32 = 258;
const N_VOCAB: usize = 259;

/// Positions of one KV block.
const BLOCK: u32 = 32;

/// The template of the vocabulary.
pub(crate) const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content \
    + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";

/// A vocabulary whose token ids are bytes, then the three above.
pub(crate) fn tokenizer() -> Tokenizer {
    let specials = ["<|im_start|>", "<|im_end|>", "<|poison|>"].map(str::to_owned);
    let texts: Vec<String> = (0..=255).map(spell).chain(specials).collect();
    let kinds = [vec![1; 256], vec![3; 3]].concat();
    let entries: [(&str, Value); 6] = [
        ("tokenizer.ggml.model", "gpt2".into()),
        ("tokenizer.ggml.pre", "gpt-2".into()),
        ("tokenizer.ggml.tokens", Array::String(texts).into()),
        ("tokenizer.ggml.token_type", Array::I32(kinds).into()),
        ("tokenizer.ggml.merges", Array::String(Vec::new()).into()),
        ("tokenizer.ggml.eos_token_id", IM_END.into()),
    ];
    let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let metadata = Metadata::new(entries).expect("every key is set once");
    Tokenizer::from_metadata(&metadata).expect("a well-formed vocabulary")
}

/// A byte in the alphabet of byte-level vocabularies.
fn spell(byte: u8) -> String {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(&byte) {
        return char::from(byte).to_string();
    }
    let nth = (0..byte).filter(|byte| !printable(byte)).count();
    char::from_u32(256 + u32::try_from(nth).expect("fewer than 256 bytes"))
        .expect("a letter")
        .to_string()
}

/// The bytes of `text` as tokens, then the end of the answer.
pub(crate) fn says(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).chain([IM_END]).collect()
}

/// Watches the model and, when it is held, allows its steps one by one.
pub(crate) struct Controls {
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
    permits: Option<Sender<()>>,
}

impl Controls {
    /// Allows one more step of a held model.
    pub(crate) fn allow_step(&self) {
        self.permits.as_ref().expect("the model is held").send(()).expect("the model lives");
    }

    /// Lets a held model run freely.
    pub(crate) fn release(&mut self) {
        self.permits = None;
    }

    /// The prompts that were computed, in the order of their first token.
    pub(crate) fn prompts(&self) -> Vec<Vec<u32>> {
        self.prompts.lock().expect("no test panics while it looks").clone()
    }
}

pub(crate) struct Script {
    answer: Vec<u32>,
    permits: Option<Receiver<()>>,
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
    /// The sequence that owns a first KV block: its index in `prompts` and the tokens it was given so far.
    sequences: HashMap<u32, (usize, usize)>,
}

impl Script {
    /// A model that answers each prompt with `answer`, and says its last token again where more are wanted.
    pub(crate) fn model(answer: Vec<u32>, held: bool) -> (Box<dyn Model>, Controls) {
        let prompts = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let (ours, theirs) = if held { (Some(sender), Some(receiver)) } else { (None, None) };
        let model = Self {
            answer,
            permits: theirs,
            prompts: Arc::clone(&prompts),
            sequences: HashMap::new(),
        };
        (Box::new(model), Controls { prompts, permits: ours })
    }

    /// Notes the prompt tokens of a batch: those that come before the sequence's first answer token.
    fn listen(&mut self, batch: &Batch<'_>) {
        let mut prompts = self.prompts.lock().expect("no test panics while it looks");
        for (row, (&token_id, &position)) in batch.token_ids.iter().zip(batch.positions).enumerate()
        {
            let table = batch.block_tables[batch.sequences[row]];
            assert!(table.len() > (position / BLOCK) as usize, "position {position} has no block");
            if position == 0 {
                self.sequences.insert(table[0], (prompts.len(), 0));
                prompts.push(Vec::new());
            }
            let (index, n_answered) = self.sequences[&table[0]];
            if n_answered == 0 {
                prompts[index].push(token_id);
            }
        }
    }
}

impl Model for Script {
    fn n_vocab(&self) -> usize {
        N_VOCAB
    }

    fn n_rows_max(&self) -> usize {
        64
    }

    fn n_outputs_max(&self) -> usize {
        64
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) {
        if self.permits.as_ref().is_some_and(|permits| permits.recv().is_err()) {
            self.permits = None;
        }
        self.listen(batch);
        logits.fill(0.0);
        for (&row, logits) in batch.output_rows.iter().zip(logits.chunks_exact_mut(N_VOCAB)) {
            let first_block = batch.block_tables[batch.sequences[row]][0];
            let (_, n_answered) =
                self.sequences.get_mut(&first_block).expect("the sequence began at position 0");
            let token_id = self.answer[(*n_answered).min(self.answer.len() - 1)];
            assert!(token_id != POISON, "the poisoned token");
            *n_answered += 1;
            logits[token_id as usize] = 50.0;
        }
    }
}
