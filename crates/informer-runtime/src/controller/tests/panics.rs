//! Tests of panics in rate limiters and sources, which are code of the program.

use futures_util::future::BoxFuture;
use informer_workqueue::RateLimiter;

use super::*;
use crate::source::{Enqueuer, Source};

/// A rate limiter that panics in `forget` for one key, and in its first call of `when`.
#[derive(Default)]
struct PanickingLimiter {
    asked: Mutex<u32>,
}

impl RateLimiter<Request> for PanickingLimiter {
    fn when(&self, _: &Request, _: Instant) -> Duration {
        let asked = {
            let mut asked = self.asked.lock();
            *asked += 1;
            *asked
        };
        assert!(asked > 1, "not today");
        3 * SECOND
    }

    fn forget(&self, request: &Request) {
        assert_ne!(request.name(), "unforgettable", "never");
    }

    fn retries(&self, _: &Request) -> u32 {
        0
    }
}

/// Returns a controller with a [`PanickingLimiter`]. The first reconcile of the request `fails` fails, and
/// all other reconciles succeed.
fn with_panicking_limiter(
    keys: &'static [(&'static str, i32)],
    calls: &Calls,
    options: ControllerOptions,
) -> Controller {
    let mut controller = scripted(keys, calls, |key, before| match (key, before) {
        ("fails", 0) => Err("once".into()),
        _ => Ok(Outcome::Done),
    });
    controller.builder.options = options.rate_limiter(PanickingLimiter::default());
    controller
}

#[tokio::test(start_paused = true)]
async fn rate_limiter_panic_stops_no_worker_and_loses_no_request() {
    let calls = Calls::new();
    let running = Running::start(with_panicking_limiter(
        &[("fails", 2), ("fine", 1), ("fine2", 0)],
        &calls,
        ControllerOptions::new(),
    ));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(calls.keys(), ["fails", "fine", "fine2", "fails"]);
    let state = running.state();
    assert_eq!((state.reconciles.panics, state.reconciles.error, state.reconciles.success), (1, 1, 3));
    assert!(state.busy.is_empty() && state.reconciles.active == 0, "{state:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rate_limiter_panic_stops_the_controller_without_recover_panic() {
    let calls = Calls::new();
    let options = ControllerOptions::new().recover_panic(false);
    let running = Running::start(with_panicking_limiter(&[("a/unforgettable", 0)], &calls, options));
    let error = running.ended().await.unwrap_err();
    let panic = "assertion `left != right` failed: never";
    assert!(error.contains("controller test: the reconcile of a/unforgettable panicked: the rate limiter:"));
    assert!(error.contains(panic), "{error}");
}

#[tokio::test(start_paused = true)]
async fn panic_in_source_task_is_counted_and_ends_only_that_task() {
    let calls = Calls::new();
    let source = source::function("tasks", |enqueuer| async move {
        enqueuer.spawn(async { panic!("on purpose") });
        let feeding = enqueuer.clone();
        enqueuer.spawn(async move {
            tokio::time::sleep(SECOND).await;
            feeding.enqueue(0).add(key("late"));
        });
        Ok(())
    });
    let controller = Controller::builder().named("test").source(source);
    let note = calls.clone();
    let running = Running::start(controller.reconcile(move |request, _| {
        note.note(&request);
        async { Ok(Outcome::Done) }
    }));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!((calls.keys(), running.state().trigger_panics), (vec!["late".to_owned()], 1));
    running.stop().await.unwrap();
}

struct Scripted<N, S> {
    name: N,
    stop: S,
}

impl<N, S> Source for Scripted<N, S>
where
    N: Fn() + Send + Sync + 'static,
    S: Fn() + Send + Sync + 'static,
{
    fn name(&self) -> String {
        (self.name)();
        "scripted".to_owned()
    }

    fn start(&self, _: Enqueuer) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn stop(&self) {
        (self.stop)();
    }
}

fn idle(name: &str) -> Controller {
    Controller::builder().named(name).source(of(&[])).reconcile(|_, _| async { Ok(Outcome::Done) })
}

#[tokio::test(start_paused = true)]
async fn panic_in_source_stop_does_not_keep_other_sources_from_stopping() {
    let stopped = Arc::new(Mutex::new(false));
    let note = Arc::clone(&stopped);
    let controller = idle("test");
    let handle = controller.handle();
    handle.watch(Scripted { name: || {}, stop: || panic!("on purpose") }).await.unwrap();
    handle.watch(Scripted { name: || {}, stop: move || *note.lock() = true }).await.unwrap();
    let running = Running::start(controller);
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    assert!(*stopped.lock());
    assert_eq!(handle.state().unwrap().trigger_panics, 1);
}

#[tokio::test(start_paused = true)]
async fn source_name_is_read_outside_of_locks() {
    let controller = idle("test");
    let handle = controller.handle();
    let (asks, armed) = (handle.clone(), Arc::new(Mutex::new(false)));
    let arm = Arc::clone(&armed);
    let name = move || {
        if std::mem::take(&mut *arm.lock()) {
            assert!(asks.state().is_some(), "the name function of a source can read the state");
        }
    };
    handle.watch(Scripted { name, stop: || {} }).await.unwrap();
    let running = Running::start(controller);
    tokio::time::sleep(SECOND).await;
    *armed.lock() = true;
    assert_eq!(running.state().sources, ["function keys", "scripted"]);
    assert!(!*armed.lock());
    running.stop().await.unwrap();
}
