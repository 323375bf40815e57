//! A worker: gets a request, reconciles it, and does with it what the outcome says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use informer_control::controller::{self as state, Again, Verdict};
use informer_core::panics::panic_text;
use informer_workqueue::Item;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument;

use super::context::Surroundings;
use super::engine::Engine;
use super::metrics::ReconcileResult;
use super::outcome::{ReconcilePanic, ReconcileTimeout};
use super::sharded::NotEntered;
use super::{Context, ControllerError, Outcome, ReconcileError, ReconcileId};
use crate::{OwnedKey, ReconcileRequest};

/// What a worker works on, for whoever asks.
pub(super) struct Slot<R>(Mutex<Option<(R, Instant)>>);

impl<R> Default for Slot<R> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<R: ReconcileRequest> Slot<R> {
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

    pub(super) fn request(&self) -> Option<String> {
        self.get().map(|(request, _)| request.to_string())
    }

    pub(super) fn busy(&self) -> Option<(String, Duration)> {
        self.get().map(|(request, since)| (request.to_string(), since.elapsed()))
    }
}

/// How a reconcile ended.
enum Ended {
    Answered(Result<Outcome, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

/// Works until the queue hands out nothing more.
pub(super) async fn work<R: ReconcileRequest>(
    engine: Arc<Engine<R>>,
    slot: usize,
) -> Result<(), ControllerError> {
    let mut next = engine.queue.get().await;
    while let Some(item) = next {
        let done = match engine.takes_requests() {
            true => turn(&engine, slot, item).await?,
            // Whoever runs next looks at everything anyway.
            false => Some(item),
        };
        next = match done {
            Some(mut item) => item.done_then_next().await.then_some(item),
            None => {
                // A queue that is never empty and a reconciler that never waits would keep the thread for themselves.
                tokio::task::coop::consume_budget().await;
                engine.queue.get().await
            }
        };
    }
    Ok(())
}

/// Works on one request. Gives it back where it is yet to be ended, as done: then the queue is asked for the next one in the same breath.
async fn turn<R: ReconcileRequest>(
    engine: &Engine<R>,
    slot: usize,
    item: Item<R>,
) -> Result<Option<Item<R>>, ControllerError> {
    let entered = match engine.sharded.as_ref().map(|sharded| sharded.enter(item.key())).transpose() {
        Ok(owned) => Ok(owned.map(Arc::new)),
        Err(NotEntered::KeyPanicked(message)) => Err(message),
        Err(NotEntered::Refused(gained)) => {
            item.forget();
            item.done();
            if let Some(request) = gained {
                engine.queue.add(request);
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
    );
    let active = engine.instruments.begin();
    let begin = Instant::now();
    engine.slots[slot].set((item.key().clone(), begin));
    let ended = match entered {
        Ok(owned) => {
            let context = context(engine, id, owned);
            call(engine, item.key().clone(), context).instrument(span.clone()).await
        }
        Err(message) => Ended::Panicked(message),
    };
    let request = engine.slots[slot].take();
    let took = begin.elapsed();
    drop(active);
    span.in_scope(|| {
        let settled = catch_unwind(AssertUnwindSafe(|| settle(engine, item, id, ended, took)));
        settled.unwrap_or_else(|panic| unsettled(engine, request.as_ref(), id, panic_text(&*panic), took))
    })
}

/// Handles a panic of the program's rate limiter while the outcome of a reconcile was acted on. The guard of
/// the request was dropped, so the request is retried.
fn unsettled<R: ReconcileRequest>(
    engine: &Engine<R>,
    request: Option<&R>,
    id: ReconcileId,
    panic: &str,
    took: Duration,
) -> Result<Option<Item<R>>, ControllerError> {
    engine.instruments.panicked();
    let request = request.map(R::to_string).unwrap_or_default();
    if !engine.settings.recover_panic {
        let (controller, message) = (engine.name().to_owned(), format!("its rate limiter: {panic}"));
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

fn context<R: ReconcileRequest>(
    engine: &Engine<R>,
    id: ReconcileId,
    owned: Option<Arc<OwnedKey>>,
) -> Context {
    let shared = match (&engine.sharded, &owned) {
        (Some(sharded), Some(owned)) => Arc::new(Surroundings {
            controller: Arc::clone(&engine.surroundings.controller),
            services: sharded.services(&engine.surroundings.services, owned),
            cancel: engine.surroundings.cancel.clone(),
        }),
        _ => Arc::clone(&engine.surroundings),
    };
    Context { shared, id, owned }
}

async fn call<R: ReconcileRequest>(engine: &Engine<R>, request: R, context: Context) -> Ended {
    let reconcile = AssertUnwindSafe(async { engine.reconciler.call(request, context).await }).catch_unwind();
    let answer = match engine.settings.reconcile_timeout {
        None => reconcile.await,
        Some(timeout) => match tokio::time::timeout(timeout, reconcile).await {
            Ok(answer) => answer,
            Err(_) => return Ended::TimedOut(timeout),
        },
    };
    match answer {
        Ok(answer) => Ended::Answered(answer),
        Err(panic) => Ended::Panicked(panic_text(&*panic).to_owned()),
    }
}

fn settle<R: ReconcileRequest>(
    engine: &Engine<R>,
    item: Item<R>,
    id: ReconcileId,
    ended: Ended,
    took: Duration,
) -> Result<Option<Item<R>>, ControllerError> {
    let error = match ended {
        Ended::Answered(Ok(outcome)) => {
            let (done, result) = settle_success(item, outcome);
            engine.instruments.reconciled(result, took);
            return Ok(done);
        }
        Ended::Answered(Err(error)) => error,
        Ended::TimedOut(after) => {
            engine.instruments.timed_out();
            ReconcileTimeout::new(after).into()
        }
        Ended::Panicked(message) => {
            engine.instruments.panicked();
            if !engine.settings.recover_panic {
                let (controller, request) = (engine.name().to_owned(), item.key().to_string());
                return Err(ControllerError::Panicked { controller, request, message });
            }
            ReconcilePanic::new(&message).into()
        }
    };
    let done = settle_failure(engine, item, id, &error);
    engine.instruments.reconciled(ReconcileResult::Error, took);
    Ok(done)
}

/// Does with a request what its verdict says. Gives it back where it is only to be ended.
fn follow_verdict<R: ReconcileRequest>(mut item: Item<R>, verdict: Verdict) -> Option<Item<R>> {
    item.set_priority(verdict.priority.unwrap_or(item.priority()));
    if verdict.forget {
        item.forget();
    }
    match verdict.again {
        Again::No => return Some(item),
        // False where the queue is shut down: whoever runs next looks at everything anyway.
        Again::After(delay) => drop(item.requeue_after(delay)),
        Again::RateLimited => drop(item.retry()),
    }
    None
}

fn settle_success<R: ReconcileRequest>(
    item: Item<R>,
    outcome: Outcome,
) -> (Option<Item<R>>, ReconcileResult) {
    let verdict = Verdict::of(state::Ended::Succeeded(outcome));
    let result = match verdict.again {
        Again::No => ReconcileResult::Success,
        Again::After(_) => ReconcileResult::RequeueAfter,
        Again::RateLimited => ReconcileResult::Requeue,
    };
    (follow_verdict(item, verdict), result)
}

/// Retries a request, unless its error is terminal. A terminal error keeps the failure count of its request:
/// the next attempt may well fail again.
fn settle_failure<R: ReconcileRequest>(
    engine: &Engine<R>,
    item: Item<R>,
    id: ReconcileId,
    error: &ReconcileError,
) -> Option<Item<R>> {
    let (key, retries, terminal) = (item.key().to_string(), item.retries(), error.is_terminal());
    let verdict = Verdict::of(state::Ended::Failed { terminal, priority: error.priority() });
    let done = follow_verdict(item, verdict);
    // The fields repeat those of the span, which is not recorded by a subscriber for warnings or errors only.
    let (controller, kind) = (engine.name(), &*engine.kind);
    if terminal {
        engine.instruments.terminal_error();
        tracing::error!(controller, kind, key, reconcile_id = %id, %error, retries, "reconcile failed; not retried");
    } else {
        tracing::warn!(controller, kind, key, reconcile_id = %id, %error, retries, "reconcile failed; retrying");
    }
    done
}
