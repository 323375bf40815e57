//! The state of the bodies of a kind whose cache holds the metadata of all objects: which bodies are held,
//! which are fetched, and which version each of them reflects.
//!
//! ```text
//!            referenced, or read                 next_fetch                 finished(Found)
//!   Idle ─────────────────────────▶ Queued ─────────────────▶ InFlight ─────────────────────▶ Idle
//!    ▲                                ▲                          │ finished(Failed), or finished(Missing)
//!    │          due, no longer wanted │ due                      ▼ of an object that the metadata shows
//!    └────────────────────────────────┴────────────────────── Waiting
//! ```
//!
//! # Invariants
//!
//! 1. A key has an entry if and only if it is referenced, leased, or being read.
//! 2. `observed` of an entry counts the states of its metadata. `reflected <= observed` is the last of these
//!    states that the content of the entry reflects. A fetch is a consistent read, so a fetch that begins at
//!    `observed` reflects this state or a later one.
//! 3. An entry whose metadata shows no object holds no body.
//! 4. `queue`, `retries` and `leases` contain exactly the keys of the entries that are queued, waiting and
//!    leased. At most `max_fetches` fetches are in flight.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use informer_core::{ObjectKey, ResourceVersion};
use rand::{Rng, RngExt};

/// The settings of the state.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodiesConfig {
    /// The maximum number of fetches in flight.
    pub(super) max_fetches: usize,
    /// How long a body is held after the last read of an object that is not referenced. Zero: not at all.
    pub(super) lease: Duration,
    /// The maximum number of leases. The body that was not read for the longest time is dropped first.
    pub(super) max_leases: usize,
    /// The first and the longest wait after a failed fetch.
    pub(super) backoff: (Duration, Duration),
}

/// The identity of one state of an object: its uid and resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) uid: Box<str>,
    pub(super) version: ResourceVersion,
}

/// The state of an object in the metadata cache; `None` if the cache does not contain the object. The epoch
/// is the number of times that the informer of the metadata has followed a restored server.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    pub(super) seen: Option<Version>,
    pub(super) epoch: u64,
}

/// The result of a fetch.
#[derive(Debug)]
pub(super) enum FetchResult<B, E> {
    Found(Version, B),
    Missing,
    /// The error, and the time for which the server asked to wait.
    Failed(E, Option<Duration>),
}

/// The start of a fetch that the driver must perform. The result is passed to [`BodiesState::finished`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchStart {
    pub(super) key: ObjectKey,
    pub(super) id: u64,
}

/// The progress of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadProgress<B, E> {
    Pending,
    Done(Option<B>),
    /// The last fetch failed. The next one begins at this time.
    Failed(E, Instant),
}

/// A count of the entries of the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BodyCounts {
    pub(super) referenced: usize,
    pub(super) leased: usize,
    pub(super) bodies: usize,
    pub(super) in_flight: usize,
    pub(super) failing: usize,
}

#[derive(Debug)]
pub(super) struct BodiesState<B, E> {
    config: BodiesConfig,
    epoch: u64,
    entries: HashMap<ObjectKey, BodyEntry<B, E>>,
    /// The keys whose bodies are to be fetched. Those that a read waits for are first.
    queue: BTreeMap<QueuePosition, ObjectKey>,
    retries: BTreeSet<(Instant, ObjectKey)>,
    leases: BTreeSet<(Instant, ObjectKey)>,
    in_flight: usize,
    /// The number of places in the queue and of fetches so far. It makes their identities unique.
    counter: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    /// False, which is first, if a read waits for the body.
    is_eager: bool,
    number: u64,
}

#[derive(Debug)]
struct BodyEntry<B, E> {
    references: usize,
    readers: usize,
    leased_until: Option<Instant>,
    seen: Option<Version>,
    observed: u64,
    reflected: u64,
    /// The body with its version, and the epoch in which its fetch began.
    body: Option<(Version, u64, B)>,
    activity: Activity<E>,
    failures: u32,
}

#[derive(Debug)]
enum Activity<E> {
    Idle,
    Queued(QueuePosition),
    InFlight {
        id: u64,
        /// The values of `observed` and of the epoch when the fetch began.
        began: (u64, u64),
    },
    /// The last fetch failed, or found no object although the metadata shows one.
    Waiting {
        until: Instant,
        error: Option<E>,
    },
}

impl<B: Clone, E: Clone> BodiesState<B, E> {
    pub(super) fn new(config: BodiesConfig) -> Self {
        Self {
            config,
            epoch: 0,
            entries: HashMap::new(),
            queue: BTreeMap::new(),
            retries: BTreeSet::new(),
            leases: BTreeSet::new(),
            in_flight: 0,
            counter: 0,
        }
    }

    /// Returns whether the state contains an entry for the object, so that its metadata must be observed.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns whether no object is referenced, leased or being read.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a reference to an object. Its body is fetched, and fetched again after each change.
    pub(super) fn add_reference(&mut self, key: &ObjectKey, observation: Observation) {
        self.enter(key, observation);
        self.change(key, |entry| entry.references += 1);
        self.schedule(key);
    }

    /// Removes a reference. The body is dropped with the last reference, unless it is leased or being read.
    pub(super) fn remove_reference(&mut self, key: &ObjectKey) {
        self.change(key, |entry| entry.references -= 1);
        self.retire(key);
    }

    /// Begins a read. Returns the number of the metadata state that the result must reflect. Each begun read
    /// must be ended with [`end_read`](Self::end_read).
    pub(super) fn begin_read(&mut self, key: &ObjectKey, observation: Observation, now: Instant) -> u64 {
        self.enter(key, observation);
        self.change(key, |entry| entry.readers += 1);
        self.renew_lease(key, now);
        self.schedule(key);
        self.entries.get(key).map_or(0, |entry| entry.observed)
    }

    /// Returns the progress of a read that must reflect the metadata state `wanted`.
    pub(super) fn poll_read(&self, key: &ObjectKey, wanted: u64) -> ReadProgress<B, E> {
        let Some(entry) = self.entries.get(key) else { return ReadProgress::Done(None) };
        match &entry.activity {
            _ if entry.reflected >= wanted => ReadProgress::Done(entry.value()),
            Activity::Waiting { until, error: Some(error) } => ReadProgress::Failed(error.clone(), *until),
            _ => ReadProgress::Pending,
        }
    }

    pub(super) fn end_read(&mut self, key: &ObjectKey) {
        self.change(key, |entry| entry.readers -= 1);
        self.retire(key);
    }

    /// Returns the body that is held for an object, which may be older than the metadata. `None` if there is
    /// none, or if it belongs to a deleted object of the same name.
    pub(super) fn held(&self, key: &str) -> Option<B> {
        let entry = self.entries.get(key)?;
        let (version, _, body) = entry.body.as_ref()?;
        (entry.seen.as_ref()?.uid == version.uid).then(|| body.clone())
    }

    /// Records the state of an object in the metadata cache. Observations must be made in the order in which
    /// the metadata cache changes.
    pub(super) fn observe(&mut self, key: &ObjectKey, observation: Observation) {
        self.enter_epoch(observation.epoch);
        let epoch = self.epoch;
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.seen != observation.seen) else {
            return;
        };
        let is_missing = matches!(entry.activity, Activity::Waiting { error: None, .. });
        entry.show(observation.seen, epoch);
        if entry.seen.is_none() || is_missing {
            self.set_idle(key);
        }
        self.schedule(key);
    }

    /// Returns the next fetch that may begin; `None` if there is none, or if enough of them are in flight.
    pub(super) fn next_fetch(&mut self) -> Option<FetchStart> {
        if self.in_flight >= self.config.max_fetches {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.counter += 1;
        let (id, epoch) = (self.counter, self.epoch);
        let entry = self.entries.get_mut(&key)?;
        entry.activity = Activity::InFlight { id, began: (entry.observed, epoch) };
        self.in_flight += 1;
        Some(FetchStart { key, id })
    }

    /// Records the result of a fetch.
    pub(super) fn finished(
        &mut self,
        fetch: &FetchStart,
        result: FetchResult<B, E>,
        now: Instant,
        rng: &mut impl Rng,
    ) {
        self.in_flight -= 1;
        let backoff = self.config.backoff;
        let Some(entry) = self.entries.get_mut(&fetch.key) else { return };
        let Activity::InFlight { id, began } = entry.activity else { return };
        if id != fetch.id {
            return;
        }
        entry.activity = Activity::Idle;
        let wait = entry.record(result, began, self.epoch);
        if let Some((error, at_least)) = wait {
            let until = now + backoff_of(backoff, entry.failures, rng).max(at_least);
            entry.activity = Activity::Waiting { until, error };
            self.retries.insert((until, fetch.key.clone()));
        }
        self.schedule(&fetch.key);
    }

    /// Ends expired leases, and queues the fetches whose wait is over.
    pub(super) fn tick(&mut self, now: Instant) {
        while let Some((_, key)) = self.retries.pop_first_if_due(now) {
            self.change(&key, |entry| {
                // The server had no object where the metadata shows one. It is asked again, although the
                // metadata has not changed.
                let is_missing = matches!(entry.activity, Activity::Waiting { error: None, .. });
                entry.observed += u64::from(is_missing);
                entry.activity = Activity::Idle;
            });
            self.schedule(&key);
        }
        while let Some((_, key)) = self.leases.pop_first_if_due(now) {
            self.change(&key, |entry| entry.leased_until = None);
            self.retire(&key);
        }
    }

    /// Returns the time of the next [`tick`](Self::tick).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = |set: &BTreeSet<(Instant, ObjectKey)>| set.first().map(|(at, _)| *at);
        first(&self.retries).into_iter().chain(first(&self.leases)).min()
    }

    pub(super) fn counts(&self) -> BodyCounts {
        let mut counts = BodyCounts { in_flight: self.in_flight, ..BodyCounts::default() };
        for entry in self.entries.values() {
            counts.referenced += usize::from(entry.references > 0);
            counts.leased += usize::from(entry.leased_until.is_some());
            counts.bodies += usize::from(entry.body.is_some());
            counts.failing += usize::from(matches!(entry.activity, Activity::Waiting { .. }));
        }
        counts
    }

    pub(super) fn bodies(&self) -> impl Iterator<Item = &B> {
        self.entries.values().filter_map(|entry| entry.body.as_ref().map(|(_, _, body)| body))
    }

    /// Creates the entry of an object if there is none, and records the observation.
    fn enter(&mut self, key: &ObjectKey, observation: Observation) {
        if self.contains(key.as_str()) {
            return self.observe(key, observation);
        }
        self.enter_epoch(observation.epoch);
        let mut entry = BodyEntry::default();
        entry.show(observation.seen, self.epoch);
        self.entries.insert(key.clone(), entry);
    }

    /// Makes all bodies outdated if the metadata has followed a restored server. A restored server may use
    /// the versions of lost states again, so versions of different epochs cannot be compared.
    pub(super) fn enter_epoch(&mut self, epoch: u64) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let mut outdated = Vec::new();
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.seen.is_some()) {
            entry.observed += 1;
            outdated.push(key.clone());
        }
        outdated.iter().for_each(|key| self.schedule(key));
    }

    fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut BodyEntry<B, E>)) {
        if let Some(entry) = self.entries.get_mut(key) {
            change(entry);
        }
    }

    /// Queues the fetch of a body that is outdated and wanted. A queued fetch moves to the front when a read
    /// waits for it.
    fn schedule(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let is_eager = entry.readers == 0;
        match entry.activity {
            Activity::Queued(place) if !entry.is_fetch_wanted() => {
                entry.activity = Activity::Idle;
                self.queue.remove(&place);
            }
            Activity::Queued(place) if place.is_eager && !is_eager => {
                self.queue.remove(&place);
            }
            Activity::Idle if entry.is_fetch_wanted() => {}
            _ => return,
        }
        if entry.is_fetch_wanted() {
            self.counter += 1;
            let place = QueuePosition { is_eager, number: self.counter };
            entry.activity = Activity::Queued(place);
            self.queue.insert(place, key.clone());
        }
    }

    /// Ends a wait or a place in the queue. A fetch in flight continues.
    fn set_idle(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match entry.activity {
            Activity::Idle | Activity::InFlight { .. } => return,
            Activity::Queued(place) => drop(self.queue.remove(&place)),
            Activity::Waiting { until, .. } => drop(self.retries.remove(&(until, key.clone()))),
        }
        entry.activity = Activity::Idle;
        entry.failures = 0;
    }

    fn renew_lease(&mut self, key: &ObjectKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(until) = entry.leased_until.take() {
            self.leases.remove(&(until, key.clone()));
        }
        if self.config.lease.is_zero() || self.config.max_leases == 0 || entry.references > 0 {
            return;
        }
        let until = now + self.config.lease;
        entry.leased_until = Some(until);
        self.leases.insert((until, key.clone()));
        while self.leases.len() > self.config.max_leases {
            let Some((_, oldest)) = self.leases.pop_first() else { return };
            self.change(&oldest, |entry| entry.leased_until = None);
            self.retire(&oldest);
        }
    }

    /// Removes the entry of an object that is neither referenced nor leased nor read, and its queued fetch.
    fn retire(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get(key) else { return };
        if entry.references > 0 || entry.readers > 0 || entry.leased_until.is_some() {
            return self.schedule(key);
        }
        self.set_idle(key);
        self.entries.remove(key);
    }
}

impl<B: Clone, E> BodyEntry<B, E> {
    fn value(&self) -> Option<B> {
        self.body.as_ref().map(|(_, _, body)| body.clone())
    }

    fn is_fetch_wanted(&self) -> bool {
        self.reflected < self.observed && (self.references > 0 || self.readers > 0)
    }

    /// Records a state of the metadata. The body stays current if its version shows that it was read at this
    /// state or later.
    fn show(&mut self, seen: Option<Version>, epoch: u64) {
        self.observed += 1;
        let goes_back = match (&self.seen, &seen) {
            (Some(before), Some(now)) => before.uid == now.uid && now.version.is_older_than(&before.version),
            _ => false,
        };
        self.seen = seen;
        match (&self.seen, &self.body) {
            (None, _) => {
                self.body = None;
                self.reflected = self.observed;
            }
            (Some(seen), Some((held, read_in, _))) => {
                if !goes_back && *read_in == epoch && held.is_at_least(seen) {
                    self.reflected = self.observed;
                } else if held.uid != seen.uid {
                    // A read that has not returned yet must not take the missing body for a missing object.
                    self.body = None;
                    self.reflected = 0;
                }
            }
            (Some(_), None) => {}
        }
    }

    /// Records the result of a fetch. Returns the error and the shortest wait if the fetch must be repeated
    /// after a wait.
    fn record(
        &mut self,
        result: FetchResult<B, E>,
        (began, began_in): (u64, u64),
        epoch: u64,
    ) -> Option<(Option<E>, Duration)> {
        let Some(seen) = &self.seen else { return None };
        let is_newest = began == self.observed;
        match result {
            FetchResult::Failed(error, retry_after) => {
                self.failures = self.failures.saturating_add(1);
                Some((Some(error), retry_after.unwrap_or_default()))
            }
            _ if began <= self.reflected => None,
            FetchResult::Found(version, body) => {
                self.failures = 0;
                let shows_newest = began_in == epoch && version.is_at_least(seen);
                self.body = Some((version, began_in, body));
                self.reflected = if is_newest || shows_newest { self.observed } else { began };
                None
            }
            FetchResult::Missing => {
                self.body = None;
                self.reflected = began;
                self.failures = if is_newest { self.failures.saturating_add(1) } else { 0 };
                is_newest.then_some((None, Duration::ZERO))
            }
        }
    }
}

impl Version {
    /// Returns whether this is a state of the same object that is known to be equal to `other` or newer.
    fn is_at_least(&self, other: &Self) -> bool {
        self.uid == other.uid
            && !other.version.is_empty()
            && (self.version == other.version
                || self.version.compare(&other.version) == Some(Ordering::Greater))
    }
}

impl<B, E> Default for BodyEntry<B, E> {
    fn default() -> Self {
        Self {
            references: 0,
            readers: 0,
            leased_until: None,
            seen: None,
            observed: 0,
            reflected: 0,
            body: None,
            activity: Activity::Idle,
            failures: 0,
        }
    }
}

/// Returns the wait after the given number of consecutive failures: exponential, with full jitter on top.
fn backoff_of((initial, cap): (Duration, Duration), failures: u32, rng: &mut impl Rng) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    let wait = initial.saturating_mul(factor).min(cap);
    wait + wait.mul_f64(rng.random_range(0.0..1.0))
}

/// Removes the first element of a set of deadlines if it is due.
trait PopDue {
    fn pop_first_if_due(&mut self, now: Instant) -> Option<(Instant, ObjectKey)>;
}

impl PopDue for BTreeSet<(Instant, ObjectKey)> {
    fn pop_first_if_due(&mut self, now: Instant) -> Option<(Instant, ObjectKey)> {
        if self.first().is_some_and(|(at, _)| *at <= now) { self.pop_first() } else { None }
    }
}

#[cfg(test)]
mod tests;
