//! The task behind an election: sends what its state says, and tells it what came back and when.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use informer_client::Client;
use informer_core::panics::panic_text;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::failures::Failure;
use super::health::{LeaseHealth, LeaseUse};
use super::lease::{LeaseLock, Reply};
use super::{ElectionConfigError, LeaderElection, LeaderLost, Leadership, Observer};
use crate::{BoxError, EventRecorder, Runnable, RunnableGroup};
use informer_control::election::{ElectionAction, ElectionNotice, ElectorState};

/// How soon a watch of the Lease that was refused or broke off is tried again. Nothing depends on it: the Lease is looked at
/// all the same.
const WATCH_AGAIN: Duration = Duration::from_secs(30);

/// Takes part in one election. Made by [`LeaderElection::elector`]; a manager makes its own.
#[must_use = "it does nothing until it runs"]
pub struct LeaderElector {
    name: String,
    identity: String,
    request_timeout: Duration,
    state: ElectorState,
    lock: LeaseLock,
    observers: Vec<Observer>,
    leadership: watch::Sender<Leadership>,
    /// Until when a leader's lease holds off others.
    held_until: watch::Sender<Option<Instant>>,
    pub(crate) recorder: Option<EventRecorder>,
    health: Arc<LeaseHealth>,
    #[cfg(feature = "prometheus")]
    pub(crate) status: Option<prometheus_client::metrics::gauge::Gauge>,
}

/// A request on its way; never resolves where there is none.
type InFlight = Option<BoxFuture<'static, Reply>>;

impl LeaderElector {
    pub(crate) fn new(
        election: LeaderElection,
        client: Client,
        leadership: watch::Sender<Leadership>,
    ) -> Result<Self, ElectionConfigError> {
        let identity = election.identity.unwrap_or_else(own_identity);
        let namespace = election.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        ElectionConfigError::check(&election.name, &namespace, &identity, election.times)?;
        let client = if election.share_connections { client } else { client.with_separate_connections() };
        let tolerance = election.times.renew;
        let health =
            LeaseHealth::new(LeaseUse::LeaderElection, &namespace, &election.name, &identity, tolerance);
        Ok(Self {
            health,
            request_timeout: (election.times.renew / 2).max(Duration::from_secs(1)),
            state: ElectorState::new(identity.clone(), election.times, election.release, now()),
            lock: LeaseLock::new(client, &namespace, &election.name),
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

    /// The record of its failures.
    pub(crate) fn health(&self) -> Arc<LeaseHealth> {
        Arc::clone(&self.health)
    }

    /// The label of its metrics.
    #[cfg(feature = "prometheus")]
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        vec![("name", self.name.clone())]
    }

    /// Who this process is in the election.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// A health check that fails while this process believes to lead though its lease has passed: its loop stands still.
    pub(crate) fn check(
        &self,
    ) -> impl Fn() -> std::future::Ready<Result<(), BoxError>> + Send + Sync + 'static {
        let held_until = self.held_until.subscribe();
        move || {
            let passed = held_until.borrow().is_some_and(|until| until < now());
            std::future::ready(if passed {
                Err("the lease has passed without a renewal".into())
            } else {
                Ok(())
            })
        }
    }

    /// Whether this process leads, now and later.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Stands by, leads, and gives the lease back when `stop` is cancelled. By then the leader's work has to have ended.
    ///
    /// # Errors
    ///
    /// When the lease was lost. The work has to end within [`LeaderLost::time_left`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease to expire.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeaderLost> {
        let (hint, mut hints) = mpsc::channel(1);
        let mut watching = Some(watch_lease(self.lock.client().clone(), self.lock.watch(), hint).boxed());
        let mut in_flight: InFlight = None;
        let mut stopping = false;
        // True if the last request has succeeded; the round has, too, unless another request follows.
        let mut succeeded = false;
        loop {
            self.state.tick(now());
            self.held_until.send_replace(self.state.held_until());
            if let Some(end) = self.tell(&mut watching) {
                return end;
            }
            match self.state.poll_action() {
                Some(action) => in_flight = Some(self.send(&action)),
                None if succeeded => self.health.succeeded(),
                None => {}
            }
            succeeded = false;
            // An answer counts before a deadline that passed with it.
            tokio::select! {
                biased;
                reply = reply(&mut in_flight) => {
                    in_flight = None;
                    succeeded = reply.failure.is_none();
                    if let Some(failure) = reply.failure {
                        self.health.failed(failure);
                    }
                    self.lock.keep(reply.lease);
                    self.state.handle_response(reply.answer, now(), rand::random());
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.state.stop(now());
                }
                Some(()) = hints.recv() => self.state.hint(now()),
                () = running(&mut watching) => {}
                () = sleep_until(self.state.next_deadline()) => {}
            }
        }
    }

    fn send(&self, action: &ElectionAction) -> BoxFuture<'static, Reply> {
        let request = self.lock.request(action, Timestamp::now());
        let (client, timeout) = (self.lock.client().clone(), self.request_timeout);
        async move {
            let reply = tokio::time::timeout(timeout, LeaseLock::send(client, request)).await;
            reply.unwrap_or_else(|_| Reply::failed(Failure::timed_out(timeout)))
        }
        .boxed()
    }

    /// Tells what the state has to tell; the end, where it says so.
    fn tell(&mut self, watching: &mut Option<BoxFuture<'static, ()>>) -> Option<Result<(), LeaderLost>> {
        while let Some(notice) = self.state.poll_notice() {
            match notice {
                ElectionNotice::Holder(holder) => {
                    tracing::info!(lease = self.name, holder, "the lease has another holder");
                    self.health.set_holder(&holder);
                    self.observers.iter().for_each(|observer| self.observe(observer, &holder));
                }
                ElectionNotice::Leading(fence) => {
                    tracing::info!(lease = self.name, identity = self.identity, "this process leads");
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

    /// An observer is the program's; its panic must not cost the lease.
    fn observe(&self, observer: &Observer, holder: &str) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(holder))) {
            let panic = panic_text(&*panic);
            tracing::error!(
                lease = self.name,
                panic,
                "an observer of the holder panicked; the election goes on"
            );
        }
    }

    fn publish(&self, leadership: Leadership) {
        // Of one action they would be one series, of which the note of the first is shown.
        let change = match (&leadership, &*self.leadership.borrow()) {
            (Leadership::Leading(_), _) => Some(("BecomeLeader", "became leader")),
            (_, Leadership::Leading(_)) => Some(("StopLeading", "stopped leading")),
            _ => None,
        };
        if let (Some(recorder), Some((action, what))) = (&self.recorder, change) {
            let note = format!("{} {what}", self.identity);
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

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

async fn reply(in_flight: &mut InFlight) -> Reply {
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

/// The name of the host and a random part, as upstream.
pub(crate) fn own_identity() -> String {
    let host = ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    format!("{}_{}", host.as_deref().unwrap_or("process"), uuid::Uuid::new_v4())
}

/// Watches the Lease, and gives a hint for whatever comes.
async fn watch_lease(client: Client, request: http::Request<bytes::Bytes>, hint: mpsc::Sender<()>) {
    loop {
        if let Ok(response) = client.request(request.clone()).await
            && response.status().is_success()
        {
            let mut body = response.into_body();
            while let Some(Ok(_)) = body.frame().await {
                // One hint that waits is as good as many.
                let _ = hint.try_send(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else {
            tokio::time::sleep(WATCH_AGAIN).await;
        }
    }
}
