use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

/// The configuration of a reflector's backoff, which is exponential with jitter.
///
/// The defaults are those of
/// [client-go](https://pkg.go.dev/k8s.io/client-go/tools/cache#NewReflectorWithOptions). Unlike in client-go,
/// the wait keeps growing while attempts fail; the wait returns to `initial` only after a time without
/// failures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BackoffConfig {
    /// The first wait. The default is 800 ms.
    pub initial: Duration,
    /// The factor between two consecutive waits. The default is 2.
    pub factor: f64,
    /// The longest wait, without jitter. The default is 30 s.
    pub cap: Duration,
    /// The jitter: instead of the wait `d`, a random wait from `[d, d + jitter * d)` is used. The default is
    /// 1.
    pub jitter: f64,
    /// The time without a failure after which the wait is reset to `initial`. The default is 2 minutes.
    pub reset_after: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// The state of a backoff. It is used for the requests of a reflector and for restarts after panics.
#[derive(Debug)]
pub(crate) struct Backoff {
    config: BackoffConfig,
    next: Duration,
    /// The time of the first success after the last failure; `None` if no attempt has succeeded since then.
    /// If the next failure is at least `reset_after` later, the wait starts again from `initial`.
    healthy_since: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(config: BackoffConfig) -> Self {
        Self { next: config.initial, config, healthy_since: None }
    }

    pub(crate) fn success(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// Records that an attempt, such as a request, has failed. Returns the time to wait before the next
    /// attempt.
    pub(crate) fn failure(&mut self, now: Instant, rng: &mut dyn Rng) -> Duration {
        let healthy = self.healthy_since.take().map(|since| now.saturating_duration_since(since));
        if healthy.is_some_and(|healthy| healthy >= self.config.reset_after) {
            self.next = self.config.initial;
        }
        let wait = self.next.min(self.config.cap);
        self.next = scaled(wait, self.config.factor).min(self.config.cap);
        self.jittered(wait, rng)
    }

    /// Returns the time to wait after a successful request that must not be repeated immediately. It is the
    /// shortest wait, and the next wait does not grow.
    pub(super) fn pause(&self, rng: &mut dyn Rng) -> Duration {
        self.jittered(self.config.initial.min(self.config.cap), rng)
    }

    fn jittered(&self, wait: Duration, rng: &mut dyn Rng) -> Duration {
        let jitter = self.config.jitter * rng.random_range(0.0..1.0);
        wait.saturating_add(scaled(wait, jitter))
    }
}

/// Returns `wait` multiplied by `factor`, which comes from the configuration of a backoff. An invalid factor
/// must not cause a panic: a negative or NaN factor counts as 0, and too large factors give the longest
/// duration.
fn scaled(wait: Duration, factor: f64) -> Duration {
    let seconds = wait.as_secs_f64() * factor.max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
