//! Keeps an answer for later while it is sent: the same events make the reply that is stored.

use frank_api::{Answer, Choice, Dialect, Event, ReplyHead, Totals};
use frank_chat::Message;
use frank_engine::CacheScope;
use tokio::task::JoinHandle;

use crate::stored::{AnswerStore, Stored};

/// An answer that will be stored.
pub(crate) struct Keeper {
    pub(crate) store: AnswerStore,
    pub(crate) dialect: &'static Dialect,
    pub(crate) head: ReplyHead,
    pub(crate) scope: CacheScope,
    /// What was said before the answer.
    pub(crate) messages: Vec<Message>,
    /// The answer as far as it was told; dialects with a store have one choice.
    pub(crate) choice: Choice,
    pub(crate) totals: Totals,
}

impl Keeper {
    /// Takes an event. True when the answer is whole.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        self.choice.push(event.clone());
        match event {
            Event::Finished { totals: Some(totals), .. } => {
                self.totals = *totals;
                true
            }
            _ => false,
        }
    }

    /// Stores the answer. That it cannot be is no reason not to give it.
    pub(crate) fn keep(self) -> JoinHandle<()> {
        tokio::task::spawn_blocking(move || {
            let Self { store, dialect, head, scope, mut messages, choice, totals } = self;
            messages.push(choice.message());
            let body = (dialect.whole)(&head, &Answer { choices: vec![choice], totals });
            if let Err(error) = store.insert(&head.id, scope, &Stored { body, messages }) {
                tracing::warn!(%error, "an answer could not be stored");
            }
        })
    }
}
