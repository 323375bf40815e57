use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::deadline::MAX_WAIT;
use informer_workqueue::{Aging, ExponentialPerItem, RateLimiter, WorkQueue, WorkQueueBuilder};

use crate::{ReconcileRequest, Request};

/// The default sync timeout of sources. It is long enough for a busy server, and for a CRD that is installed
/// together with the controller.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// The default drain time of reconciles. It is two thirds of the default grace period of a Pod, so that the
/// other components can stop in the remaining time.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);

const MIN_RETRY_DELAY: Duration = Duration::from_millis(5);

const MAX_RETRY_DELAY: Duration = Duration::from_secs(1000);

/// The defaults for the controllers of a manager.
///
/// [`ControllerOptions`] take precedence over these values, which take precedence over the built-in defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerDefaults {
    /// The number of workers per controller; 1 by default.
    pub workers: Option<usize>,
    /// The timeout for sources to sync; 2 min by default.
    pub sync_timeout: Option<Duration>,
    /// The timeout of a reconcile; by default there is none.
    pub reconcile_timeout: Option<Duration>,
    /// Whether a panic of a reconcile counts as an error of this reconcile instead of ending the controller;
    /// true by default.
    pub recover_panic: Option<bool>,
    /// Whether only the leader runs the controller; true by default.
    pub leader_only: Option<bool>,
    /// Whether sources start before this process is the leader; false by default.
    pub warm_up: Option<bool>,
    /// Whether requests in the queue have priorities; true by default.
    pub priorities: Option<bool>,
    /// How long running reconciles may continue after the stop of their controller; 20 s by default.
    pub drain_within: Option<Duration>,
    /// Whether the controller records why each request is reconciled; false by default.
    pub record_causes: Option<bool>,
    /// Whether several controllers may have the same name; false by default.
    pub skip_name_validation: Option<bool>,
    /// The number of workers by kind: `Kind` in the core group, `Kind.group` in other groups. It applies to
    /// controllers of that kind that do not set their own number.
    pub workers_by_kind: std::collections::BTreeMap<String, usize>,
}

type GroupOf<R> = dyn for<'r> Fn(&'r R) -> Cow<'r, str> + Send + Sync;

/// The options of a controller; they override the defaults of its manager.
///
/// ```
/// use std::time::Duration;
/// use informer_runtime::{ControllerOptions, Request};
///
/// let options = ControllerOptions::<Request>::new()
///     .workers(4)
///     .reconcile_timeout(Duration::from_secs(30))
///     .fair_by(|request| request.namespace().unwrap_or_default().into());
/// # let _ = options;
/// ```
pub struct ControllerOptions<R: ReconcileRequest = Request> {
    pub(super) own: ControllerDefaults,
    pub(super) limiter: Option<Box<dyn RateLimiter<R>>>,
    pub(super) aging: Aging,
    pub(super) group_of: Option<Arc<GroupOf<R>>>,
    pub(super) keys_max: Option<u32>,
}

impl<R: ReconcileRequest> ControllerOptions<R> {
    /// Creates options that override no default of the manager.
    pub fn new() -> Self {
        Self {
            own: ControllerDefaults::default(),
            limiter: None,
            aging: Aging::default(),
            group_of: None,
            keys_max: None,
        }
    }

    fn set(mut self, change: impl FnOnce(&mut ControllerDefaults)) -> Self {
        change(&mut self.own);
        self
    }

    /// Sets the number of workers, which is the maximum number of concurrent reconciles. 0 counts as 1.
    pub fn workers(self, count: usize) -> Self {
        self.set(|own| own.workers = Some(count))
    }

    /// Sets the timeout for sources to sync. When it elapses, the controller and its manager end with an
    /// error.
    pub fn sync_timeout(self, timeout: Duration) -> Self {
        self.set(|own| own.sync_timeout = Some(timeout))
    }

    /// Sets the timeout of a reconcile. When it elapses, the future of the reconcile is dropped at its next
    /// await, which counts as an error. Zero means no timeout.
    pub fn reconcile_timeout(self, timeout: Duration) -> Self {
        self.set(|own| own.reconcile_timeout = Some(timeout))
    }

    /// Sets whether a panic of a reconcile counts as an error. If not, the panic ends the controller and its
    /// manager. The same applies to panics of the [rate limiter](Self::rate_limiter) and of the function of
    /// [`sharded_by`](crate::ControllerBuilder::sharded_by).
    pub fn recover_panic(self, recover: bool) -> Self {
        self.set(|own| own.recover_panic = Some(recover))
    }

    /// Sets whether only the leader runs the controller, for programs with leader election.
    pub fn leader_only(self, leader_only: bool) -> Self {
        self.set(|own| own.leader_only = Some(leader_only))
    }

    /// Sets whether the sources start before this process is the leader, so that a new leader begins with a
    /// synced cache and a filled queue. Each standby then has the leader's watches and memory use.
    ///
    /// Neither readiness nor the election waits for the warm-up. A new leader waits for the rest of it before
    /// it reconciles. A source that fails, or does not sync within the [timeout](Self::sync_timeout), ends
    /// the controller and its manager, in a standby too.
    pub fn warm_up(self, warm_up: bool) -> Self {
        self.set(|own| own.warm_up = Some(warm_up))
    }

    /// Sets whether requests have priorities, so that changes are handled before initial lists. [`Aging`]
    /// prevents low priorities from starving.
    pub fn priorities(self, priorities: bool) -> Self {
        self.set(|own| own.priorities = Some(priorities))
    }

    /// Sets whether the controller records why each request is reconciled: which objects were added, changed
    /// or deleted, which fields have changed, and resyncs, retries and requeues. [`Context::causes`](crate::Context::causes) returns the
    /// causes, and the tracing span `reconcile` has them in its field `causes`.
    ///
    /// At most 16 causes per request are kept, for at most 65,536 requests, with at most 8 changed fields
    /// each. Recording needs memory for each queued request and a map access for each event, and compares the
    /// two states of each update that enqueues a request. So it is off by default.
    pub fn record_causes(self, record: bool) -> Self {
        self.set(|own| own.record_causes = Some(record))
    }

    /// Sets how the queue prevents requests with a low priority from starving.
    pub fn aging(mut self, aging: Aging) -> Self {
        self.aging = aging;
        self
    }

    /// Sets how long running reconciles may continue after the stop of the controller before they are
    /// cancelled.
    pub fn drain_within(self, deadline: Duration) -> Self {
        self.set(|own| own.drain_within = Some(deadline))
    }

    /// Allows other controllers of the same name in the manager. The metrics of these controllers are summed.
    pub fn skip_name_validation(self) -> Self {
        self.set(|own| own.skip_name_validation = Some(true))
    }

    /// Sets the rate limiter of failed requests. The default delays are 5 ms, doubled with each failure, at
    /// most 1000 s.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<R> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Processes groups of requests round-robin, so that a namespace or tenant with many requests does not
    /// delay others.
    pub fn fair_by(
        mut self,
        group_of: impl for<'r> Fn(&'r R) -> Cow<'r, str> + Send + Sync + 'static,
    ) -> Self {
        self.group_of = Some(Arc::new(group_of));
        self
    }

    /// Rejects new requests while the queue contains this number of requests, which limits its memory. A
    /// rejected request is enqueued again with the next change or resync of the object.
    pub fn keys_max(mut self, keys: u32) -> Self {
        self.keys_max = Some(keys);
        self
    }
}

impl<R: ReconcileRequest> Default for ControllerOptions<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: ReconcileRequest> fmt::Debug for ControllerOptions<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("own", &self.own)
            .field("rate_limiter", &self.limiter.is_some())
            .field("aging", &self.aging)
            .field("fair", &self.group_of.is_some())
            .field("keys_max", &self.keys_max)
            .finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControllerSettings {
    pub(super) workers: usize,
    pub(super) sync_timeout: Duration,
    pub(super) reconcile_timeout: Option<Duration>,
    pub(super) recover_panic: bool,
    pub(super) leader_only: bool,
    pub(super) warm_up: bool,
    pub(super) priorities: bool,
    pub(super) drain_within: Duration,
    pub(super) skip_name_validation: bool,
    pub(super) record_causes: bool,
}

pub(super) fn resolve(
    own: &ControllerDefaults,
    manager: &ControllerDefaults,
    group_kind: Option<&str>,
) -> ControllerSettings {
    let by_kind = group_kind.and_then(|kind| manager.workers_by_kind.get(kind).copied());
    let timeout = own.reconcile_timeout.or(manager.reconcile_timeout);
    ControllerSettings {
        workers: own.workers.or(by_kind).or(manager.workers).unwrap_or(1).max(1),
        sync_timeout: own.sync_timeout.or(manager.sync_timeout).unwrap_or(SYNC_TIMEOUT).min(MAX_WAIT),
        reconcile_timeout: timeout.filter(|timeout| !timeout.is_zero()),
        recover_panic: own.recover_panic.or(manager.recover_panic).unwrap_or(true),
        leader_only: own.leader_only.or(manager.leader_only).unwrap_or(true),
        warm_up: own.warm_up.or(manager.warm_up).unwrap_or(false),
        priorities: own.priorities.or(manager.priorities).unwrap_or(true),
        drain_within: own.drain_within.or(manager.drain_within).unwrap_or(DRAIN_WITHIN).min(MAX_WAIT),
        skip_name_validation: own.skip_name_validation.or(manager.skip_name_validation).unwrap_or(false),
        record_causes: own.record_causes.or(manager.record_causes).unwrap_or(false),
    }
}

/// Creates the work queue of a controller with these options, without metrics.
pub(super) fn queue<R: ReconcileRequest>(
    options: ControllerOptions<R>,
    settings: &ControllerSettings,
) -> WorkQueueBuilder<R> {
    let mut queue = WorkQueue::builder();
    queue = match options.limiter {
        Some(limiter) => queue.rate_limiter(limiter),
        None => queue.rate_limiter(ExponentialPerItem::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY)),
    };
    if settings.priorities {
        queue = queue.priorities(options.aging);
    }
    if let Some(group_of) = options.group_of {
        queue = queue.fair_by(move |request| group_of(request));
    }
    if let Some(keys) = options.keys_max {
        queue = queue.max_keys(keys);
    }
    queue
}
