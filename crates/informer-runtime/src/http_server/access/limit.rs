//! A token bucket for requests to the API server on behalf of unknown clients. It has no clock; the time is
//! an argument.

use std::time::Instant;

/// The sustained number of reviews per second that reject the client. The limit holds for TokenReviews and
/// for SubjectAccessReviews separately.
pub(super) const UNKNOWN_PER_SECOND: u32 = 5;

/// The number of reviews that may reject the client in a burst. Together with the rate, it is too small to
/// fill the [`ReviewCache`](super::ReviewCache) while a denial is cached, so that a flood does not evict the
/// responses for known clients.
pub(super) const UNKNOWN_BURST: u32 = 50;

const _: () = assert!(
    (UNKNOWN_BURST as u64 + UNKNOWN_PER_SECOND as u64 * super::USER_TTL.as_secs())
        < super::review_cache::MAX_CACHED_REVIEWS as u64
);

/// Limits reviews that reject the client. Each review takes a permit before it is sent, and returns the
/// permit if the API server accepts the client.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// The number of taken permits, and the time at which it was computed. `None` if all permits are
    /// available.
    taken: Option<(f64, Instant)>,
}

impl Limit {
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let taken = self.taken_at(now);
        let free = taken + 1.0 <= f64::from(UNKNOWN_BURST);
        self.taken = Some((if free { taken + 1.0 } else { taken }, now));
        free
    }

    pub(super) fn return_permit(&mut self, now: Instant) {
        self.taken = Some(((self.taken_at(now) - 1.0).max(0.0), now));
    }

    fn taken_at(&self, now: Instant) -> f64 {
        let Some((taken, at)) = self.taken else { return 0.0 };
        let refilled = now.saturating_duration_since(at).as_secs_f64() * f64::from(UNKNOWN_PER_SECOND);
        (taken - refilled).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn permits_are_refilled_and_given_back_up_to_the_burst() {
        let (mut limit, now) = (Limit::default(), tokio::time::Instant::now().into_std());
        let taken = |limit: &mut Limit, now| (0..1000).take_while(|_| limit.take(now)).count();
        limit.return_permit(now);
        assert_eq!(taken(&mut limit, now), UNKNOWN_BURST as usize);
        limit.return_permit(now);
        assert_eq!(taken(&mut limit, now), 1);
        let later = now + Duration::from_secs(2);
        assert_eq!(taken(&mut limit, later), 2 * UNKNOWN_PER_SECOND as usize);
        assert_eq!(taken(&mut limit, later + Duration::from_secs(3600)), UNKNOWN_BURST as usize);
    }
}
