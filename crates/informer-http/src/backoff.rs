//! Backoff after a failed `accept`, as in Go's `net/http`.

use std::io::{Error, ErrorKind};
use std::time::Duration;

/// The delay after the first failed `accept`. Each further failure doubles it.
const MIN_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct AcceptBackoff {
    delay: Duration,
}

impl AcceptBackoff {
    /// Returns the delay after a failed `accept`. Without a delay the loop would spin while file descriptors
    /// are exhausted. There is no delay if the peer has aborted the connection.
    pub(crate) fn next_delay(&mut self, error: &Error) -> Duration {
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
            return Duration::ZERO;
        }
        self.delay = (2 * self.delay).clamp(MIN_DELAY, MAX_DELAY);
        self.delay
    }

    pub(crate) fn reset(&mut self) {
        self.delay = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_backoff_doubles_up_to_one_second() {
        let mut backoff = AcceptBackoff::default();
        // EMFILE has no `ErrorKind`.
        let error = Error::other("too many open files");
        let waits: Vec<_> = (0..10).map(|_| backoff.next_delay(&error).as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(&error).as_millis(), 5);
    }

    #[test]
    fn aborted_connection_causes_no_backoff() {
        let mut backoff = AcceptBackoff::default();
        assert_eq!(backoff.next_delay(&ErrorKind::ConnectionAborted.into()), Duration::ZERO);
    }
}
