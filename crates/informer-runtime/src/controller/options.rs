use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_core::deadline::LONGEST;
use informer_workqueue::{Ageing, ExponentialPerItem, RateLimiter, WorkQueue, WorkQueueBuilder};

use crate::{ReconcileRequest, Request};

/// How long a controller waits for its sources, unless told otherwise: a server that is busy answers by then, and a CRD that is
/// installed together with the controller is there.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// How long reconciles that are going on may go on after the controller was told to stop: two thirds of what Kubernetes gives a
/// Pod, so that all else can stop in the rest.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);

/// The first delay of a request that failed.
const RETRY_FIRST: Duration = Duration::from_millis(5);

/// The longest delay of a request that fails again and again.
const RETRY_MAX: Duration = Duration::from_secs(1000);

/// What the controllers of a manager do unless they are told otherwise themselves.
///
/// The value of a [`ControllerOptions`] goes before that of the manager, which goes before the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerDefaults {
    /// How many requests are worked on at once; by default 1.
    pub workers: Option<usize>,
    /// How long a controller waits for its sources; by default two minutes.
    pub sync_timeout: Option<Duration>,
    /// How long one reconcile may take; by default as long as it likes.
    pub reconcile_timeout: Option<Duration>,
    /// Whether a panic of a reconcile counts as an error; by default it does.
    pub recover_panic: Option<bool>,
    /// Whether only the leader runs it; by default it does.
    pub leader_only: Option<bool>,
    /// Whether sources start before leadership; by default they do not.
    pub warm_up: Option<bool>,
    /// Whether requests have priorities; by default they do.
    pub priorities: Option<bool>,
    /// How long reconciles may go on after the stop; by default 20 s.
    pub drain_within: Option<Duration>,
    /// Whether two controllers may have one name; by default they may not.
    pub skip_name_validation: Option<bool>,
    /// Workers by kind: `Kind` in the core group, `Kind.group` in others. A controller of such a kind that says nothing itself has
    /// that many.
    pub workers_by_kind: std::collections::BTreeMap<String, usize>,
}

type GroupOf<R> = dyn for<'r> Fn(&'r R) -> Cow<'r, str> + Send + Sync;

/// What a controller does differently from the defaults of its manager.
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
    pub(super) ageing: Ageing,
    pub(super) group_of: Option<Arc<GroupOf<R>>>,
    pub(super) keys_max: Option<u32>,
}

impl<R: ReconcileRequest> ControllerOptions<R> {
    /// Nothing different.
    pub fn new() -> Self {
        Self {
            own: ControllerDefaults::default(),
            limiter: None,
            ageing: Ageing::default(),
            group_of: None,
            keys_max: None,
        }
    }

    fn set(mut self, change: impl FnOnce(&mut ControllerDefaults)) -> Self {
        change(&mut self.own);
        self
    }

    /// How many requests are worked on at once. 0 counts as 1.
    pub fn workers(self, count: usize) -> Self {
        self.set(|own| own.workers = Some(count))
    }

    /// How long the controller waits for its sources before it fails, and its manager with it.
    pub fn sync_timeout(self, timeout: Duration) -> Self {
        self.set(|own| own.sync_timeout = Some(timeout))
    }

    /// How long one reconcile may take. At the end its future is dropped at its next await, which counts as an error. Zero is
    /// no limit.
    pub fn reconcile_timeout(self, timeout: Duration) -> Self {
        self.set(|own| own.reconcile_timeout = Some(timeout))
    }

    /// Whether a panic of a reconcile is an error like any other. Where it is not, it ends the controller, and its manager with it. So
    /// it is with a panic of the [rate limiter](Self::rate_limiter), and of the function of
    /// [`sharded_by`](crate::ControllerBuilder::sharded_by).
    pub fn recover_panic(self, recover: bool) -> Self {
        self.set(|own| own.recover_panic = Some(recover))
    }

    /// Whether only the leader reconciles.
    pub fn leader_only(self, leader_only: bool) -> Self {
        self.set(|own| own.leader_only = Some(leader_only))
    }

    /// Starts the sources before leadership, so that a new leader begins with full caches and a full queue. Costs each standby the
    /// memory and the watches of the leader.
    pub fn warm_up(self, warm_up: bool) -> Self {
        self.set(|own| own.warm_up = Some(warm_up))
    }

    /// Hands out by priority, so that news come before the first list, which [`Ageing`] keeps from starving.
    pub fn priorities(self, priorities: bool) -> Self {
        self.set(|own| own.priorities = Some(priorities))
    }

    /// How low priorities are kept from starving.
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// How long reconciles that are going on at the stop may go on before they are cancelled.
    pub fn drain_within(self, deadline: Duration) -> Self {
        self.set(|own| own.drain_within = Some(deadline))
    }

    /// Allows another controller of the same name in the manager. Their metrics are added up.
    pub fn skip_name_validation(self) -> Self {
        self.set(|own| own.skip_name_validation = Some(true))
    }

    /// How long a request that failed waits. By default 5 ms, doubled with each failure, at most 1000 s.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<R> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Serves groups in turn, so that a namespace, or a tenant, with many requests does not delay the others.
    pub fn fair_by(
        mut self,
        group_of: impl for<'r> Fn(&'r R) -> Cow<'r, str> + Send + Sync + 'static,
    ) -> Self {
        self.group_of = Some(Arc::new(group_of));
        self
    }

    /// Refuses new requests while the queue holds this many: a bound on its memory. What is refused comes back with the next change
    /// or resync.
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
            .field("ageing", &self.ageing)
            .field("fair", &self.group_of.is_some())
            .field("keys_max", &self.keys_max)
            .finish()
    }
}

/// What holds for one controller, after everything was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) workers: usize,
    pub(super) sync_timeout: Duration,
    pub(super) reconcile_timeout: Option<Duration>,
    pub(super) recover_panic: bool,
    pub(super) leader_only: bool,
    pub(super) warm_up: bool,
    pub(super) priorities: bool,
    pub(super) drain_within: Duration,
    pub(super) skip_name_validation: bool,
}

/// The options of a controller go before those of the manager, these before the defaults.
pub(super) fn resolve(
    own: &ControllerDefaults,
    manager: &ControllerDefaults,
    group_kind: Option<&str>,
) -> Settings {
    let by_kind = group_kind.and_then(|kind| manager.workers_by_kind.get(kind).copied());
    let timeout = own.reconcile_timeout.or(manager.reconcile_timeout);
    Settings {
        workers: own.workers.or(by_kind).or(manager.workers).unwrap_or(1).max(1),
        sync_timeout: own.sync_timeout.or(manager.sync_timeout).unwrap_or(SYNC_TIMEOUT).min(LONGEST),
        reconcile_timeout: timeout.filter(|timeout| !timeout.is_zero()),
        recover_panic: own.recover_panic.or(manager.recover_panic).unwrap_or(true),
        leader_only: own.leader_only.or(manager.leader_only).unwrap_or(true),
        warm_up: own.warm_up.or(manager.warm_up).unwrap_or(false),
        priorities: own.priorities.or(manager.priorities).unwrap_or(true),
        drain_within: own.drain_within.or(manager.drain_within).unwrap_or(DRAIN_WITHIN).min(LONGEST),
        skip_name_validation: own.skip_name_validation.or(manager.skip_name_validation).unwrap_or(false),
    }
}

/// The queue that `options` ask for, without metrics.
pub(super) fn queue<R: ReconcileRequest>(
    options: ControllerOptions<R>,
    settings: &Settings,
) -> WorkQueueBuilder<R> {
    let mut queue = WorkQueue::builder();
    queue = match options.limiter {
        Some(limiter) => queue.rate_limiter(limiter),
        None => queue.rate_limiter(ExponentialPerItem::new(RETRY_FIRST, RETRY_MAX)),
    };
    if settings.priorities {
        queue = queue.priorities(options.ageing);
    }
    if let Some(group_of) = options.group_of {
        queue = queue.fair_by(move |request| group_of(request));
    }
    if let Some(keys) = options.keys_max {
        queue = queue.keys_max(keys);
    }
    queue
}
