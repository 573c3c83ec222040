//! Answers under way, counted so that the end of the endpoint waits for them and for nothing else.

use tokio::sync::watch;

use crate::auth::KeyPlace;

/// How many answers are under way.
#[derive(Debug)]
pub(crate) struct AnswersUnderWay {
    count: watch::Sender<usize>,
}

/// One answer, from its request's last byte to its own. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct AnswerUnderWay {
    count: watch::Sender<usize>,
    _place: KeyPlace,
}

impl AnswersUnderWay {
    pub(crate) fn none() -> Self {
        Self { count: watch::Sender::new(0) }
    }

    /// Counts one more, which has a place among those of its key.
    pub(crate) fn begin(&self, place: KeyPlace) -> AnswerUnderWay {
        self.count.send_modify(|count| *count += 1);
        AnswerUnderWay { count: self.count.clone(), _place: place }
    }

    /// Returns when there is none.
    pub(crate) async fn all_ended(&self) {
        let mut counts = self.count.subscribe();
        counts.wait_for(|count| *count == 0).await.expect("the sender is `self`");
    }
}

impl Drop for AnswerUnderWay {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}
