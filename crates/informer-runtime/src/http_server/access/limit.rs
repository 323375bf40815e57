//! A token bucket that limits how many TokenReviews and SubjectAccessReviews a server sends to the API server
//! for unknown clients. It has no clock; the time is an argument.

use std::time::Instant;

/// The sustained number of reviews per second that may reject a client. TokenReviews and SubjectAccessReviews
/// have this limit separately.
pub(super) const UNKNOWN_PER_SECOND: u32 = 5;

/// The number of reviews that may reject a client in a burst. The burst and the rate together add fewer
/// results within the lifetime of a cached denial than the [`ReviewCache`](super::ReviewCache) can hold, so a
/// flood of rejected requests does not evict the results for known clients.
pub(super) const UNKNOWN_BURST: u32 = 50;

const _: () = assert!(
    (UNKNOWN_BURST as u64 + UNKNOWN_PER_SECOND as u64 * super::USER_TTL.as_secs())
        < super::review_cache::MAX_CACHED_REVIEWS as u64
);

/// Limits how many reviews with a rejection the API server receives. Each review takes a permit before it is
/// sent, and returns the permit if the API server accepts the client.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// The number of permits that are taken, and the time at which this number was computed; permits become
    /// available again as time passes. `None` if all permits are available.
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
