//! What a server does that cannot accept a connection, as upstream: it tries again, and waits for that.

use std::io::{Error, ErrorKind};
use std::time::Duration;

/// How long it waits first; twice as long each time behind that.
const FIRST: Duration = Duration::from_millis(5);
/// How long it waits at most.
const MAX: Duration = Duration::from_secs(1);

/// How often nothing was accepted lately.
#[derive(Debug, Default)]
pub(super) struct Refused {
    wait: Duration,
}

impl Refused {
    /// How long to wait behind an error. Out of files it would turn in circles; a peer that left at once is nobody to
    /// wait for.
    pub(super) fn pause(&mut self, error: &Error) -> Duration {
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
            return Duration::ZERO;
        }
        self.wait = (2 * self.wait).clamp(FIRST, MAX);
        self.wait
    }

    /// A connection was accepted.
    pub(super) fn over(&mut self) {
        self.wait = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_out_of_files_waits_longer_each_time_up_to_a_second() {
        let mut refused = Refused::default();
        // Out of files has no kind of its own.
        let error = Error::other("too many open files");
        let waits: Vec<_> = (0..10).map(|_| refused.pause(&error).as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        refused.over();
        assert_eq!(refused.pause(&error).as_millis(), 5);
    }

    #[test]
    fn nobody_waits_for_a_peer_that_left_at_once() {
        let mut refused = Refused::default();
        assert_eq!(refused.pause(&ErrorKind::ConnectionAborted.into()), Duration::ZERO);
    }
}
