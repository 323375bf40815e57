//! The task of a manager. It applies the effects that the manager's state machine requests (start, cancel or
//! drop runnables), and reports the results to the state machine.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::error::MAX_LATER_ERRORS;
use super::handle::{AddedRunnable, DriverEnd};
use super::state::{Effect, ManagerState, RunnableId};
use super::{ManagerError, ManagerHandle, ManagerStatus, Options, RunnableError};
use crate::{BoxError, Leadership, Runnable, RunnableGroup};

/// The manager waits for a runnable to become ready for the start timeout plus this time. The runnable can
/// then return its own error at the timeout, which is more specific than that of the manager.
const READY_GRACE: Duration = Duration::from_secs(1);

/// A message to the driver: the id of a runnable, and whether it became ready or failed to.
type Readiness = (RunnableId, Result<(), RunnableError>);

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
    while let Ok(runnable) = end.added.try_recv() {
        driver.add(runnable);
    }
    driver.state.start();
    driver.apply();
    while !driver.finished {
        // The branches are polled in this order: the ends of runnables come before runnables that were added,
        // and a requested stop before further starts.
        tokio::select! {
            biased;
            Some(ended) = driver.tasks.join_next_with_id() => driver.joined(ended),
            Some(readiness) = became_ready.recv() => driver.readiness(readiness),
            _ = &mut stop, if !driver.state.is_stopping() => driver.stop(driver.options.stop_timeout),
            () = handle.shared.stop.cancelled(), if !driver.state.is_stopping() => {
                driver.stop(driver.options.stop_timeout);
            }
            Ok(()) = leadership.changed() => driver.leadership(&leadership.borrow_and_update().clone()),
            Some(runnable) = end.added.recv() => driver.add(runnable),
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
    waiting: HashMap<RunnableId, Box<dyn Runnable>>,
    tasks: JoinSet<Result<(), BoxError>>,
    runnables: HashMap<task::Id, RunnableId>,
    aborts: HashMap<RunnableId, AbortHandle>,
    stops: [CancellationToken; RunnableGroup::ALL.len()],
    ready: mpsc::UnboundedSender<Readiness>,
    first: Option<RunnableError>,
    later_errors: Vec<RunnableError>,
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
            runnables: HashMap::new(),
            aborts: HashMap::new(),
            stops: std::array::from_fn(|_| CancellationToken::new()),
            ready,
            first: None,
            later_errors: Vec::new(),
            unstopped: Vec::new(),
            finished: false,
            serves_webhooks: false,
        }
    }

    fn add(&mut self, added: AddedRunnable) {
        self.serves_webhooks |= added.group == RunnableGroup::Webhooks;
        // `ManagerState::add` returns `None` if the manager is stopping. A runnable that was added
        // immediately before the stop is then dropped without being started.
        if let Some(id) = self.state.add(added.name, added.group) {
            self.waiting.insert(id, added.runnable);
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
        let Some(id) = self.runnables.remove(&task) else { return };
        self.aborts.remove(&id);
        let name = self.state.name(id).unwrap_or_default().to_owned();
        tracing::debug!(runnable = name, "a runnable has ended");
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(RunnableError::failed(name, error)),
            Err(error) => match error.try_into_panic() {
                Ok(payload) => self.fail(RunnableError::panicked(name, &*payload)),
                Err(_) => tracing::warn!(
                    runnable = name,
                    "dropping the elector, so that the lease expires: leader-only runnables are still running"
                ),
            },
        }
        self.state.ended(id);
    }

    /// Handles the error of a runnable. The first error stops the manager. Later ones, from runnables that
    /// fail while they stop, are kept for the error of the manager.
    fn fail(&mut self, error: RunnableError) {
        tracing::error!(
            runnable = error.name(),
            error = &error as &dyn std::error::Error,
            "a runnable failed"
        );
        let timeout = error.lease_left().unwrap_or(Duration::MAX).min(self.options.stop_timeout);
        if self.first.is_none() && !self.state.is_stopping() {
            self.first = Some(error);
        } else if self.later_errors.len() < MAX_LATER_ERRORS {
            self.later_errors.push(error);
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

    fn start(&mut self, id: RunnableId) {
        let (Some(runnable), Some(group)) = (self.waiting.remove(&id), self.state.group(id)) else { return };
        let name = self.state.name(id).unwrap_or_default().to_owned();
        tracing::debug!(runnable = name, ?group, "starting a runnable");
        let stop = self.stops[group as usize].child_token();
        let times = (self.options.start_timeout, READY_GRACE);
        let task = self.tasks.spawn(run_runnable(runnable, (id, name), stop, times, self.ready.clone()));
        self.runnables.insert(task.id(), id);
        self.aborts.insert(id, task);
    }

    fn finish(&mut self) {
        self.finished = true;
        self.unstopped.extend(self.state.running().map(str::to_owned));
        self.tasks.abort_all();
    }

    fn publish(&self) {
        let status = match () {
            () if self.finished => ManagerStatus::Stopped,
            () if self.state.is_stopping() => ManagerStatus::Stopping,
            () if self.state.is_ready(RunnableGroup::LeaderElection) => ManagerStatus::Running,
            () => ManagerStatus::Starting,
        };
        // The flag `ready` is the result of the health check `started`. If the manager has webhooks, the
        // check succeeds when they have started. An API server may need these webhooks to serve the caches,
        // and it sends no requests to a pod that is not ready.
        let needed = if self.serves_webhooks { RunnableGroup::Webhooks } else { RunnableGroup::WarmUp };
        self.handle.shared.ready.store(self.state.is_ready(needed), Ordering::Release);
        self.handle.shared.status.send_if_modified(|old| std::mem::replace(old, status.clone()) != status);
    }

    fn outcome(self) -> Result<(), ManagerError> {
        if self.first.is_none() && self.later_errors.is_empty() && self.unstopped.is_empty() {
            return Ok(());
        }
        let timeout = self.options.stop_timeout;
        let Self { first, later_errors, unstopped, .. } = self;
        Err(ManagerError { first: first.map(Box::new), later_errors, unstopped, timeout })
    }
}

/// Runs a runnable to its end, and sends its readiness once to the driver. A runnable that is not ready in
/// time is reported as an error, and keeps running until the driver stops its group.
async fn run_runnable(
    runnable: Box<dyn Runnable>,
    (id, name): (RunnableId, String),
    stop: CancellationToken,
    (timeout, grace): (Duration, Duration),
    readiness: mpsc::UnboundedSender<Readiness>,
) -> Result<(), BoxError> {
    let ready = runnable.ready(timeout);
    let mut run = runnable.run(stop);
    let ready = async {
        match ready {
            Some(ready) => match tokio::time::timeout(timeout.saturating_add(grace), ready).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(RunnableError::not_ready(name, error)),
                Err(_) => Err(RunnableError::not_ready_in(name, timeout)),
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
