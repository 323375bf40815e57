//! Decides whether and when a rejected call is sent again: a pure state machine.

use std::time::Duration;

use super::CallError;

/// The maximum number of times that a call is sent again.
pub const MAX_CALL_RETRIES: u32 = 5;

/// The maximum sum of the delays before the retries of one call. A longer `Retry-After` is left to the
/// caller: a reconcile that fails with it is retried by the work queue, and does not occupy a worker.
pub const MAX_CALL_RETRY_TIME: Duration = Duration::from_secs(10);

/// The minimum delay before a retry, for a server that sends `Retry-After: 0`.
pub const MIN_CALL_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The retries of one call. [`Client::call`](crate::Client::call) uses it. A program that has to check a
/// condition before each retry, such as a lease, sends the call [without
/// retries](super::Call::without_retries) and uses it, too.
///
/// A call is sent again if the server responded with 429 or 5xx *and* `Retry-After`. Without `Retry-After`
/// the error is returned at once, as in client-go. The caller checks that the call
/// [is idempotent](super::Call::is_idempotent).
#[derive(Debug, Clone, Default)]
pub struct CallRetries {
    retries: u32,
    waited: Duration,
}

impl CallRetries {
    /// Returns the delay after which the call is sent again. Returns `None` if the error is final: the server
    /// requested no retry, or the retry would exceed [`MAX_CALL_RETRIES`] or [`MAX_CALL_RETRY_TIME`].
    pub fn delay_after(&mut self, error: &CallError) -> Option<Duration> {
        let status = error.status().filter(|status| status.code == 429 || status.code / 100 == 5)?;
        let delay = status.retry_after?.max(MIN_CALL_RETRY_DELAY);
        let waited = self.waited.saturating_add(delay);
        if self.retries == MAX_CALL_RETRIES || waited > MAX_CALL_RETRY_TIME {
            return None;
        }
        (self.retries, self.waited) = (self.retries + 1, waited);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use informer_cache::source::ServerStatus;

    use super::*;

    fn rejected(code: u16, retry_after: Option<u64>) -> CallError {
        let retry_after = retry_after.map(Duration::from_secs);
        CallError::refused("list pods", ServerStatus { code, retry_after, ..ServerStatus::default() })
    }

    #[test]
    fn only_429_and_5xx_with_retry_after_are_retried() {
        for (code, retry_after, delay) in [
            (429, Some(1), Some(Duration::from_secs(1))),
            (503, Some(0), Some(MIN_CALL_RETRY_DELAY)),
            (500, Some(10), Some(Duration::from_secs(10))),
            (500, Some(11), None),
            (429, Some(u64::MAX), None),
            (429, None, None),
            (504, None, None),
            (409, Some(1), None),
            (404, Some(1), None),
        ] {
            let found = CallRetries::default().delay_after(&rejected(code, retry_after));
            assert_eq!(found, delay, "{code} {retry_after:?}");
        }
    }

    #[test]
    fn retries_are_bounded_by_number_and_by_time() {
        let delays = |seconds| {
            let mut retries = CallRetries::default();
            let error = rejected(429, Some(seconds));
            std::iter::from_fn(|| retries.delay_after(&error)).count()
        };
        assert_eq!((delays(0), delays(1), delays(2)), (5, 5, 5));
        assert_eq!((delays(3), delays(4), delays(10)), (3, 2, 1));
    }

    #[test]
    fn call_without_response_is_not_retried() {
        let error = CallError::timed_out("list pods".to_owned(), Duration::from_secs(60));
        assert_eq!(CallRetries::default().delay_after(&error), None);
    }
}
