//! What is served, and the slot in which it appears once it is loaded.

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use frank_api::{ApiError, ErrorKind, FormatRule, ModelCard};
use frank_chat::{ChatTemplate, Pattern};
use frank_engine::{Constraint, Engine, SamplingParams};
use frank_grammar::{GrammarError, Vocabulary};
use frank_tokenizer::Tokenizer;

use crate::compiled_patterns::CompiledPatterns;
use crate::constraint::constraint;
use crate::limits::BODY_BYTES_MAX;
use crate::sampling::default_breakers;
use crate::voice::Voice;

/// Bytes that one byte of text may take in JSON: `\u0061` for `a`.
const ESCAPED_BYTES_MAX: usize = 6;

/// Bytes of a body for everything but its text: names, settings, structure.
const BODY_BYTES_BASE: usize = 256 << 10;

/// A loaded model with all that an answer needs.
pub struct Served {
    /// Runs the model.
    pub engine: Engine,
    /// The model's tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The model's chat template; without one, chat is refused.
    pub template: Option<ChatTemplate>,
    /// Name under which clients find it.
    pub model_name: String,
    /// Further names that clients may use.
    pub aliases: Vec<String>,
    /// Sampling of requests that do not say. The breakers of DRY are those of [`default_breakers`], whatever it has.
    pub sampling: SamplingParams,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Served({})", self.model_name)
    }
}

/// A model that may still be loading. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ModelSlot {
    loaded: Arc<OnceLock<Loaded>>,
}

/// A model in its slot.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) served: Arc<Served>,
    /// Seconds since 1970.
    pub(crate) since: u64,
    /// Bytes of the longest text that the context can hold. A longer one is refused before it is tokenized, which
    /// would take memory and time that nobody planned.
    pub(crate) text_bytes_max: usize,
    /// How the model speaks, where it has a chat template.
    pub(crate) voice: Option<Arc<Voice>>,
    /// The model's tokens as grammars see them, from the first grammar on.
    vocabulary: Arc<OnceLock<Result<Arc<Vocabulary>, GrammarError>>>,
    compiled: Arc<CompiledPatterns>,
}

impl ModelSlot {
    /// A slot without a model: the endpoint answers, and says that it is loading.
    #[must_use]
    pub fn loading() -> Self {
        Self::default()
    }

    /// Puts the model into the slot. Requests are answered from now on.
    ///
    /// # Panics
    /// When the slot has a model.
    pub fn fill(&self, mut served: Served) {
        served.sampling.dry.breakers = default_breakers(&served.tokenizer);
        let text_bytes_max =
            served.engine.n_ctx().saturating_mul(served.tokenizer.token_bytes_max());
        let template = served.template.as_ref();
        let voice = template.map(|template| Arc::new(Voice::of(template, &served.tokenizer)));
        let loaded = Loaded {
            voice,
            compiled: Arc::default(),
            served: Arc::new(served),
            since: unix_seconds(),
            text_bytes_max,
            vocabulary: Arc::default(),
        };
        assert!(self.loaded.set(loaded).is_ok(), "the slot has a model already");
    }

    pub(crate) fn get(&self) -> Option<&Loaded> {
        self.loaded.get()
    }
}

impl From<Served> for ModelSlot {
    fn from(served: Served) -> Self {
        let slot = Self::loading();
        slot.fill(served);
        slot
    }
}

impl Loaded {
    /// Bytes of the longest body that a request for this model needs: its text with every character escaped, and
    /// room for the rest.
    pub(crate) fn body_bytes_max(&self) -> usize {
        let text = self.text_bytes_max.saturating_mul(ESCAPED_BYTES_MAX);
        text.saturating_add(BODY_BYTES_BASE).min(BODY_BYTES_MAX)
    }

    /// What keeps an answer to `rule`; each answer needs a clone. The first one takes up to a second, for it also makes
    /// the vocabulary.
    ///
    /// # Errors
    /// A 400 that names the parameter and says what of it cannot be kept.
    pub(crate) fn constraint(
        &self,
        rule: &FormatRule,
    ) -> Result<impl Constraint + Clone + use<>, ApiError> {
        let made = self.vocabulary().and_then(|vocabulary| constraint(&rule.format, vocabulary));
        made.map_err(|error| ApiError::invalid(rule.param, format!("{}: {error}", rule.param)))
    }

    /// What keeps an answer to `pattern`; each answer needs a clone. Agents send the same tools with each turn, so the
    /// last few are remembered.
    ///
    /// # Errors
    /// What of the pattern cannot be kept.
    pub(crate) fn pattern(
        &self,
        pattern: &Pattern,
    ) -> Result<impl Constraint + Clone + use<>, GrammarError> {
        self.compiled.get(pattern, || self.vocabulary())
    }

    fn vocabulary(&self) -> Result<&Arc<Vocabulary>, GrammarError> {
        let vocabulary = self.vocabulary.get_or_init(|| Vocabulary::new(&self.served.tokenizer));
        vocabulary.as_ref().map_err(Clone::clone)
    }

    /// A card for each name, the model's own first.
    pub(crate) fn cards(&self) -> Vec<ModelCard> {
        let names = std::iter::once(&self.served.model_name).chain(&self.served.aliases);
        let context_length = self.served.engine.n_ctx() as u64;
        names
            .map(|name| ModelCard { id: name.clone(), created: self.since, context_length })
            .collect()
    }

    /// The name to answer under when a client asked for `wanted`.
    pub(crate) fn name_for<'a>(&'a self, wanted: Option<&'a str>) -> Result<&'a str, ApiError> {
        let served = &self.served;
        match wanted {
            None => Ok(&served.model_name),
            Some(name)
                if name == served.model_name
                    || served.aliases.iter().any(|alias| alias == name) =>
            {
                Ok(name)
            }
            Some(name) => {
                let message =
                    format!("model {name:?} is not served here; {:?} is", served.model_name);
                let error = ApiError {
                    param: Some("model".to_owned()),
                    ..ApiError::new(ErrorKind::NotFound, message)
                };
                Err(error.with_code("model_not_found"))
            }
        }
    }
}

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
