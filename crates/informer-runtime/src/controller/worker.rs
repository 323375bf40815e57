//! A worker of a controller: takes a request, reconciles it, and acts on the outcome.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use informer_cache::reflector::MAX_RETRY_AFTER;
use informer_control::controller::{self as state, Requeue, RequeueDecision};
use informer_core::panics::panic_text;
use informer_workqueue::Item;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument;

use super::context::ControllerContext;
use super::engine::Engine;
use super::metrics::ReconcileResult;
use super::outcome::{ReconcilePanic, ReconcileTimeout};
use super::sharded::EnterError;
use super::{Context, ControllerError, Outcome, ReconcileError, ReconcileId};
use crate::causes::{ActiveReconcile, CauseLog, ReconcileEnd};
use crate::{Causes, OwnedKey, ReconcileCause, ReconcileRequest};

pub(super) struct WorkerSlot<R>(Mutex<Option<(R, Instant)>>);

impl<R> Default for WorkerSlot<R> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<R: ReconcileRequest> WorkerSlot<R> {
    fn set(&self, work: (R, Instant)) {
        let before = self.0.lock().replace(work);
        drop(before);
    }

    fn take(&self) -> Option<R> {
        self.0.lock().take().map(|(request, _)| request)
    }

    fn get(&self) -> Option<(R, Instant)> {
        self.0.lock().clone()
    }

    #[cfg(feature = "console")]
    pub(super) fn running(&self) -> Option<R> {
        self.get().map(|(request, _)| request)
    }

    pub(super) fn request(&self) -> Option<String> {
        self.get().map(|(request, _)| request.to_string())
    }

    pub(super) fn busy(&self) -> Option<(String, Duration)> {
        self.get().map(|(request, since)| (request.to_string(), since.elapsed()))
    }
}

enum CallResult {
    Returned(Result<Outcome, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

pub(super) async fn work<R: ReconcileRequest>(
    engine: Arc<Engine<R>>,
    slot: usize,
) -> Result<(), ControllerError> {
    let mut next = engine.queue.get().await;
    while let Some(item) = next {
        let done = if engine.accepts_requests() {
            process(&engine, slot, item).await?
        } else {
            // After the stop of the controller, a queued request is marked as done without a reconcile. It is
            // not lost, since the next run lists all objects again.
            Some(item)
        };
        next = match done {
            Some(mut item) => item.done_then_next().await.then_some(item),
            None => {
                // The worker yields to other tasks regularly. Otherwise a queue that is never empty and a
                // reconciler that never waits would block the thread.
                tokio::task::coop::consume_budget().await;
                engine.queue.get().await
            }
        };
    }
    Ok(())
}

/// Processes one request. If its queue item only needs to be marked as done, the item is returned, so that
/// the worker can do that and take the next item in one step.
async fn process<R: ReconcileRequest>(
    engine: &Engine<R>,
    slot: usize,
    item: Item<R>,
) -> Result<Option<Item<R>>, ControllerError> {
    let log = engine.causes();
    let taken = log.and_then(|log| Some((log, log.take_recorded(item.key())?)));
    let entered = match engine.sharded.as_ref().map(|sharded| sharded.enter(item.key())).transpose() {
        Ok(owned) => Ok(owned.map(Arc::new)),
        Err(EnterError::KeyPanicked(message)) => Err(message),
        Err(EnterError::Refused(gained)) => {
            // Another replica reconciles the key now.
            #[cfg(feature = "console")]
            log.inspect(|log| log.note_result(item.key(), false));
            item.forget();
            item.done();
            if let Some(request) = gained {
                engine.enqueue(request, ReconcileCause::KeyGained);
            }
            return Ok(None);
        }
    };
    let id = ReconcileId { run: engine.run, number: engine.next.fetch_add(1, Ordering::Relaxed) };
    let span = tracing::info_span!(
        "reconcile",
        controller = engine.name(),
        kind = &*engine.kind,
        key = %item.key(),
        reconcile_id = %id,
        causes = tracing::field::Empty,
    );
    let requested = taken.as_ref().filter(|(log, _)| log.records_for_program()).map(|(_, taken)| taken);
    if let Some(taken) = requested {
        span.record("causes", tracing::field::display(&taken.causes));
    }
    let record = taken.as_ref().map(|(log, taken)| log.begin(id.number, item.key().clone(), taken));
    let causes = requested.map(|taken| Arc::clone(&taken.causes));
    let active = engine.instruments.begin();
    let begin = Instant::now();
    engine.slots[slot].set((item.key().clone(), begin));
    let ended = match entered {
        Ok(owned) => {
            let context = reconcile_context(engine, id, owned, causes);
            call(engine, item.key().clone(), context).instrument(span.clone()).await
        }
        Err(message) => CallResult::Panicked(message),
    };
    let request = engine.slots[slot].take();
    let took = begin.elapsed();
    drop(active);
    let log = Cell::new(log.zip(request.as_ref()));
    let recorder = EndRecorder { record: record.as_ref(), log, id, took };
    span.in_scope(|| {
        let finished = catch_unwind(AssertUnwindSafe(|| finish(engine, item, ended, &recorder)));
        finished.unwrap_or_else(|panic| {
            let panic = panic_text(&*panic);
            recorder.end(ReconcileResult::Error, || format!("the rate limiter panicked: {panic}"));
            handle_limiter_panic(engine, request.as_ref(), id, panic, took)
        })
    })
}

/// Records the end of a reconcile for the debug pages and the console.
struct EndRecorder<'a, R: ReconcileRequest> {
    /// The record that was added when the reconcile began.
    record: Option<&'a ActiveReconcile<'a, R>>,
    /// The log and the request, until the end is recorded. A reconcile without a record is recorded if it
    /// fails, because failures are the reason why people open the console.
    log: Cell<Option<(&'a CauseLog<R>, &'a R)>>,
    id: ReconcileId,
    took: Duration,
}

impl<R: ReconcileRequest> EndRecorder<'_, R> {
    fn end(&self, result: ReconcileResult, error: impl FnOnce() -> String) {
        let has_failed = result == ReconcileResult::Error;
        let end = || ReconcileEnd::new(result.as_str(), self.took, has_failed.then(error));
        let log = self.log.take();
        #[cfg(feature = "console")]
        log.inspect(|(log, request)| log.note_result(request, has_failed));
        if let Some(record) = self.record {
            record.end(end());
        } else if let Some((log, request)) = log {
            if has_failed {
                log.add_failed(self.id.number, request.clone(), end());
            } else {
                log.count_unrecorded();
            }
        }
    }
}

/// Handles a panic of the program's rate limiter, which is called after each reconcile. The panic dropped the
/// queue item of the request without marking it as done, so the queue retries the request.
fn handle_limiter_panic<R: ReconcileRequest>(
    engine: &Engine<R>,
    request: Option<&R>,
    id: ReconcileId,
    panic: &str,
    took: Duration,
) -> Result<Option<Item<R>>, ControllerError> {
    engine.instruments.panicked();
    let request = request.map(R::to_string).unwrap_or_default();
    if !engine.settings.recover_panic {
        let (controller, message) = (engine.name().to_owned(), format!("the rate limiter: {panic}"));
        return Err(ControllerError::Panicked { controller, request, message });
    }
    engine.instruments.reconciled(ReconcileResult::Error, took);
    tracing::error!(
        controller = engine.name(),
        kind = &*engine.kind,
        key = request,
        reconcile_id = %id,
        panic,
        "the rate limiter panicked; the request is retried"
    );
    Ok(None)
}

fn reconcile_context<R: ReconcileRequest>(
    engine: &Engine<R>,
    id: ReconcileId,
    owned: Option<Arc<OwnedKey>>,
    causes: Option<Arc<Causes>>,
) -> Context {
    let shared = match (&engine.sharded, &owned) {
        (Some(sharded), Some(owned)) => Arc::new(ControllerContext {
            controller: Arc::clone(&engine.context.controller),
            services: sharded.services(&engine.context.services, owned),
            cancel: engine.context.cancel.clone(),
        }),
        _ => Arc::clone(&engine.context),
    };
    Context { shared, id, owned_key: owned, causes }
}

async fn call<R: ReconcileRequest>(engine: &Engine<R>, request: R, context: Context) -> CallResult {
    let reconcile = AssertUnwindSafe(async { engine.reconciler.call(request, context).await }).catch_unwind();
    let result = match engine.settings.reconcile_timeout {
        None => reconcile.await,
        Some(timeout) => match tokio::time::timeout(timeout, reconcile).await {
            Ok(result) => result,
            Err(_) => return CallResult::TimedOut(timeout),
        },
    };
    match result {
        Ok(result) => CallResult::Returned(result),
        Err(panic) => CallResult::Panicked(panic_text(&*panic).to_owned()),
    }
}

fn finish<R: ReconcileRequest>(
    engine: &Engine<R>,
    item: Item<R>,
    ended: CallResult,
    recorder: &EndRecorder<'_, R>,
) -> Result<Option<Item<R>>, ControllerError> {
    let (id, took) = (recorder.id, recorder.took);
    let error = match ended {
        CallResult::Returned(Ok(outcome)) => {
            let (done, result) = finish_success(engine, item, outcome);
            recorder.end(result, String::new);
            engine.instruments.reconciled(result, took);
            return Ok(done);
        }
        CallResult::Returned(Err(error)) => error,
        CallResult::TimedOut(after) => {
            engine.instruments.timed_out();
            ReconcileTimeout::new(after).into()
        }
        CallResult::Panicked(message) => {
            engine.instruments.panicked();
            if !engine.settings.recover_panic {
                let (controller, request) = (engine.name().to_owned(), item.key().to_string());
                return Err(ControllerError::Panicked { controller, request, message });
            }
            ReconcilePanic::new(&message).into()
        }
    };
    recorder.end(ReconcileResult::Error, || error.to_string());
    let done = finish_failure(engine, item, id, &error);
    engine.instruments.reconciled(ReconcileResult::Error, took);
    Ok(done)
}

/// Requeues the item of a request, or not, as a `RequeueDecision` says. An item that only needs to be marked
/// as done is returned instead. A rate-limited retry waits at least for `retry_after`.
fn apply_decision<R: ReconcileRequest>(
    engine: &Engine<R>,
    mut item: Item<R>,
    decision: RequeueDecision,
    retry_after: Duration,
    cause: ReconcileCause,
) -> Option<Item<R>> {
    item.set_priority(decision.priority.unwrap_or(item.priority()));
    if decision.forget {
        item.forget();
    }
    if !matches!(decision.requeue, Requeue::Never) {
        engine.record_cause(item.key(), cause);
    }
    match decision.requeue {
        Requeue::Never => return Some(item),
        // The methods `requeue_after` and `retry` of a queue item return false if the queue is shut down. The
        // result is ignored, since the next run of the program lists all objects again.
        Requeue::After(delay) => drop(item.requeue_after(delay)),
        Requeue::RateLimited => drop(item.retry_no_earlier(retry_after)),
    }
    None
}

fn finish_success<R: ReconcileRequest>(
    engine: &Engine<R>,
    item: Item<R>,
    outcome: Outcome,
) -> (Option<Item<R>>, ReconcileResult) {
    let decision = RequeueDecision::of(state::ReconcileEnd::Succeeded(outcome));
    let result = match decision.requeue {
        Requeue::Never => ReconcileResult::Success,
        Requeue::After(_) => ReconcileResult::RequeueAfter,
        Requeue::RateLimited => ReconcileResult::Requeue,
    };
    let delay = match decision.requeue {
        Requeue::After(delay) => delay,
        Requeue::Never | Requeue::RateLimited => Duration::ZERO,
    };
    let cause = ReconcileCause::Requeued(delay);
    (apply_decision(engine, item, decision, Duration::ZERO, cause), result)
}

/// Retries the request of a failed reconcile, unless the error is terminal. After a terminal error the
/// failure count is kept, because the next attempt is likely to fail again.
fn finish_failure<R: ReconcileRequest>(
    engine: &Engine<R>,
    item: Item<R>,
    id: ReconcileId,
    error: &ReconcileError,
) -> Option<Item<R>> {
    let (key, retries, terminal) = (item.key().to_string(), item.retries(), error.is_terminal());
    let decision = RequeueDecision::of(state::ReconcileEnd::Failed { terminal, priority: error.priority() });
    let failures = retries.saturating_add(1);
    let retry_after = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
    let done = apply_decision(engine, item, decision, retry_after, ReconcileCause::Retried { failures });
    // The log entry of a failed reconcile repeats the fields of the tracing span `reconcile`, because a
    // subscriber that records only warnings or errors does not record the span.
    let (controller, kind) = (engine.name(), &*engine.kind);
    if terminal {
        engine.instruments.terminal_error();
        tracing::error!(controller, kind, key, reconcile_id = %id, %error, retries, "reconcile failed; not retried");
    } else {
        tracing::warn!(controller, kind, key, reconcile_id = %id, %error, retries, "reconcile failed; retrying");
    }
    done
}
