//! Text to tokens by the rules of one file: special tokens first, then words, then byte pairs.

use frank_chat::Prompt;
use frank_gguf::Metadata;

use crate::bpe::{self, Bpe};
use crate::error::{TokenizerError, shortened};
use crate::pre::Pre;
use crate::special::{Piece, SpecialTokens, Specials};
use crate::spm::{self, Spm};
use crate::vocab::{Spelling, TokenKind, Vocab};

const MODEL_KEY: &str = "tokenizer.ggml.model";
/// Byte-level BPE, by the name of its first user.
const MODEL_BPE: &str = "gpt2";
/// SentencePiece's BPE, by the name of its first user.
const MODEL_SPM: &str = "llama";

/// The tokenizer of a model file.
pub struct Tokenizer {
    vocab: Vocab,
    specials: SpecialTokens,
    algorithm: Algorithm,
    /// Control tokens that can be found in text.
    controls: Vec<u32>,
    chat_template: Option<String>,
    warnings: Vec<String>,
}

/// How text between special tokens becomes tokens.
enum Algorithm {
    Bpe { pre: &'static Pre, bpe: Bpe },
    Spm(Spm),
}

impl Tokenizer {
    /// The tokenizer that a file's metadata describes.
    ///
    /// # Errors
    /// [`TokenizerError`] when a key is missing, names something unknown, or does not fit the others.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
        let model =
            metadata.str(MODEL_KEY)?.ok_or(TokenizerError::MissingKey { key: MODEL_KEY })?;
        let mut warnings = Vec::new();
        let (vocab, algorithm) = match model {
            MODEL_BPE => read_bpe(metadata, &mut warnings)?,
            MODEL_SPM => read_spm(metadata, &mut warnings)?,
            _ => {
                return Err(TokenizerError::UnknownModel {
                    model: shortened(model),
                    known: [MODEL_BPE, MODEL_SPM].join(", "),
                });
            }
        };
        Ok(Tokenizer {
            specials: SpecialTokens::new(&vocab)?,
            algorithm,
            controls: control_tokens(&vocab),
            vocab,
            chat_template: metadata.str("tokenizer.chat_template")?.map(str::to_owned),
            warnings,
        })
    }

    /// What was assumed because the file does not say, or says it wrongly; one sentence each, for the log.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The tokens of a text and no others: no BOS, no EOS.
    #[must_use]
    pub fn encode(&self, text: &str, specials: Specials) -> Vec<u32> {
        let mut encoder = Encoder::new(self);
        for piece in self.specials.split(text, specials) {
            match piece {
                Piece::Token(id) => encoder.push_token(id),
                Piece::Text(text) => encoder.push_text(text),
            }
        }
        encoder.tokens
    }

    /// The tokens of a rendered chat prompt, with exactly one BOS in front where the model wants one, whether or not
    /// the template wrote it.
    ///
    /// Control tokens are recognised while the guards are in place, so that none can come from a message. The guards
    /// are then taken out, and the text between control tokens becomes the same tokens as if none had been there.
    #[must_use]
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<u32> {
        let mut encoder = Encoder::new(self);
        for piece in self.specials.split(&prompt.text, Specials::Parse) {
            match piece {
                Piece::Token(id) => encoder.push_token(id),
                Piece::Text(text) if text.contains(prompt.guard) => {
                    encoder.push_text(&text.replace(prompt.guard, ""));
                }
                Piece::Text(text) => encoder.push_text(text),
            }
        }
        self.with_one_bos(encoder.tokens)
    }

    /// The tokens of a text to be completed: BOS and EOS by the file's rules, control tokens not recognised.
    #[must_use]
    pub fn encode_text(&self, text: &str) -> Vec<u32> {
        let mut tokens = self.with_one_bos(self.encode(text, Specials::Literal));
        if self.vocab.adds_eos {
            tokens.extend(self.vocab.eos);
        }
        tokens
    }

    fn with_one_bos(&self, mut tokens: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.vocab.bos
            && self.vocab.adds_bos
        {
            let n_written = tokens.iter().take_while(|&&id| id == bos).count();
            tokens.splice(..n_written, [bos]);
        }
        tokens
    }

    /// Number of tokens in the vocabulary. The model's logits may be padded to more.
    #[must_use]
    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    /// The token that begins a sequence, if the file names one.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.vocab.bos
    }

    /// The token that ends a sequence, if the file names one.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.vocab.eos
    }

    /// Whether a token ends an answer: EOS, end of turn, end of message, or one with a well-known text of that meaning.
    #[must_use]
    pub fn is_end(&self, token_id: u32) -> bool {
        self.vocab.is_end(token_id)
    }

    /// All tokens for which [`Tokenizer::is_end`] holds, by id.
    #[must_use]
    pub fn end_tokens(&self) -> &[u32] {
        self.vocab.ends()
    }

    /// Whether a token is structure and not text.
    #[must_use]
    pub fn is_control(&self, token_id: u32) -> bool {
        self.vocab.kind(token_id) == Some(TokenKind::Control)
    }

    /// The control token that the vocabulary spells `text`.
    #[must_use]
    pub fn control_token(&self, text: &str) -> Option<u32> {
        self.controls.iter().copied().find(|&id| self.vocab.text(id) == text)
    }

    /// The bytes that a token adds to a text; none for control tokens and ids beyond the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, token_id: u32) -> &[u8] {
        self.vocab.bytes(token_id)
    }

    /// Bytes of the longest text that one token stands for, at least 1.
    #[must_use]
    pub fn token_bytes_max(&self) -> usize {
        let token_ids = (0u32..).take(self.n_vocab());
        token_ids.map(|token_id| self.token_bytes(token_id).len()).max().unwrap_or(0).max(1)
    }

    /// A token as the vocabulary spells it (a space is `Ġ` or `▁`); empty for ids beyond the vocabulary.
    #[must_use]
    pub fn token_text(&self, token_id: u32) -> &str {
        self.vocab.text(token_id)
    }

    /// The source of the chat template that the file carries.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The texts that a prompt made by the chat template `template` must guard where they come from a message: those of
    /// the control tokens that can be found in text (a single character cannot), and of the user-defined tokens that
    /// the template uses as structure, for example `</think>`.
    #[must_use]
    pub fn control_texts(&self, template: &str) -> Vec<&str> {
        let user_defined = self.specials.user_defined_in(template).into_iter();
        let markers = user_defined.filter(|&id| is_marker(self.vocab.text(id)));
        let guarded = self.controls.iter().copied().chain(markers);
        guarded.map(|id| self.vocab.text(id)).collect()
    }

    /// Bytes of memory that the tokenizer holds.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let algorithm = match &self.algorithm {
            Algorithm::Bpe { bpe, .. } => bpe.heap_bytes(),
            Algorithm::Spm(spm) => spm.heap_bytes(),
        };
        let parts = self.vocab.heap_bytes() + self.specials.heap_bytes() + algorithm;
        let controls = self.controls.capacity() * size_of::<u32>();
        (parts + controls + self.chat_template.as_ref().map_or(0, String::capacity)) as u64
    }
}

fn read_bpe(
    metadata: &Metadata,
    warnings: &mut Vec<String>,
) -> Result<(Vocab, Algorithm), TokenizerError> {
    let pre = Pre::find(metadata.str("tokenizer.ggml.pre")?, warnings)?;
    let vocab = Vocab::from_metadata(metadata, Spelling::Bytes, pre.adds_bos, warnings)?;
    let bpe = Bpe::from_metadata(metadata, &vocab, pre.whole_words)?;
    Ok((vocab, Algorithm::Bpe { pre, bpe }))
}

fn read_spm(
    metadata: &Metadata,
    warnings: &mut Vec<String>,
) -> Result<(Vocab, Algorithm), TokenizerError> {
    let vocab = Vocab::from_metadata(metadata, Spelling::Text, true, warnings)?;
    let spm = Spm::from_metadata(metadata, &vocab, warnings)?;
    Ok((vocab, Algorithm::Spm(spm)))
}

/// A sequence of tokens in the making.
struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    bpe_scratch: bpe::Scratch,
    spm_scratch: spm::Scratch,
    tokens: Vec<u32>,
    /// Whether a special token comes before what is next, or nothing.
    after_special: bool,
}

impl<'a> Encoder<'a> {
    fn new(tokenizer: &'a Tokenizer) -> Encoder<'a> {
        Encoder {
            tokenizer,
            bpe_scratch: bpe::Scratch::default(),
            spm_scratch: spm::Scratch::default(),
            tokens: Vec::new(),
            after_special: true,
        }
    }

    fn push_token(&mut self, token_id: u32) {
        self.tokens.push(token_id);
        self.after_special = true;
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let vocab = &self.tokenizer.vocab;
        match &self.tokenizer.algorithm {
            Algorithm::Bpe { pre, bpe } => {
                for word in pre.words(text) {
                    match bpe.whole_word(word, vocab) {
                        Some(token_id) => self.tokens.push(token_id),
                        None => bpe.encode_word(word, &mut self.bpe_scratch, &mut self.tokens),
                    }
                }
            }
            Algorithm::Spm(spm) => {
                let scratch = &mut self.spm_scratch;
                spm.encode(text, self.after_special, vocab, scratch, &mut self.tokens);
            }
        }
        self.after_special = false;
    }
}

fn control_tokens(vocab: &Vocab) -> Vec<u32> {
    vocab.ids().filter(|&id| vocab.special_kind(id) == Some(TokenKind::Control)).collect()
}

/// Whether a user-defined token may be structure of a prompt. One that is white space or starts like a word is text that
/// the vocabulary happens to keep whole, even where a template has it, and one of a single character leaves no room for
/// a guard.
fn is_marker(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| !c.is_alphanumeric() && !c.is_whitespace())
        && chars.next().is_some()
}
