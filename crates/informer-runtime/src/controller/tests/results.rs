//! Tests of how the result of a reconcile determines whether its request is requeued.

use std::sync::atomic::{AtomicUsize, Ordering};

use informer_workqueue::{Aging, LOW_PRIORITY};

use super::*;

#[tokio::test(start_paused = true)]
async fn failed_request_is_retried_and_others_continue() {
    let calls = Calls::new();
    let running =
        Running::start(scripted(&[("a", 0), ("b", 0)], &calls, |key, before| match (key, before) {
            ("a", 0) => Err("not yet".into()),
            _ => Ok(Outcome::Done),
        }));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a", "b", "a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn terminal_error_is_not_retried_at_any_depth_of_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] TerminalError);

    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0), ("b", 0)], &calls, |key, _| match key {
        "a" => Err(ReconcileError::terminal("never")),
        _ => Err(Outer(TerminalError::new("never")).into()),
    }));
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(calls.keys(), ["a", "b"]);
    let counts = running.state().reconciles;
    assert_eq!((counts.error, counts.terminal_errors), (2, 2));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn terminal_error_keeps_the_failure_count() {
    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0)], &calls, |_, before| match before {
        0 | 1 | 3 => Err("again".into()),
        2 => Err(ReconcileError::terminal("not now")),
        _ => Ok(Outcome::Done),
    }));
    tokio::time::sleep(SECOND).await;
    running.handle.enqueue(key("a"));
    tokio::time::sleep(SECOND).await;
    let pauses = calls.pauses("a");
    assert_eq!((pauses[0], pauses[1], pauses[3]), (5, 10, 20), "{pauses:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retry_delays_grow_until_success() {
    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0)], &calls, |_, before| match before {
        3 => Ok(Outcome::requeue_after(SECOND)),
        5 => Ok(Outcome::Done),
        _ => Err("again".into()),
    }));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(calls.pauses("a"), [5, 10, 20, 1000, 5], "the fourth call forgot the failures");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requeue_is_rate_limited_and_counts_as_failure() {
    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0)], &calls, |_, before| {
        Ok(if before < 3 { Outcome::requeue() } else { Outcome::Done })
    }));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.pauses("a"), [5, 10, 20]);
    assert_eq!(running.state().reconciles.requeue, 3);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_not_rate_limited_and_resets_failures() {
    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0)], &calls, |_, before| match before {
        0 | 2 => Err("again".into()),
        1 => Ok(Outcome::requeue_after(300 * MS)),
        3 => Ok(Outcome::requeue_after(Duration::ZERO)),
        _ => unreachable!("a requeue with a zero delay is ignored"),
    }));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.pauses("a"), [5, 300, 5]);
    let counts = running.state().reconciles;
    assert_eq!((counts.requeue_after, counts.success), (1, 1));
    running.stop().await.unwrap();
}

/// Returns the order of reconciles of `x`, `y` and `z` by one worker. `x` has a higher priority and is
/// reconciled first, and `outcome` requeues it while `y` is being reconciled. Then `x` waits in the queue
/// together with `z`, so the order shows with which priority it was requeued.
async fn order(outcome: fn() -> Result<Outcome, ReconcileError>) -> Vec<String> {
    let calls = Calls::new();
    let seen = calls.clone();
    let keys = of(&[("x", 7), ("y", 0), ("z", 0)]);
    let controller =
        Controller::builder().named("test").source(keys).reconcile(move |request: Request, _| {
            let before = seen.note(&request);
            async move {
                match (request.name(), before) {
                    ("x", 0) => outcome(),
                    ("y", _) => {
                        tokio::time::sleep(SECOND).await;
                        Ok(Outcome::Done)
                    }
                    _ => Ok(Outcome::Done),
                }
            }
        });
    let running = Running::start(controller);
    tokio::time::sleep(5 * SECOND).await;
    running.stop().await.unwrap();
    calls.keys()
}

#[tokio::test(start_paused = true)]
async fn priority_is_kept_after_an_error() {
    assert_eq!(order(|| Err("again".into())).await, ["x", "y", "x", "z"]);
}

#[tokio::test(start_paused = true)]
async fn error_may_set_the_priority() {
    let lower = || Err(ReconcileError::from("again").with_priority(-5));
    assert_eq!(order(lower).await, ["x", "y", "z", "x"]);
}

#[tokio::test(start_paused = true)]
async fn priority_is_kept_after_requeue() {
    assert_eq!(order(|| Ok(Outcome::requeue())).await, ["x", "y", "x", "z"]);
}

#[tokio::test(start_paused = true)]
async fn requeue_may_set_the_priority() {
    assert_eq!(order(|| Ok(Outcome::requeue().with_priority(-5))).await, ["x", "y", "z", "x"]);
}

#[tokio::test(start_paused = true)]
async fn priority_is_kept_after_requeue_after() {
    assert_eq!(order(|| Ok(Outcome::requeue_after(10 * MS))).await, ["x", "y", "x", "z"]);
}

#[tokio::test(start_paused = true)]
async fn requeue_after_may_set_the_priority() {
    assert_eq!(order(|| Ok(Outcome::requeue_after(10 * MS).with_priority(-5))).await, ["x", "y", "z", "x"]);
}

#[tokio::test(start_paused = true)]
async fn changes_precede_the_initial_list_unless_priorities_are_off() {
    const KEYS: &[(&str, i32)] = &[("listed", informer_workqueue::LOW_PRIORITY), ("new", 0)];
    for (priorities, expected) in [(true, ["new", "listed"]), (false, ["listed", "new"])] {
        let calls = Calls::new();
        let mut controller = scripted(KEYS, &calls, |_, _| Ok(Outcome::Done));
        controller.builder.options = ControllerOptions::new().priorities(priorities);
        let running = Running::start(controller);
        tokio::time::sleep(SECOND).await;
        assert_eq!(calls.keys(), expected);
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn low_priority_requests_do_not_starve_unless_ageing_is_off() {
    for (aging, place) in [(Aging::Every(4), 0..=4), (Aging::Off, 40..=40)] {
        let calls = Calls::new();
        let seen = calls.clone();
        let keys = source::function("keys", |enqueuer: source::Enqueuer<Request>| async move {
            enqueuer.enqueue(LOW_PRIORITY).add(key("old"));
            (0..40).for_each(|number| enqueuer.enqueue(0).add(key(&format!("new-{number}"))));
            Ok(())
        });
        let options = ControllerOptions::new().aging(aging);
        let controller = Controller::builder().named("test").with_options(options).source(keys);
        let running = Running::start(controller.reconcile(move |request: Request, _| {
            seen.note(&request);
            async { Ok(Outcome::Done) }
        }));
        tokio::time::sleep(SECOND).await;
        let at = calls.keys().iter().position(|key| key == "old").unwrap();
        assert!(place.contains(&at), "{aging:?}: {at}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn bounded_queue_rejects_requests_until_there_is_room() {
    let calls = Calls::new();
    let mut controller = scripted(&[("a", 0), ("b", 0), ("c", 0)], &calls, |_, _| Ok(Outcome::Done));
    controller.builder.options = ControllerOptions::new().keys_max(2);
    let running = Running::start(controller);
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a", "b"]);
    running.handle.enqueue(key("c"));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a", "b", "c"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recovered_panic_is_retried_like_an_error() {
    let calls = Calls::new();
    let running = Running::start(scripted(&[("a", 0)], &calls, |_, before| {
        assert!(before > 1, "attempt {before}");
        Ok(Outcome::Done)
    }));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.pauses("a"), [5, 10]);
    let counts = running.state().reconciles;
    assert_eq!((counts.panics, counts.error, counts.success), (2, 2, 1));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unrecovered_panic_stops_the_controller_and_is_named() {
    let calls = Calls::new();
    let mut controller = scripted(&[("a", 0)], &calls, |_, _| panic!("broken"));
    controller.builder.options = ControllerOptions::new().recover_panic(false);
    let running = Running::start(controller);
    let handle = running.handle.clone();
    let error = running.ended().await.unwrap_err();
    assert_eq!(error, "controller test: the reconcile of a panicked: broken");
    assert_eq!(handle.state().unwrap().reconciles.panics, 1);
}

#[tokio::test(start_paused = true)]
async fn request_is_never_reconciled_concurrently() {
    let busy = Arc::new(Mutex::new(false));
    let options = ControllerOptions::new().workers(4);
    let controller = Controller::builder().named("test").with_options(options).source(of(&[("a", 0)]));
    let guarded = Arc::clone(&busy);
    let running = Running::start(controller.reconcile(move |_, _| {
        let busy = Arc::clone(&guarded);
        async move {
            assert!(!std::mem::replace(&mut *busy.lock(), true), "two concurrent reconciles");
            tokio::time::sleep(10 * MS).await;
            *busy.lock() = false;
            Ok(Outcome::Done)
        }
    }));
    for _ in 0..100 {
        running.handle.enqueue(key("a"));
        tokio::time::sleep(MS).await;
    }
    tokio::time::sleep(SECOND).await;
    let counts = running.state().reconciles;
    assert_eq!((counts.error, counts.active), (0, 0));
    assert!((9..=12).contains(&counts.success), "{counts:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reconcile_ids_are_unique() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    let controller = Controller::builder().named("test").source(of(&[("a", 0), ("b", 0)]));
    let running = Running::start(controller.reconcile(move |_, ctx| {
        seen.lock().push((ctx.controller().to_owned(), ctx.reconcile_id()));
        async { Ok(Outcome::Done) }
    }));
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    let ids = ids.lock();
    assert!(ids.iter().all(|(controller, _)| controller == "test"));
    assert_ne!(ids[0].1, ids[1].1);
}

/// Tests that a worker yields. The test runs on one thread, with a queue that is never empty and a reconciler
/// that never waits.
#[tokio::test(start_paused = true)]
async fn busy_controller_yields_to_other_tasks() {
    let results: [fn() -> Result<Outcome, ReconcileError>; 2] =
        [|| Ok(Outcome::Done), || Err("it fails".into())];
    for result in results {
        let builder = Controller::builder().named("test").source(of(&[("a", 0)]));
        let (handle, next) = (builder.handle.clone(), AtomicUsize::new(0));
        let running = Running::start(builder.reconcile(move |_, _| {
            handle.enqueue(key(&next.fetch_add(1, Ordering::Relaxed).to_string()));
            async move { result() }
        }));
        let reconciled = |counts: ReconcileCounts| counts.success + counts.error;
        while running.handle.state().is_none_or(|state| reconciled(state.reconciles) < 1_000) {
            tokio::task::yield_now().await;
        }
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn reconciles_share_the_state_of_reconcile_with() {
    let state = Mutex::new(Vec::new());
    let (report, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::builder().named("keys").source(of(&[("a", 0), ("b", 0)])).reconcile_with(
        state,
        move |request: Request, _, keys: Arc<Mutex<Vec<String>>>| {
            keys.lock().push(request.to_string());
            report.send(keys.lock().clone()).unwrap();
            async { Ok(Outcome::Done) }
        },
    );
    let running = Running::start(controller);
    assert_eq!(reported.recv().await.unwrap(), ["a"]);
    assert_eq!(reported.recv().await.unwrap(), ["a", "b"]);
    running.stop().await.unwrap();
}
