//! The tokio driver of a [`ReflectorState`]: sends requests, reads streams, waits, and passes the results to
//! the state machine.

use std::any::Any;
use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::{FutureExt, Stream, StreamExt};
use informer_core::Object;
use informer_core::panics::panic_text;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::timeout_at;
use tracing::{Instrument, debug, debug_span, info, warn};

use super::state::{Effects, Input, ListPlan, ReflectorAction, ReflectorNotice, ReflectorState, WatchPlan};
use super::{Reflector, ReflectorPhase, ReflectorStatus};
use crate::Change;
use crate::queue::QueueClosed;
use crate::source::{
    ListRequest, ListStream, SourceContext, SourceError, SourceErrorKind, WatchEvent, WatchRequest,
    WatchStream,
};

pub(super) struct Driver<'a, O: Object> {
    reflector: &'a Reflector<O>,
    state: ReflectorState<O>,
    rng: StdRng,
    open: Open<O>,
    /// True if the last failure was that the source does not have the resource. Only the first of such
    /// failures is a warning, because the wait for a CRD may take long.
    is_missing: bool,
}

enum Open<O: Object> {
    Nothing,
    List(ListStream<O>),
    Watch(WatchReader<O>),
}

/// A watch is busy if data arrives within this time after its last batch was delivered. Only on a busy watch
/// does the reader wait briefly for more events of the same burst.
const LULL: Duration = Duration::from_millis(1);

struct WatchReader<O: Object> {
    stream: WatchStream<O>,
    /// Events of the watch that were received and not delivered yet.
    batch: Vec<WatchEvent<O>>,
    /// The length of `batch` when the reader last yielded to the task of the connection. If the length is
    /// still the same afterwards, no more events are available, and the batch is complete.
    seen: usize,
    /// The time at which the last batch of events was delivered. It shows whether the watch is busy (see
    /// `LULL`).
    last: Option<Instant>,
    /// The end or the failure of the watch's stream. It is kept until the pending batch is delivered.
    end: Option<Input<O>>,
}

impl<'a, O: Object> Driver<'a, O> {
    pub(super) fn new(reflector: &'a Reflector<O>) -> Self {
        // The last resourceVersion that an earlier run of this reflector has seen. The first list of this run
        // must not be older.
        let last_version = reflector.handle.status.borrow().last_version.clone();
        let mut state = ReflectorState::resume(Arc::clone(&reflector.config), now(), last_version);
        state.resume_server(reflector.server.lock().clone());
        let rng = match reflector.config.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => super::jitter(),
        };
        Self { reflector, state, rng, open: Open::Nothing, is_missing: false }
    }

    pub(super) async fn run(mut self) -> Result<(), QueueClosed> {
        self.publish();
        let relist = Arc::clone(&self.reflector.handle.relist);
        while self.state.step().action != ReflectorAction::Done {
            let input = self.next_input(&relist).await;
            self.state.set_streaming_supported(self.reflector.source.supports_streaming_list());
            self.state.set_complete_lists(self.reflector.source.prefers_complete_lists());
            if self.reflector.handle.unordered.load(Ordering::Relaxed) {
                self.state.set_unordered();
            }
            self.is_missing &= !matches!(input, Input::Opened);
            let much = self.is_much(&input);
            let effects = self.state.handle(input, now(), &mut self.rng);
            self.carry_out(effects)?;
            self.publish();
            if much {
                // Yields to other tasks, so that a source that always has more data ready does not block the
                // thread of the runtime.
                yield_now().await;
            }
        }
        Ok(())
    }

    fn is_much(&self, input: &Input<O>) -> bool {
        match input {
            Input::Part(_) => true,
            Input::Events(events) => events.len() >= self.reflector.config.max_batch,
            _ => false,
        }
    }

    async fn next_input(&mut self, relist: &Notify) -> Input<O> {
        let reads_truth = self.state.reads_truth();
        let input = {
            let mut input = pin!(AssertUnwindSafe(self.perform()).catch_unwind());
            loop {
                tokio::select! {
                    // `biased` makes `select!` check for a relist request first. Otherwise a watch that
                    // always has events ready would delay such a request forever.
                    biased;
                    // If a consistent list is already in flight, it also serves this relist request, so it is
                    // not canceled and sent again.
                    () = relist.notified() => if !reads_truth { break Ok(Input::RelistRequested) },
                    input = &mut input => break input,
                }
            }
        };
        input.unwrap_or_else(|panic| self.source_panicked(&*panic))
    }

    /// Turns a panic of the source into a failed request. The stream of the request is dropped, and the next
    /// attempt waits for the backoff.
    fn source_panicked(&mut self, panic: &(dyn Any + Send)) -> Input<O> {
        self.open = Open::Nothing;
        self.reflector.count_panic();
        let text = format!("read {}: the source panicked: {}", self.reflector.config.name, panic_text(panic));
        Input::Failed(SourceError::new(SourceErrorKind::Other, text))
    }

    /// Performs the current step of the state machine. Cancel safe: dropping the future takes no item out of
    /// a stream.
    async fn perform(&mut self) -> Input<O> {
        if self.state.step().action == ReflectorAction::Read {
            self.wait_for_room().await;
        } else {
            self.open = Open::Nothing;
        }
        let until = self.state.step().until.map(tokio::time::Instant::from_std);
        let input = async {
            if !self.state.begins_list() {
                return self.act().await;
            }
            let source = &self.reflector.source;
            if self.state.server().is_some() {
                // The server's version is read first. If it has changed, the list must decode all objects
                // instead of reusing cached ones.
                self.state.set_server(source.server_version().await);
                return self.act().await;
            }
            let (input, server) = tokio::join!(self.act(), source.server_version());
            self.state.set_server(server);
            input
        };
        match until {
            Some(until) => timeout_at(until, input).await.unwrap_or(Input::Timer),
            None => input.await,
        }
    }

    /// Performs the action of the current step, and returns the resulting input of the state machine. The
    /// caller enforces the time limit of the step.
    async fn act(&mut self) -> Input<O> {
        match self.state.step().action {
            ReflectorAction::List(plan) => self.send_list(plan).await,
            ReflectorAction::Watch(plan) => self.send_watch(plan).await,
            ReflectorAction::Read => self.read().await,
            ReflectorAction::Wait | ReflectorAction::Done => std::future::pending().await,
        }
    }

    async fn send_list(&mut self, plan: ListPlan) -> Input<O> {
        let span = debug_span!("list", version = %plan.version, limit = plan.limit);
        let request = ListRequest {
            version: plan.version,
            version_match: plan.version_match,
            limit: plan.limit,
            continue_token: plan.continue_token,
            context: self.context(plan.use_known),
        };
        match self.reflector.source.list(request).instrument(span).await {
            Ok(stream) => {
                self.open = Open::List(stream);
                Input::Opened
            }
            Err(error) => Input::Failed(error),
        }
    }

    async fn send_watch(&mut self, plan: WatchPlan) -> Input<O> {
        let span = debug_span!("watch", version = %plan.version, streaming = plan.send_initial_events);
        let request = WatchRequest {
            version: plan.version,
            bookmarks: true,
            send_initial_events: plan.send_initial_events,
            timeout: plan.timeout,
            context: self.context(plan.use_known),
        };
        match self.reflector.source.watch(request).instrument(span).await {
            Ok(stream) => {
                self.open =
                    Open::Watch(WatchReader { stream, batch: Vec::new(), seen: 0, last: None, end: None });
                Input::Opened
            }
            Err(error) => Input::Failed(error),
        }
    }

    fn context(&self, use_known: bool) -> SourceContext<O> {
        let context = &self.reflector.context;
        if use_known { context.clone() } else { SourceContext::new(None, context.undecodable().clone()) }
    }

    /// Reads the next input from the open stream. Cancel safe: an item that was taken out of the stream is
    /// returned without another await.
    async fn read(&mut self) -> Input<O> {
        match &mut self.open {
            Open::Nothing => Input::Ended,
            Open::List(stream) => match stream.next().await {
                Some(Ok(part)) => Input::Part(part),
                Some(Err(error)) => Input::Failed(error),
                None => Input::Ended,
            },
            Open::Watch(reader) => {
                let max_batch = self.reflector.config.max_batch.max(1);
                poll_fn(|context| reader.poll_batch(max_batch, context)).await
            }
        }
    }

    /// Waits while the queue is full. During the wait nothing is read from the source, which applies
    /// backpressure to it.
    async fn wait_for_room(&mut self) {
        let since = now();
        self.reflector.store.ready().await;
        let now = now();
        let waited = now.saturating_duration_since(since);
        if !waited.is_zero() {
            self.state.held_up(waited, now);
        }
    }

    fn carry_out(&mut self, effects: Effects<O>) -> Result<(), QueueClosed> {
        let reflector = self.reflector;
        let config = &reflector.config;
        if !effects.changes.is_empty() {
            self.reflector.store.push(effects.changes)?;
        }
        if let Some(on_version) = &config.on_version {
            effects.versions.iter().for_each(|version| self.call("on_version", || on_version(version)));
        }
        for notice in effects.notices {
            let was_missing = self.is_missing;
            if let ReflectorNotice::Failed { error, .. } = &notice {
                self.is_missing = error.kind() == SourceErrorKind::NotFound;
            }
            log(&config.name, &notice, was_missing);
            match notice {
                ReflectorNotice::Failed { error, .. } | ReflectorNotice::Recovering(error) => {
                    config.on_error.iter().for_each(|on_error| self.call("on_error", || on_error(&error)));
                }
                ReflectorNotice::StreamingListFailed => self.reflector.source.streaming_list_failed(),
                ReflectorNotice::ResyncDue if self.should_resync() => {
                    self.reflector.store.push(vec![Change::Resync])?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Calls the hook `should_resync`. A panic of the hook counts as `false`, which skips this resync.
    fn should_resync(&self) -> bool {
        let Some(should_resync) = &self.reflector.config.should_resync else { return true };
        self.call("should_resync", || should_resync())
    }

    /// Calls a hook of the reflector's configuration, which is user code. A panic of the hook is counted and
    /// logged, the default value of its result is returned, and the reflector continues.
    fn call<T: Default>(&self, hook: &str, call: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            self.reflector.count_panic();
            let (reflector, panic) = (&*self.reflector.config.name, panic_text(&*panic));
            tracing::error!(reflector, hook, panic, "a hook of the reflector panicked");
            T::default()
        })
    }

    fn publish(&self) {
        publish(&self.reflector.handle.status, self.state.status().clone());
    }
}

/// Sets the phase in the status to `Stopped` after any end of a run, even if the run's future was dropped.
/// Otherwise the status would still report that the reflector is watching.
impl<O: Object> Drop for Driver<'_, O> {
    fn drop(&mut self) {
        let mut status = self.state.status().clone();
        (status.phase, status.next_attempt_at) = (ReflectorPhase::Stopped, None);
        *self.reflector.server.lock() = self.state.server().cloned();
        publish(&self.reflector.handle.status, status);
    }
}

impl<O: Object> WatchReader<O> {
    /// Returns all available events of a watch, at most `max_batch`. If the stream has ended, its end is
    /// returned after the last event.
    ///
    /// An HTTP connection delivers one part of its body and waits until that part is consumed. The reader
    /// therefore yields once after each part, and the batch is complete only if no more events arrived
    /// meanwhile. A burst then passes through the queue, the store and the handlers as one batch. An event
    /// that arrives after a pause is delivered immediately.
    fn poll_batch(&mut self, max_batch: usize, context: &mut Context<'_>) -> Poll<Input<O>> {
        while self.end.is_none() && self.batch.len() < max_batch {
            match self.stream.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(event))) => {
                    if self.batch.is_empty() {
                        self.batch.reserve_exact(self.stream.size_hint().0.saturating_add(1).min(max_batch));
                    }
                    self.batch.push(event);
                }
                Poll::Ready(Some(Err(error))) => self.end = Some(Input::Failed(error)),
                Poll::Ready(None) => self.end = Some(Input::Ended),
                Poll::Pending if self.batch.is_empty() => return Poll::Pending,
                Poll::Pending if self.batch.len() > self.seen && self.is_busy() => {
                    self.seen = self.batch.len();
                    // The first poll of `yield_now` requests a wake-up after all runnable tasks of this
                    // thread have run. Waking the task's own waker would instead make another thread of the
                    // runtime run the task.
                    ready!(pin!(yield_now()).poll(context));
                }
                Poll::Pending => break,
            }
        }
        self.seen = 0;
        match self.end.take() {
            Some(end) if self.batch.is_empty() => Poll::Ready(end),
            end => {
                (self.end, self.last) = (end, Some(now()));
                Poll::Ready(Input::Events(std::mem::take(&mut self.batch)))
            }
        }
    }

    /// Returns true if the last batch of the watch was delivered less than `LULL` ago. More events are then
    /// likely to follow soon, so that it is worthwhile to wait for them.
    fn is_busy(&self) -> bool {
        self.last.is_some_and(|last| now().saturating_duration_since(last) < LULL)
    }
}

fn publish(sender: &watch::Sender<ReflectorStatus>, status: ReflectorStatus) {
    sender.send_if_modified(|shown| {
        let differs = shown.differs(&status);
        *shown = status;
        differs
    });
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Logs a notice of the state machine. Warnings contain the name of the reflector, since the span with that
/// name is recorded only at INFO. `was_missing` is true if the source did not have the resource before
/// either.
fn log(reflector: &str, notice: &ReflectorNotice, was_missing: bool) {
    match notice {
        ReflectorNotice::Relist(reason) => debug!(reason = reason.as_str(), "listing"),
        ReflectorNotice::Failed { error, .. } if error.kind() == SourceErrorKind::NotFound => {
            if was_missing {
                debug!(reflector, error = %error, "still missing, waiting");
            } else {
                let remedy = "a custom kind is installed with `kubectl apply -f CRD.yaml`";
                warn!(reflector, error = %error, remedy, "the kind is missing on the server, waiting for it");
            }
        }
        ReflectorNotice::Failed { error, retry_after } => {
            let kind = error.kind().as_str();
            warn!(reflector, error = %error, kind, ?retry_after, "failed, waiting");
        }
        ReflectorNotice::Recovering(error) => info!(error = %error, "failed, retrying immediately"),
        ReflectorNotice::StreamingListFailed => {
            info!("the source does not support or complete streaming lists")
        }
        ReflectorNotice::StaleList { version, seen } => {
            warn!(
                reflector,
                %version,
                %seen,
                "a list was older than the last seen version; requesting a consistent list"
            );
        }
        ReflectorNotice::Rewound { version, seen } => {
            warn!(reflector, %version, %seen, "the server's resourceVersion regressed; applying its state");
        }
        ReflectorNotice::Duplicates(count) => warn!(reflector, count, "a list had duplicate keys"),
        ReflectorNotice::SilentWatch => {
            warn!(reflector, "a watch was silent past its timeout; resuming from the last version");
        }
        ReflectorNotice::UnknownEvent(event_type) => {
            warn!(reflector, event_type, "skipping an event of an unknown type");
        }
        ReflectorNotice::ResyncDue => debug!("resync"),
    }
}
