//! How often and after which pause a request is sent again. Never sends anything.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::delay::Delay;
use super::error::HttpError;

/// Longest pause that a server's `Retry-After` can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// How long a client waits for what, and how often it tries again.
#[derive(Clone)]
pub struct Patience {
    /// Tries of one request, or of one range of a file, that bring nothing new.
    pub attempts: u32,
    /// Pause before the second try; it doubles from try to try. Each pause is between a half of it and all of it.
    pub first: Duration,
    /// Longest pause.
    pub most: Duration,
    /// For a TCP connection.
    pub connect: Duration,
    /// For the head of an answer, and for each next piece of its body.
    pub idle: Duration,
    /// For a host that no connection leads to, all its tries together, while nothing was heard of it yet.
    pub unreachable: Duration,
    /// For a host that is connected to and says nothing, the same.
    pub silent: Duration,
    /// Whoever waits is told after this time that there is no answer yet.
    pub quiet: Duration,
    /// Turns a pause that was decided on into the one that is made.
    pub pause: Arc<dyn Fn(Duration) -> Duration + Send + Sync>,
}

impl Default for Patience {
    /// Ten tries over about three minutes; 15 s for a connection, 30 s of silence. A host that was never heard of is given up
    /// after 20 s without a connection, or two minutes of silence.
    fn default() -> Patience {
        Patience {
            attempts: 10,
            first: Duration::from_millis(500),
            most: Duration::from_secs(60),
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(30),
            unreachable: Duration::from_secs(20),
            silent: Duration::from_secs(120),
            quiet: Duration::from_secs(3),
            pause: Arc::new(|pause| pause),
        }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Patience");
        out.field("attempts", &self.attempts).field("first", &self.first).field("most", &self.most);
        out.field("connect", &self.connect).field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Counts the tries of one thing.
pub(crate) struct Tries<'a> {
    patience: &'a Patience,
    failed: u32,
    /// Since when the host is tried, and the pauses since then; `None` once something was heard of it.
    unheard: Option<(Instant, Duration)>,
}

impl<'a> Tries<'a> {
    /// Of a host that was heard of before.
    pub(crate) fn new(patience: &'a Patience) -> Tries<'a> {
        Tries { patience, failed: 0, unheard: None }
    }

    /// Of a host that may not be there at all, which is given up sooner.
    pub(crate) fn first_contact(patience: &'a Patience) -> Tries<'a> {
        Tries { patience, failed: 0, unheard: Some((Instant::now(), Duration::ZERO)) }
    }

    /// Something came, so the count starts again.
    pub(crate) fn progressed(&mut self) {
        self.failed = 0;
        self.unheard = None;
    }

    /// Waits before the next try, after `tell` was told why, or gives `error` back when it is of the lasting kind or one
    /// too many.
    pub(crate) async fn again(
        &mut self,
        error: HttpError,
        tell: impl FnOnce(&Delay),
    ) -> Result<(), HttpError> {
        self.failed += 1;
        if !error.is_passing() || self.failed >= self.patience.attempts {
            return Err(error);
        }
        let share = 0.5 + 0.5 * rand::random::<f64>();
        let pause = pause(self.patience, self.failed, share, error.retry_after());
        if self.is_too_long(&error, pause) {
            return Err(error);
        }
        tell(&Delay::Retry { error, attempt: self.failed + 1, pause });
        tokio::time::sleep((self.patience.pause)(pause)).await;
        Ok(())
    }

    /// Whether a host that was never heard of is not worth another `pause`.
    fn is_too_long(&mut self, error: &HttpError, pause: Duration) -> bool {
        let Some((begun, pauses)) = &mut self.unheard else { return false };
        let most = match error {
            HttpError::Unreachable { .. } => self.patience.unreachable,
            HttpError::Stalled { .. } => self.patience.silent,
            _ => {
                self.unheard = None;
                return false;
            }
        };
        *pauses += pause;
        // Pauses count in full even where they are not made, as in a test.
        begun.elapsed().saturating_add(pause).max(*pauses) > most
    }
}

/// The pause after the `failed`th failure; `share` is the part of the full pause, by which many clients that failed
/// together come back apart. A server that asks for more gets more, within a bound.
fn pause(patience: &Patience, failed: u32, share: f64, retry_after: Option<Duration>) -> Duration {
    let doublings = failed.saturating_sub(1).min(16);
    let full = patience.first.saturating_mul(1 << doublings).min(patience.most);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    full.mul_f64(share).max(asked)
}

/// Reads `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_a_half() {
        let patience = Patience::default();
        let full = |failed| pause(&patience, failed, 1.0, None).as_secs_f64();
        let pauses: Vec<f64> = (1..=9).map(full).collect();
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(pause(&patience, 3, 0.5, None), Duration::from_secs(1));
        assert_eq!(pause(&patience, u32::MAX, 1.0, None), Duration::from_secs(60));
    }

    #[test]
    fn a_server_that_asks_for_a_longer_pause_gets_it_within_a_bound() {
        let patience = Patience::default();
        let asked =
            |seconds| pause(&patience, 2, 1.0, Some(Duration::from_secs(seconds))).as_secs();
        assert_eq!([asked(0), asked(7), asked(86_400)], [1, 7, 300]);
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let read = |text| retry_after(text, now).map(|pause| pause.as_secs());
        assert_eq!(read("17"), Some(17));
        assert_eq!(read("Wed, 21 Oct 2015 07:29:30 GMT"), Some(90));
        assert_eq!(read("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0));
        assert_eq!(read("soon"), None);
    }
}
