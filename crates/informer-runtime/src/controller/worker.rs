//! A worker: gets a request, reconciles it, and does with it what the outcome says.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use informer_control::controller::{self as state, Again, Verdict};
use informer_workqueue::Item;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument;

use super::context::Surroundings;
use super::engine::Engine;
use super::metrics::ReconcileResult;
use super::outcome::{ReconcilePanic, ReconcileTimeout};
use super::{Context, ControllerError, Outcome, ReconcileError, ReconcileId};
use crate::panics::panic_text;
use crate::{OwnedKey, ReconcileRequest};

/// What a worker works on, for whoever asks.
pub(super) struct Slot<R>(Mutex<Option<(R, Instant)>>);

impl<R> Default for Slot<R> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<R: ReconcileRequest> Slot<R> {
    fn set(&self, work: Option<(R, Instant)>) {
        let before = std::mem::replace(&mut *self.0.lock(), work);
        drop(before);
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
    while let Some(item) = engine.queue.get().await {
        if !engine.takes_requests() {
            // Whoever runs next looks at everything anyway.
            item.done();
            continue;
        }
        turn(&engine, slot, item).await?;
        // A queue that is never empty and a reconciler that never waits would keep the thread for themselves.
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

async fn turn<R: ReconcileRequest>(
    engine: &Engine<R>,
    slot: usize,
    item: Item<R>,
) -> Result<(), ControllerError> {
    let owned = match engine.sharded.as_ref().map(|sharded| sharded.enter(item.key())).transpose() {
        Ok(owned) => owned.map(Arc::new),
        Err(gained) => {
            item.forget();
            item.done();
            if let Some(request) = gained {
                engine.queue.add(request);
            }
            return Ok(());
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
    engine.slots[slot].set(Some((item.key().clone(), begin)));
    let context = context(engine, id, owned);
    let ended = call(engine, item.key().clone(), context).instrument(span.clone()).await;
    engine.slots[slot].set(None);
    let took = begin.elapsed();
    drop(active);
    span.in_scope(|| settle(engine, item, ended, took))
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
    ended: Ended,
    took: Duration,
) -> Result<(), ControllerError> {
    let error = match ended {
        Ended::Answered(Ok(outcome)) => {
            let result = settle_success(item, outcome);
            engine.instruments.reconciled(result, took);
            return Ok(());
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
    settle_failure(engine, item, &error);
    engine.instruments.reconciled(ReconcileResult::Error, took);
    Ok(())
}

/// Does with a request what its verdict says.
fn follow_verdict<R: ReconcileRequest>(mut item: Item<R>, verdict: Verdict) {
    item.set_priority(verdict.priority.unwrap_or(item.priority()));
    if verdict.forget {
        item.forget();
    }
    match verdict.again {
        Again::No => item.done(),
        Again::After(delay) => drop(item.requeue_after(delay)),
        Again::RateLimited => drop(item.retry()),
    }
}

fn settle_success<R: ReconcileRequest>(item: Item<R>, outcome: Outcome) -> ReconcileResult {
    let verdict = Verdict::of(state::Ended::Succeeded(outcome));
    follow_verdict(item, verdict);
    match verdict.again {
        Again::No => ReconcileResult::Success,
        Again::After(_) => ReconcileResult::RequeueAfter,
        Again::RateLimited => ReconcileResult::Requeue,
    }
}

/// A terminal error keeps the failures of its request, as upstream does: what comes next may well fail again.
fn settle_failure<R: ReconcileRequest>(engine: &Engine<R>, item: Item<R>, error: &ReconcileError) {
    let (retries, terminal) = (item.retries(), error.is_terminal());
    follow_verdict(item, Verdict::of(state::Ended::Failed { terminal, priority: error.priority() }));
    if terminal {
        engine.instruments.terminal_error();
        tracing::error!(%error, retries, "the reconcile failed, and is not tried again");
    } else {
        tracing::warn!(%error, retries, "the reconcile failed, and is tried again");
    }
}
