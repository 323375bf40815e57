use std::sync::Arc;
use std::time::Duration;

use informer_workqueue::{
    ExponentialPerItem, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait,
    default_controller_rate_limiter, default_item_rate_limiter,
};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn waits(limiter: &impl RateLimiter<&'static str>, key: &'static str, count: usize) -> Vec<Duration> {
    let now = Instant::now();
    (0..count).map(|_| limiter.when(&key, now)).collect()
}

#[test]
fn the_exponential_limiter_doubles_for_each_failure_of_a_key() {
    let limiter = ExponentialPerItem::new(MS, SECOND);
    assert_eq!(waits(&limiter, "one", 5), [MS, MS * 2, MS * 4, MS * 8, MS * 16]);
    assert_eq!(limiter.retries(&"one"), 5);
    assert_eq!(waits(&limiter, "two", 2), [MS, MS * 2]);
    assert_eq!(limiter.retries(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
    assert_eq!(waits(&limiter, "one", 1), [MS]);
}

#[test]
fn the_exponential_limiter_never_overflows() {
    for max in [SECOND * 1000, SECOND * 3_600_000, Duration::MAX] {
        let limiter = ExponentialPerItem::new(MS, max);
        let waits = waits(&limiter, "one", 2000);
        assert_eq!(waits[5], MS * 32);
        assert_eq!(waits[1999], max);
        assert!(waits.is_sorted());
    }
    let limiter = ExponentialPerItem::new(SECOND * 240, SECOND * 1000);
    assert_eq!(waits(&limiter, "one", 4), [240, 480, 960, 1000].map(|n| SECOND * n));
    assert_eq!(waits(&ExponentialPerItem::new(Duration::ZERO, SECOND), "one", 200)[199], Duration::ZERO);
}

#[test]
fn the_fast_slow_limiter_is_slow_after_its_fast_attempts() {
    let limiter = FastSlow::new(MS * 5, SECOND * 10, 3);
    assert_eq!(waits(&limiter, "one", 5), [MS * 5, MS * 5, MS * 5, SECOND * 10, SECOND * 10]);
    assert_eq!(limiter.retries(&"one"), 5);
    assert_eq!(waits(&limiter, "two", 1), [MS * 5]);
    limiter.forget(&"one");
    assert_eq!(waits(&limiter, "one", 1), [MS * 5]);
}

#[test]
fn the_longest_of_several_delays_counts() {
    let limiter = MaxOf::new([
        Box::new(FastSlow::new(MS * 5, SECOND * 3, 3)) as Box<dyn RateLimiter<&'static str>>,
        Box::new(ExponentialPerItem::new(MS, SECOND)),
    ]);
    assert_eq!(waits(&limiter, "one", 5), [MS * 5, MS * 5, MS * 5, SECOND * 3, SECOND * 3]);
    assert_eq!(limiter.retries(&"one"), 5);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
    assert_eq!(waits(&MaxOf::new([]), "one", 1), [Duration::ZERO]);
}

#[test]
fn a_cap_bounds_the_delays_of_a_limiter() {
    let limiter = WithMaxWait::new(default_item_rate_limiter(), SECOND * 500);
    let waits = waits(&limiter, "one", 101);
    assert_eq!((waits[0], waits[100]), (MS, SECOND * 500));
    assert_eq!(limiter.retries(&"one"), 101);
}

/// Checks that a limiter counts and forgets the failures of a key.
fn counts_and_forgets(limiter: &impl RateLimiter<&'static str>) {
    assert_eq!(waits(limiter, "one", 2).len(), 2);
    assert_eq!(limiter.retries(&"one"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
}

#[test]
fn limiters_that_wrap_another_one_forget_its_failures() {
    let inner = || ExponentialPerItem::new(MS, SECOND);
    counts_and_forgets(&WithMaxWait::new(inner(), SECOND));
    counts_and_forgets(&WithJitter::new(inner(), 0.5));
    counts_and_forgets(&(Box::new(inner()) as Box<dyn RateLimiter<&'static str>>));
    let shared = Arc::new(inner());
    counts_and_forgets(&Arc::clone(&shared));
    assert_eq!(waits(&Arc::clone(&shared), "one", 1), [MS]);
    assert_eq!(shared.retries(&"one"), 1, "all clones count the same failures");
}

#[test]
fn the_token_bucket_allows_a_burst_and_then_its_rate() {
    let limiter = TokenBucket::new(10.0, 3);
    let now = Instant::now();
    let when = |later: u32| RateLimiter::<()>::when(&limiter, &(), now + MS * later).as_millis();
    assert_eq!([when(0), when(0), when(0), when(0), when(0)], [0, 0, 0, 100, 200]);
    assert_eq!(when(200), 100, "the two owed tokens are repaid");
    assert_eq!(
        [when(1300), when(1300), when(1300), when(1300)],
        [0, 0, 0, 100],
        "the bucket never holds more than the burst"
    );
}

#[test]
fn a_token_bucket_survives_a_clock_that_jumps_back() {
    let limiter = TokenBucket::new(10.0, 1);
    let now = Instant::now() + SECOND * 60;
    let when = |at| RateLimiter::<()>::when(&limiter, &(), at).as_millis();
    assert_eq!([when(now), when(now - SECOND * 30), when(now)], [0, 100, 200]);
}

#[test]
fn a_token_bucket_with_an_invalid_rate_has_a_defined_delay() {
    let now = Instant::now();
    for rate in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE] {
        let limiter = TokenBucket::new(rate, 1);
        assert_eq!(RateLimiter::<()>::when(&limiter, &(), now), Duration::ZERO);
        assert_eq!(RateLimiter::<()>::when(&limiter, &(), now + SECOND), Duration::MAX);
    }
    let limiter = TokenBucket::new(f64::INFINITY, 0);
    assert_eq!(RateLimiter::<()>::when(&limiter, &(), now), Duration::ZERO);
}

#[test]
fn the_default_controller_limiter_waits_for_the_key_and_the_bucket() {
    let limiter = default_controller_rate_limiter::<u32>();
    let now = Instant::now();
    assert_eq!(limiter.when(&0, now), MS * 5);
    let last = (1..=150).map(|key| limiter.when(&key, now)).fold(None, |_, delay| Some(delay));
    assert_eq!(last, Some(MS * 5100), "the 51st beyond the burst of 100");
}

#[test]
fn jitter_lengthens_by_at_most_its_factor_and_is_the_same_for_one_seed() {
    let limiter = || WithJitter::with_seed(FastSlow::new(SECOND, SECOND, 0), 0.5, 7);
    let waits_of_one = waits(&limiter(), "one", 100);
    assert!(waits_of_one.iter().all(|wait| (SECOND..SECOND * 3 / 2).contains(wait)));
    let (shortest, longest) = (waits_of_one.iter().min().unwrap(), waits_of_one.iter().max().unwrap());
    assert!(*longest - *shortest > MS * 300, "the delays vary: {shortest:?} to {longest:?}");
    assert_eq!(waits(&limiter(), "one", 100), waits_of_one);
    let odd = WithJitter::new(FastSlow::new(Duration::MAX, SECOND, 9), f64::NAN);
    assert_eq!(waits(&odd, "one", 1), [Duration::MAX]);
    let huge = WithJitter::new(FastSlow::new(SECOND, SECOND, 9), f64::INFINITY);
    assert!(waits(&huge, "one", 9).iter().all(|wait| *wait >= SECOND));
}
