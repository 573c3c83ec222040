//! What the system says when it does not read, and what follows from it. Never asks again itself.

use std::io;
use std::time::Duration;

/// Times in a row that a read which the system put off is begun again.
const PUT_OFF_MAX: u32 = 1000;

/// Times that a read which failed is begun again: what a drive or a network cannot do for a moment costs no answer.
const FAILED_MAX: u32 = 2;

/// How long the last of them waits before. No longer: the one that waits computes nothing meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// How often something went wrong with one read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    put_off: u32,
    failed: u32,
}

/// What is done about a transfer that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The file system reads through the page cache only.
    Buffered,
    /// The same once more.
    Again,
    /// Through the page cache once more, after a pause: the kernel then reads in another way.
    Reread(Duration),
    /// Nothing helps.
    Fail,
}

impl Attempts {
    /// What to do about `error`, of a read past the page cache or through it.
    pub(super) fn remedy(&mut self, error: &io::Error, direct: bool) -> Remedy {
        if direct && is_direct_refusal(error) {
            Remedy::Buffered
        } else if is_put_off(error) && self.put_off < PUT_OFF_MAX {
            self.put_off += 1;
            Remedy::Again
        } else if self.failed < FAILED_MAX {
            self.failed += 1;
            Remedy::Reread(if self.failed == FAILED_MAX { PAUSE } else { Duration::ZERO })
        } else {
            Remedy::Fail
        }
    }

    /// Some bytes came.
    pub(super) fn got_on(&mut self) {
        self.put_off = 0;
    }

    /// Whether it failed before, and so goes through the page cache.
    pub(super) fn has_failed(self) -> bool {
        self.failed > 0
    }
}

/// What file systems say that read through the page cache only.
fn is_direct_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// What the system says of a read that it did not do for now. The kernel gives up those of a thread that ends.
fn is_put_off(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_read_twice_more_and_what_was_put_off_goes_on() {
        let [failed, put_off, refused] =
            [libc::EIO, libc::EAGAIN, libc::EINVAL].map(io::Error::from_raw_os_error);
        let mut attempts = Attempts::default();
        assert_eq!(attempts.remedy(&put_off, true), Remedy::Again);
        assert_eq!(attempts.remedy(&refused, true), Remedy::Buffered);
        assert!(!attempts.has_failed());
        assert_eq!(attempts.remedy(&failed, true), Remedy::Reread(Duration::ZERO));
        assert!(attempts.has_failed());
        attempts.got_on();
        assert_eq!(attempts.remedy(&refused, false), Remedy::Reread(PAUSE));
        assert_eq!(attempts.remedy(&failed, false), Remedy::Fail);
        for _ in 0..PUT_OFF_MAX {
            assert_eq!(attempts.remedy(&put_off, false), Remedy::Again);
        }
        assert_eq!(attempts.remedy(&put_off, false), Remedy::Fail);
    }
}
