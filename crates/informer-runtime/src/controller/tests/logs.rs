//! Tests that warnings and errors of a controller contain its name and the request, also for subscribers that
//! record no spans.

use std::sync::atomic::{AtomicBool, Ordering};

use informer_workqueue::RateLimiter;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata};

use super::*;

/// A log subscriber that records the fields of warnings and errors as `name=value ...`. It records no spans,
/// like `RUST_LOG=warn`.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0 += &format!("{}={value} ", field.name());
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A rate limiter that panics once, for the key `shop/limiter`, so that the test can check how this panic is
/// logged.
#[derive(Default)]
struct Panicking(AtomicBool);

impl RateLimiter<Request> for Panicking {
    fn when(&self, request: &Request, _: Instant) -> Duration {
        let panics = request.to_string() == "shop/limiter" && !self.0.swap(true, Ordering::SeqCst);
        assert!(!panics, "no delay for this one");
        Duration::from_secs(3600)
    }

    fn forget(&self, _: &Request) {}

    fn retries(&self, _: &Request) -> u32 {
        0
    }
}

async fn warnings() -> Vec<String> {
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    // If the process has only one log subscriber, the thread that first reaches a log statement decides for
    // all threads whether it is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let keys = &[("shop/failing", 0), ("shop/limiter", 0), ("shop/panicking", 0), ("shop/terminal", 0)];
    let options = ControllerOptions::new().rate_limiter(Panicking::default());
    let controller = Controller::builder().named("test").source(of(keys)).with_options(options);
    let running = Running::start(controller.reconcile(move |request: Request, _| async move {
        match request.to_string().as_str() {
            "shop/panicking" => panic!("oh"),
            "shop/terminal" => Err(ReconcileError::terminal("never")),
            _ => Err("not now".into()),
        }
    }));
    tokio::time::sleep(MS).await;
    running.stop().await.unwrap();
    warnings.0.lock().clone()
}

#[tokio::test(start_paused = true)]
async fn reconcile_errors_name_controller_and_key_without_spans() {
    // The log entries can be missing if a test on another thread reaches the log statement while this test
    // sets its subscriber. The test therefore repeats the reconciles until the entries are recorded.
    let mut seen = Vec::new();
    for _ in 0..100 {
        seen = warnings().await;
        let of = |key: &str| seen.iter().any(|line| line.contains(&format!("key=shop/{key} ")));
        if ["failing", "limiter", "panicking", "terminal"].into_iter().all(of) {
            assert!(
                seen.iter().all(|line| line.contains("controller=test ") && line.contains("reconcile_id=")),
                "{seen:?}"
            );
            return;
        }
    }
    panic!("not all errors name their key: {seen:#?}");
}
