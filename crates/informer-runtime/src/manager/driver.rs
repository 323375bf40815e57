//! The task behind a manager: runs what its state says, and tells it what happened.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::error::ALSO_MAX;
use super::handle::{Added, DriverEnd};
use super::state::{Effect, ManagerState, PartId};
use super::{ManagerError, ManagerHandle, ManagerStatus, Options, PartError};
use crate::{BoxError, Leadership, Runnable, RunnableGroup};

/// What a part gets beyond its time for being ready, so that its own error, which knows more, comes first.
const READY_GRACE: Duration = Duration::from_secs(1);

/// A part that became ready, or did not.
type Readiness = (PartId, Result<(), PartError>);

pub(super) async fn run<S: Future>(
    handle: ManagerHandle,
    mut end: DriverEnd,
    options: Options,
    stop: S,
) -> Result<(), ManagerError> {
    let (ready, mut became_ready) = mpsc::unbounded_channel();
    let mut driver = Driver::new(handle.clone(), options, ready);
    let mut leadership = handle.leadership();
    let mut stop = pin!(stop);
    while let Ok(part) = end.added.try_recv() {
        driver.add(part);
    }
    driver.state.start();
    driver.apply();
    while !driver.finished {
        // What has ended counts before what is new, and a stop before further starts.
        tokio::select! {
            biased;
            Some(ended) = driver.tasks.join_next_with_id() => driver.joined(ended),
            Some(readiness) = became_ready.recv() => driver.readiness(readiness),
            _ = &mut stop, if !driver.state.is_stopping() => driver.stop(driver.options.stop_timeout),
            () = handle.shared.stop.cancelled(), if !driver.state.is_stopping() => {
                driver.stop(driver.options.stop_timeout);
            }
            Ok(()) = leadership.changed() => driver.leadership(&leadership.borrow_and_update().clone()),
            Some(part) = end.added.recv() => driver.add(part),
            Some(ping) = end.pings.recv() => drop(ping.send(())),
            () = sleep_until(driver.state.next_deadline()) => driver.state.tick(now()),
        }
        driver.apply();
    }
    driver.outcome()
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

struct Driver {
    handle: ManagerHandle,
    options: Options,
    state: ManagerState,
    waiting: HashMap<PartId, Box<dyn Runnable>>,
    tasks: JoinSet<Result<(), BoxError>>,
    parts: HashMap<task::Id, PartId>,
    aborts: HashMap<PartId, AbortHandle>,
    stops: [CancellationToken; RunnableGroup::ALL.len()],
    ready: mpsc::UnboundedSender<Readiness>,
    first: Option<PartError>,
    also: Vec<PartError>,
    unstopped: Vec<String>,
    finished: bool,
    serves_webhooks: bool,
}

impl Driver {
    fn new(handle: ManagerHandle, options: Options, ready: mpsc::UnboundedSender<Readiness>) -> Self {
        if !options.elects {
            handle.shared.leadership.send_replace(Leadership::Unopposed);
        }
        Self {
            handle,
            state: ManagerState::new(options.elects),
            options,
            waiting: HashMap::new(),
            tasks: JoinSet::new(),
            parts: HashMap::new(),
            aborts: HashMap::new(),
            stops: std::array::from_fn(|_| CancellationToken::new()),
            ready,
            first: None,
            also: Vec::new(),
            unstopped: Vec::new(),
            finished: false,
            serves_webhooks: false,
        }
    }

    fn add(&mut self, added: Added) {
        self.serves_webhooks |= added.group == RunnableGroup::Webhooks;
        // A part that came just before the manager was told to stop is dropped, as those are that wait for their group.
        if let Some(id) = self.state.add(added.name, added.group) {
            self.waiting.insert(id, added.part);
        }
    }

    fn leadership(&mut self, leadership: &Leadership) {
        if leadership.is_leading() {
            self.state.elected();
        }
    }

    fn readiness(&mut self, (id, result): Readiness) {
        match result {
            Ok(()) => self.state.ready(id),
            Err(error) => self.fail(error),
        }
    }

    fn joined(&mut self, ended: Result<(task::Id, Result<(), BoxError>), JoinError>) {
        let (task, result) = match ended {
            Ok((task, result)) => (task, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(id) = self.parts.remove(&task) else { return };
        self.aborts.remove(&id);
        let name = self.state.name(id).unwrap_or_default().to_owned();
        tracing::debug!(part = name, "a part of the manager has ended");
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(PartError::failed(name, error)),
            Err(error) => match error.try_into_panic() {
                Ok(payload) => self.fail(PartError::panicked(name, &*payload)),
                Err(_) => tracing::warn!(
                    part = name,
                    "dropped: the lease is left to expire, since leader-only work goes on"
                ),
            },
        }
        self.state.ended(id);
    }

    /// The first error ends all; errors after it, or while stopping, are told as well.
    fn fail(&mut self, error: PartError) {
        tracing::error!(
            part = error.name(),
            error = &error as &dyn std::error::Error,
            "a part of the manager failed"
        );
        let timeout = error.lease_left().unwrap_or(Duration::MAX).min(self.options.stop_timeout);
        if self.first.is_none() && !self.state.is_stopping() {
            self.first = Some(error);
        } else if self.also.len() < ALSO_MAX {
            self.also.push(error);
        }
        self.stop(timeout);
    }

    fn stop(&mut self, timeout: Duration) {
        self.handle.close();
        self.options.stop_timeout = self.options.stop_timeout.min(timeout);
        self.state.stop(now(), timeout);
    }

    fn apply(&mut self) {
        while let Some(effect) = self.state.poll_effect() {
            match effect {
                Effect::Start(id) => self.start(id),
                Effect::Stop(group) => self.stops[group as usize].cancel(),
                Effect::Abandon(group) => {
                    let members = self.aborts.iter().filter(|(id, _)| self.state.group(**id) == Some(group));
                    members.for_each(|(_, task)| task.abort());
                }
                Effect::Finish => self.finish(),
            }
        }
        self.publish();
    }

    fn start(&mut self, id: PartId) {
        let (Some(part), Some(group)) = (self.waiting.remove(&id), self.state.group(id)) else { return };
        let name = self.state.name(id).unwrap_or_default().to_owned();
        tracing::debug!(part = name, ?group, "starting a part of the manager");
        let stop = self.stops[group as usize].child_token();
        let times = (self.options.start_timeout, READY_GRACE);
        let task = self.tasks.spawn(run_part(part, (id, name), stop, times, self.ready.clone()));
        self.parts.insert(task.id(), id);
        self.aborts.insert(id, task);
    }

    fn finish(&mut self) {
        self.finished = true;
        self.unstopped.extend(self.state.running().map(str::to_owned));
        self.tasks.abort_all();
    }

    /// Tells who asks what the manager does.
    fn publish(&self) {
        let status = match () {
            () if self.finished => ManagerStatus::Stopped,
            () if self.state.is_stopping() => ManagerStatus::Stopping,
            () if self.state.is_ready(RunnableGroup::LeaderElection) => ManagerStatus::Running,
            () => ManagerStatus::Starting,
        };
        // A server may need webhooks to answer the caches, and sends them nothing before they are ready.
        let needed = if self.serves_webhooks { RunnableGroup::Webhooks } else { RunnableGroup::WarmUp };
        self.handle.shared.ready.store(self.state.is_ready(needed), Ordering::Release);
        self.handle.shared.status.send_if_modified(|old| std::mem::replace(old, status.clone()) != status);
    }

    fn outcome(self) -> Result<(), ManagerError> {
        if self.first.is_none() && self.also.is_empty() && self.unstopped.is_empty() {
            return Ok(());
        }
        let timeout = self.options.stop_timeout;
        let Self { first, also, unstopped, .. } = self;
        Err(ManagerError { first: first.map(Box::new), also, unstopped, timeout })
    }
}

/// Runs a part, and says when it is ready. One that is not ready in time goes on until it is stopped in its turn.
async fn run_part(
    part: Box<dyn Runnable>,
    (id, name): (PartId, String),
    stop: CancellationToken,
    (timeout, grace): (Duration, Duration),
    readiness: mpsc::UnboundedSender<Readiness>,
) -> Result<(), BoxError> {
    let ready = part.ready(timeout);
    let mut run = part.run(stop);
    let ready = async {
        match ready {
            Some(ready) => match tokio::time::timeout(timeout.saturating_add(grace), ready).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(PartError::not_ready(name, error)),
                Err(_) => Err(PartError::not_ready_in(name, timeout)),
            },
            None => Ok(()),
        }
    };
    tokio::select! {
        biased;
        ended = &mut run => return ended,
        ready = ready => {
            let _ = readiness.send((id, ready));
        }
    }
    run.await
}
