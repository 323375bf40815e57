//! The task of an election candidate. The task sends the requests of the election's state machine and passes
//! the responses to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_client::Client;
use informer_core::panics::panic_text;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::candidate::LeaseCandidate;
use super::failures::Failure;
use super::health::{LeaseHealth, LeaseUse};
use super::lease::{LeaseLock, LeaseReply};
use super::{ElectionConfigError, LeaderElection, LeaderLost, Leadership, Observer};
use crate::api_request::watch_with_hints;
use crate::clock::{now, sleep_until};
use crate::random::{jitter, uuid};
use crate::{BoxError, EventRecorder, Runnable, RunnableGroup};
use informer_control::election::{ElectionAction, ElectionNotice, ElectorState};

/// A candidate in a leader election. [`LeaderElection::elector`] creates it for use without a manager; a
/// manager with leader election creates its own.
#[must_use = "call `run`, or it does nothing"]
pub struct LeaderElector {
    name: String,
    identity: String,
    request_timeout: Duration,
    state: ElectorState,
    lock: LeaseLock,
    /// The candidate of a coordinated election, which runs with the elector.
    candidate: Option<LeaseCandidate>,
    observers: Vec<Observer>,
    leadership: watch::Sender<Leadership>,
    /// The time until which the lease of this leader excludes other candidates; `None` if this process is not
    /// the leader. A health check reads it.
    held_until: watch::Sender<Option<Instant>>,
    pub(crate) recorder: Option<EventRecorder>,
    health: Arc<LeaseHealth>,
    #[cfg(feature = "prometheus")]
    pub(crate) status: Option<prometheus_client::metrics::gauge::Gauge>,
}

type PendingReply = Option<BoxFuture<'static, LeaseReply>>;

impl LeaderElector {
    pub(crate) fn new(
        election: LeaderElection,
        client: Client,
        leadership: watch::Sender<Leadership>,
    ) -> Result<Self, ElectionConfigError> {
        let client = election.client.unwrap_or(client);
        let is_coordinated = election.coordination.is_some();
        let identity = election.identity.unwrap_or_else(|| {
            let identity = own_identity();
            // The identity is the name of the LeaseCandidate.
            if is_coordinated { identity.replace('_', "-").to_lowercase() } else { identity }
        });
        let namespace = election.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let candidate = (&*identity, is_coordinated);
        ElectionConfigError::check(&election.name, &namespace, candidate, election.times)?;
        let client = if election.share_connections { client } else { client.with_separate_connections() };
        let tolerance = election.times.renew;
        let candidate = election.coordination.map(|coordination| {
            LeaseCandidate::new(client.clone(), &namespace, (&election.name, &identity), coordination)
        });
        let state = ElectorState::new(identity.clone(), election.times, election.release, now());
        let health =
            LeaseHealth::new(LeaseUse::LeaderElection, &namespace, &election.name, &identity, tolerance);
        Ok(Self {
            health,
            request_timeout: (election.times.renew / 2).max(Duration::from_secs(1)),
            state: if is_coordinated { state.coordinated() } else { state },
            candidate,
            lock: LeaseLock::new(client, &namespace, &election.name, election.labels),
            name: election.name,
            identity,
            observers: election.observers,
            leadership,
            held_until: watch::Sender::new(None),
            recorder: None,
            #[cfg(feature = "prometheus")]
            status: None,
        })
    }

    pub(crate) fn health(&self) -> Arc<LeaseHealth> {
        Arc::clone(&self.health)
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        vec![("name", self.name.clone())]
    }

    /// Returns the identity under which this process takes part in the election.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Adds a health check that fails if this process still considers itself the leader although its lease
    /// has expired. The cause is a blocked task: the election's loop could not give up leadership in time.
    pub(crate) fn check(
        &self,
    ) -> impl Fn() -> std::future::Ready<Result<(), BoxError>> + Send + Sync + 'static {
        let held_until = self.held_until.subscribe();
        move || {
            let passed = held_until.borrow().is_some_and(|until| until < now());
            std::future::ready(if passed {
                Err("the lease has expired without a renewal".into())
            } else {
                Ok(())
            })
        }
    }

    /// Returns a receiver of this process's current role in the election.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Acquires and renews the lease until `stop` is cancelled, then releases it. The leader-only work must
    /// have ended before `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// Returns an error if the lease was lost. The leader-only work must then end within
    /// [`LeaderLost::time_left`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not release the lease, which then expires.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeaderLost> {
        let candidate = self.candidate.take();
        let own = candidate.as_ref().map(|own| (self.lock.client().clone(), own.own_path()));
        let candidate = candidate.map(|candidate| candidate.run().boxed());
        let end = self.elect(stop, candidate).await;
        // A lost lease must be reported at once. The coordinator notices by itself that the candidate has
        // ended.
        if let (Ok(()), Some((client, path))) = (&end, own) {
            LeaseCandidate::remove(client, path).await;
        }
        end
    }

    async fn elect(
        mut self,
        stop: CancellationToken,
        mut candidate: Option<BoxFuture<'static, ()>>,
    ) -> Result<(), LeaderLost> {
        let (hint, mut hints) = mpsc::channel(1);
        let mut watching =
            Some(watch_with_hints(self.lock.client().clone(), self.lock.watch(), hint).boxed());
        let mut in_flight: PendingReply = None;
        let mut stopping = false;
        // True if the last request to the API server succeeded. If the state machine then sends no further
        // request, the whole attempt to acquire or renew the lease has succeeded, so the streak of failures
        // ends.
        let mut succeeded = false;
        loop {
            self.state.tick(now());
            self.held_until.send_replace(self.state.held_until());
            if let Some(end) = self.handle_notices(&mut watching) {
                return end;
            }
            match self.state.poll_action() {
                Some(action) => in_flight = Some(self.send(&action)),
                None if succeeded => self.health.succeeded(),
                None => {}
            }
            succeeded = false;
            // The branches are polled in order. If a response and a deadline are ready at the same time, the
            // response is handled first, so that a renewal in time is not lost.
            tokio::select! {
                biased;
                reply = reply(&mut in_flight) => {
                    in_flight = None;
                    succeeded = reply.failure.is_none();
                    if let Some(failure) = reply.failure {
                        self.health.failed(failure);
                    }
                    self.lock.keep(reply.lease);
                    self.state.handle_response(reply.response, now(), jitter());
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.state.stop(now());
                }
                Some(()) = hints.recv() => self.state.hint(now()),
                () = running(&mut watching) => {}
                () = running(&mut candidate) => {}
                () = sleep_until(self.state.next_deadline()) => {}
            }
        }
    }

    fn send(&self, action: &ElectionAction) -> BoxFuture<'static, LeaseReply> {
        let request = self.lock.request(action, Timestamp::now());
        let (client, timeout) = (self.lock.client().clone(), self.request_timeout);
        async move {
            let reply = tokio::time::timeout(timeout, LeaseLock::send(client, request)).await;
            reply.unwrap_or_else(|_| LeaseReply::failed(Failure::timed_out(timeout)))
        }
        .boxed()
    }

    /// Handles the notices of the election's state machine: a new holder, and gained or lost leadership.
    /// Returns the result of the election if it has ended.
    fn handle_notices(
        &mut self,
        watching: &mut Option<BoxFuture<'static, ()>>,
    ) -> Option<Result<(), LeaderLost>> {
        while let Some(notice) = self.state.poll_notice() {
            match notice {
                ElectionNotice::Holder(holder) => {
                    tracing::info!(lease = self.name, holder, "the holder of the lease changed");
                    self.health.set_holder(&holder);
                    self.observers.iter().for_each(|observer| self.observe(observer, &holder));
                }
                ElectionNotice::Leading(fence) => {
                    tracing::info!(
                        lease = self.name,
                        identity = self.identity,
                        "this process became the leader"
                    );
                    *watching = None;
                    self.publish(Leadership::Leading(fence));
                }
                ElectionNotice::Lost(lost) => {
                    self.publish(Leadership::Ended);
                    return Some(Err(lost));
                }
                ElectionNotice::Stopped => {
                    self.publish(Leadership::Ended);
                    return Some(Ok(()));
                }
            }
        }
        None
    }

    /// Calls a function that the program has set to observe holders of the lease. If the function panics, the
    /// election continues, so that the leader does not lose its lease.
    fn observe(&self, observer: &Observer, holder: &str) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(holder))) {
            let panic = panic_text(&*panic);
            tracing::error!(
                lease = self.name,
                panic,
                "the `on_holder` function panicked; the election continues"
            );
        }
    }

    fn publish(&self, leadership: Leadership) {
        // Becoming and ceasing to be the leader are recorded as events with different actions. Events with
        // the same action would form one series, which contains only the note of its first event.
        let change = match (&leadership, &*self.leadership.borrow()) {
            (Leadership::Leading(_), _) => Some(("BecomeLeader", "became leader")),
            (_, Leadership::Leading(_)) => Some(("StopLeading", "stopped leading")),
            _ => None,
        };
        if let (Some(recorder), Some((action, change))) = (&self.recorder, change) {
            let note = format!("{} {change}", self.identity);
            recorder.normal(self.lock.subject(), "LeaderElection", action, note);
        }
        #[cfg(feature = "prometheus")]
        if let Some(status) = &self.status {
            status.set(i64::from(leadership.is_leading()));
        }
        self.health.set_active(leadership.is_leading());
        self.leadership.send_replace(leadership);
    }
}

impl Runnable for LeaderElector {
    fn name(&self) -> String {
        format!("leader election on {}", self.name)
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::LeaderElection
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        (*self).run(stop).map(|ended| ended.map_err(Into::into)).boxed()
    }
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LeaderElector");
        debug.field("lease", &self.name).field("identity", &self.identity).finish_non_exhaustive()
    }
}

async fn reply(in_flight: &mut PendingReply) -> LeaseReply {
    match in_flight {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

async fn running(watching: &mut Option<BoxFuture<'static, ()>>) {
    match watching {
        Some(watching) => watching.await,
        None => std::future::pending().await,
    }
}

/// Returns the default identity of a candidate: the host name with a random suffix, as in client-go.
pub(crate) fn own_identity() -> String {
    let host = ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    format!("{}_{}", host.as_deref().unwrap_or("process"), uuid())
}
