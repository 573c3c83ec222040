//! A model without arithmetic: each answer is a given list of tokens, and every step can be held.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use frank_experts::{StoreError, StoreStatistics};
use frank_gguf::{Array, Metadata, Value};
use frank_models::{Batch, KvGroup, Model, StepError};
use frank_os::OsError;
use frank_tokenizer::Tokenizer;

/// Begins a message; written by the template only.
pub(crate) const IM_START: u32 = 256;
/// Ends a message and an answer.
pub(crate) const IM_END: u32 = 257;
/// A token whose sampling panics.
pub(crate) const POISON: u32 = 258;
/// In an answer: `a` or `b`, each as likely as the other.
pub(crate) const EITHER: u32 = 300;
/// In an answer: nothing, but what it takes to say so cannot be read while [`Controls::reads_fail`].
pub(crate) const UNREAD: u32 = 301;
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

/// Texts of prompts, and what is answered to a prompt that has one of them.
pub(crate) type Replies = Vec<(&'static str, Vec<u32>)>;

/// Watches the model and, when it is held, allows its steps one by one.
pub(crate) struct Controls {
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
    permits: Option<Sender<()>>,
    pub(crate) reads_fail: Arc<AtomicBool>,
    /// What the model says of its experts, of which each row misses one.
    pub(crate) experts: Arc<Mutex<Option<StoreStatistics>>>,
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
    replies: Replies,
    permits: Option<Receiver<()>>,
    groups: [KvGroup; 1],
    prompts: Arc<Mutex<Vec<Vec<u32>>>>,
    reads_fail: Arc<AtomicBool>,
    experts: Arc<Mutex<Option<StoreStatistics>>>,
    /// What lies in the cache, by block and place in it.
    cache: HashMap<(u32, u32), Entry>,
}

/// What the model remembers at a position of a request.
#[derive(Clone, Copy)]
struct Entry {
    /// Index of the request in `prompts`.
    prompt: usize,
    /// Tokens of the answer up to here.
    n_answered: usize,
    /// Whether the token after it was asked for.
    is_answered: bool,
    /// Whether nothing was computed after it.
    is_last: bool,
}

impl Script {
    /// A model with so many KV blocks that answers each prompt with the first of `replies` whose text is in it, else with
    /// `answer`, and says its last token again where more are wanted.
    pub(crate) fn model(
        answer: Vec<u32>,
        replies: Replies,
        held: bool,
        n_blocks: u32,
    ) -> (Box<dyn Model>, Controls) {
        let prompts = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let (ours, theirs) = if held { (Some(sender), Some(receiver)) } else { (None, None) };
        let model = Self {
            answer,
            replies,
            permits: theirs,
            groups: [KvGroup { window: None, n_blocks, block_bytes: 1 }],
            prompts: Arc::clone(&prompts),
            reads_fail: Arc::default(),
            experts: Arc::default(),
            cache: HashMap::new(),
        };
        let (reads_fail, experts) = (Arc::clone(&model.reads_fail), Arc::clone(&model.experts));
        (Box::new(model), Controls { prompts, permits: ours, reads_fail, experts })
    }

    /// The token after `n_answered` tokens of the answer to a prompt.
    fn token(&self, prompt: usize, n_answered: usize) -> u32 {
        let prompts = self.prompts.lock().expect("no test panics while it looks");
        let has = |text: &str| {
            let text = text.bytes().map(u32::from);
            prompts[prompt]
                .windows(text.len())
                .any(|window| window.iter().copied().eq(text.clone()))
        };
        let reply = self.replies.iter().find(|(text, _)| has(text));
        let answer = reply.map_or(&self.answer, |(_, reply)| reply);
        answer[n_answered.min(answer.len() - 1)]
    }

    /// Puts the rows of a batch into the cache, and notes those of prompts: they come before the first answer token.
    fn listen(&mut self, batch: &Batch<'_>) {
        let mut prompts = self.prompts.lock().expect("no test panics while it looks");
        for (row, (&token_id, &position)) in batch.token_ids.iter().zip(batch.positions).enumerate()
        {
            let before = position.checked_sub(1).map(|before| slot(batch, row, before));
            let before = before.and_then(|slot| self.cache.get_mut(&slot));
            // A request that shares a prefix goes on where another went on already.
            let entry = match before.filter(|before| before.is_last) {
                Some(before) => {
                    before.is_last = false;
                    let n_answered = before.n_answered + usize::from(before.is_answered);
                    Entry { n_answered, is_answered: false, is_last: true, ..*before }
                }
                None => {
                    prompts.push(Vec::new());
                    let prompt = prompts.len() - 1;
                    Entry { prompt, n_answered: 0, is_answered: false, is_last: true }
                }
            };
            if entry.n_answered == 0 {
                prompts[entry.prompt].push(token_id);
            }
            self.cache.insert(slot(batch, row, position), entry);
        }
    }
}

/// Where the cache holds `position` of the sequence of a row.
fn slot(batch: &Batch<'_>, row: usize, position: u32) -> (u32, u32) {
    let table = batch.block_tables[0][batch.sequences[row]];
    (table[(position / BLOCK) as usize], position % BLOCK)
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

    fn kv_groups(&self) -> &[KvGroup] {
        &self.groups
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut [f32]) -> Result<(), StepError> {
        if self.permits.as_ref().is_some_and(|permits| permits.recv().is_err()) {
            self.permits = None;
        }
        self.listen(batch);
        if let Some(experts) = &mut *self.experts.lock().expect("no test panics while it looks") {
            experts.misses += batch.n_rows() as u64;
        }
        logits.fill(0.0);
        for (&row, logits) in batch.output_rows.iter().zip(logits.chunks_exact_mut(N_VOCAB)) {
            let slot = slot(batch, row, batch.positions[row]);
            let Entry { prompt, n_answered, .. } = self.cache[&slot];
            let token_id = self.token(prompt, n_answered);
            assert!(token_id != POISON, "the poisoned token");
            if token_id == UNREAD && self.reads_fail.load(Ordering::Relaxed) {
                return Err(unread());
            }
            let token_id = if token_id == UNREAD { IM_END } else { token_id };
            self.cache.get_mut(&slot).expect("its row was just seen").is_answered = true;
            let likely =
                if token_id == EITHER { vec![b'a'.into(), b'b'.into()] } else { vec![token_id] };
            likely.into_iter().for_each(|id| logits[id as usize] = 50.0);
        }
        Ok(())
    }

    fn expert_statistics(&self) -> Option<StoreStatistics> {
        *self.experts.lock().expect("no test panics while it looks")
    }

    fn copy_block(&mut self, _group: usize, from: u32, to: u32) {
        for place in 0..BLOCK {
            if let Some(entry) = self.cache.get(&(from, place)).copied() {
                self.cache.insert((to, place), entry);
            }
        }
    }

    fn read_block(&self, _group: usize, _block: u32, out: &mut [u8]) {
        out.fill(0);
    }

    fn write_block(&mut self, _group: usize, _block: u32, _bytes: &[u8]) {}
}

/// What a model says that cannot read an expert.
fn unread() -> StepError {
    let path = "model.gguf".into();
    let source = std::io::Error::from_raw_os_error(5);
    let source = OsError::Read { path, offset: 4096, want: 512, source };
    StoreError::Read { layer: 2, expert: 7, source }.into()
}
