//! Tests of timeouts and counters of reconciles.

use super::super::metrics::{ControllerMetrics, ControllerMetricsProvider, ReconcileResult};
use super::*;

#[derive(Default)]
struct RecordedMetrics(Mutex<Vec<String>>);

impl ControllerMetrics for RecordedMetrics {
    fn workers_started(&self, workers: usize) {
        assert_eq!(workers, 1);
    }

    fn workers_stopped(&self, workers: usize) {
        assert_eq!(workers, 1);
    }

    fn began(&self) {
        self.0.lock().push("began".to_owned());
    }

    fn ended(&self) {
        self.0.lock().push("ended".to_owned());
    }

    fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.0.lock().push(format!("{} after {took:?}", result.as_str()));
    }

    fn terminal_error(&self) {
        self.0.lock().push("terminal".to_owned());
    }

    fn panicked(&self) {
        self.0.lock().push("panicked".to_owned());
    }

    fn timed_out(&self) {
        self.0.lock().push("timed out".to_owned());
    }
}

struct MetricsProvider(Arc<RecordedMetrics>);

struct Silent;

impl informer_workqueue::QueueMetrics for Silent {
    fn added(&self, _: usize) {}
    fn retried(&self) {}
    fn queued_for(&self, _: Duration) {}
    fn worked_for(&self, _: Duration) {}
}

impl ControllerMetricsProvider for MetricsProvider {
    fn controller(&self, name: &str) -> Option<Arc<dyn ControllerMetrics>> {
        assert_eq!(name, "test");
        Some(self.0.clone())
    }

    fn queue(&self, name: &str) -> Arc<dyn informer_workqueue::QueueMetrics> {
        assert_eq!(name, "test");
        Arc::new(Silent)
    }
}

async fn record_metrics(timeout: Duration, takes: Duration) -> (Vec<String>, ReconcileCounts) {
    let record_metrics = Arc::new(RecordedMetrics::default());
    let environment =
        Environment { metrics: Some(Arc::new(MetricsProvider(record_metrics.clone()))), ..environment() };
    let options = ControllerOptions::new().reconcile_timeout(timeout);
    let controller = Controller::builder().named("test").with_options(options).source(of(&[("a", 0)]));
    let running = Running::start_in(
        environment,
        controller.reconcile(move |_, _| async move {
            tokio::time::sleep(takes).await;
            // The reconciler sets a timeout of its own for an operation. When this one elapses, it must not
            // count as the controller's reconcile timeout.
            let own = tokio::time::timeout(MS, std::future::pending::<()>()).await;
            assert!(own.is_err());
            Err(ReconcileError::terminal("enough"))
        }),
    );
    tokio::time::sleep(takes + 10 * MS).await;
    let counts = running.state().reconciles;
    running.stop().await.unwrap();
    let record_metrics = record_metrics.0.lock().clone();
    (record_metrics, counts)
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_exceeds_its_timeout_is_dropped_and_counted() {
    let (record_metrics, counts) = record_metrics(2 * SECOND, 3 * SECOND).await;
    assert_eq!(record_metrics[..4], ["began", "ended", "timed out", "error after 2s"]);
    assert_eq!((counts.timeouts, counts.error, counts.terminal_errors), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn timeouts_inside_a_reconcile_are_not_counted() {
    for timeout in [10 * SECOND, Duration::ZERO] {
        let (record_metrics, counts) = record_metrics(timeout, SECOND).await;
        assert_eq!(record_metrics, ["began", "ended", "terminal", "error after 1.001s"]);
        assert_eq!((counts.timeouts, counts.error, counts.terminal_errors), (0, 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_counted_and_retried_as_errors() {
    let options = ControllerOptions::new().reconcile_timeout(SECOND);
    let calls = Calls::new();
    let seen = calls.clone();
    let controller = Controller::builder().named("test").with_options(options).source(of(&[("a", 0)]));
    let running = Running::start(controller.reconcile(move |request, _| {
        seen.note(&request);
        std::future::pending()
    }));
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(calls.pauses("a"), [1005, 1010, 1020]);
    assert_eq!(running.state().reconciles.timeouts, 3);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_is_not_counted_as_timeout() {
    let options = ControllerOptions::new().reconcile_timeout(100 * SECOND).drain_within(SECOND);
    let controller = Controller::builder().named("test").with_options(options).source(of(&[("a", 0)]));
    let running = Running::start(controller.reconcile(|_, ctx| async move {
        ctx.stopping().cancelled().await;
        Ok(Outcome::Done)
    }));
    tokio::time::sleep(SECOND).await;
    let handle = running.handle.clone();
    running.stop().await.unwrap();
    let counts = handle.state().unwrap().reconciles;
    assert_eq!((counts.timeouts, counts.success), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn state_lists_requests_being_reconciled() {
    let controller = Controller::builder().named("test").source(of(&[("a/b", 0), ("c", 0)]));
    let running = Running::start(controller.reconcile(|_, _| async {
        tokio::time::sleep(10 * SECOND).await;
        Ok(Outcome::Done)
    }));
    tokio::time::sleep(3 * SECOND).await;
    let state = running.state();
    assert_eq!(state.busy, [("a/b".to_owned(), 3 * SECOND)]);
    assert_eq!((state.queue.ready, state.reconciles.active), (1, 1));
    running.stop().await.unwrap();
}

#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn metrics_have_controller_runtime_names_and_start_at_zero() {
    let instrumentation = Arc::new(crate::instrumentation::Instrumentation::default());
    let metrics = super::super::metrics_of(&instrumentation);
    let text = || instrumentation.metrics().unwrap();
    let options = ControllerOptions::new().workers(3).reconcile_timeout(SECOND);
    let controller =
        Controller::builder().named("web").with_options(options).source(of(&[("a", 0), ("b", 0)]));
    let controller = controller.reconcile(|request, _| async move {
        match request.name() {
            "a" => Ok(Outcome::Done),
            "t" => Err(ReconcileError::terminal("no")),
            _ => Ok(Outcome::requeue_after(3600 * SECOND)),
        }
    });
    let handle = controller.handle();
    let runnable = controller.assemble(Environment { metrics: Some(metrics), ..environment() }).unwrap();
    let zero = text();
    for name in ["reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"] {
        assert!(
            zero.contains(&format!("controller_runtime_{name}_total{{controller=\"web\"}} 0\n")),
            "{name}: {zero}"
        );
    }
    for result in ["success", "error", "requeue", "requeue_after"] {
        let row = format!("controller_runtime_reconcile_total{{controller=\"web\",result=\"{result}\"}} 0\n");
        assert!(zero.contains(&row), "{result}: {zero}");
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(Box::new(runnable).run(stop.clone()));
    handle.watch(of(&[("t", 0)])).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let after = text();
    for row in [
        "controller_runtime_reconcile_total{controller=\"web\",result=\"success\"} 1\n",
        "controller_runtime_reconcile_total{controller=\"web\",result=\"requeue_after\"} 1\n",
        "controller_runtime_reconcile_total{controller=\"web\",result=\"error\"} 1\n",
        "controller_runtime_reconcile_errors_total{controller=\"web\"} 1\n",
        "controller_runtime_terminal_reconcile_errors_total{controller=\"web\"} 1\n",
        "controller_runtime_max_concurrent_reconciles{controller=\"web\"} 3\n",
        "controller_runtime_active_workers{controller=\"web\"} 0\n",
        "controller_runtime_reconcile_time_seconds_count{controller=\"web\"} 3\n",
        "workqueue_adds_total{name=\"web\"} 3\n",
    ] {
        assert!(after.contains(row), "{row} in {after}");
    }
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn requeues_are_counted_by_their_result() {
    let instrumentation = Arc::new(crate::instrumentation::Instrumentation::default());
    let metrics = super::super::metrics_of(&instrumentation);
    let calls = Calls::new();
    // The first two reconciles of each request ask for a requeue, and the third one succeeds.
    let controller = scripted(&[("limited", 0), ("delayed", 0)], &calls, |key, before| match (key, before) {
        (_, 2) => Ok(Outcome::Done),
        ("limited", _) => Ok(Outcome::requeue()),
        _ => Ok(Outcome::requeue_after(10 * SECOND)),
    });
    let running = Running::start_in(Environment { metrics: Some(metrics), ..environment() }, controller);
    let count = |result: &str| {
        let text = instrumentation.metrics().unwrap();
        let row = format!("controller_runtime_reconcile_total{{controller=\"test\",result=\"{result}\"}} ");
        let row = text.lines().find_map(|line| line.strip_prefix(&row)).expect("the row of the result");
        row.parse::<u64>().unwrap()
    };
    let counts = || ["requeue", "requeue_after", "success", "error"].map(count);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(counts(), [2, 1, 1, 0]);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(counts(), [2, 2, 2, 0]);
    assert_eq!((calls.times("limited").len(), calls.times("delayed").len()), (3, 3));
    let text = instrumentation.metrics().unwrap();
    assert!(
        text.contains("controller_runtime_reconcile_time_seconds_count{controller=\"test\"} 6\n"),
        "{text}"
    );
    assert!(text.contains("workqueue_retries_total{name=\"test\"} 4\n"), "{text}");
    running.stop().await.unwrap();
}
