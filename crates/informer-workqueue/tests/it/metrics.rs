use std::sync::Arc;
use std::time::Duration;

use informer_workqueue::{AddOptions, Aging, QueueMetrics, QueueProbe, WorkQueue, default_item_rate_limiter};
use parking_lot::Mutex;
use tokio::time::advance;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Default)]
struct Record {
    adds: usize,
    retries: usize,
    queued: Vec<Duration>,
    worked: Vec<Duration>,
}

#[derive(Default)]
struct Recorder {
    record: Mutex<Record>,
    probe: Mutex<Option<QueueProbe>>,
}

impl QueueMetrics for Recorder {
    fn added(&self, keys: usize) {
        self.record.lock().adds += keys;
    }

    fn retried(&self) {
        self.record.lock().retries += 1;
    }

    fn queued_for(&self, time: Duration) {
        self.record.lock().queued.push(time);
    }

    fn worked_for(&self, time: Duration) {
        self.record.lock().worked.push(time);
    }

    fn attach(&self, probe: QueueProbe) {
        *self.probe.lock() = Some(probe);
    }
}

fn recorded() -> (WorkQueue<&'static str>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let metrics: Arc<dyn QueueMetrics> = Arc::clone(&recorder) as _;
    let limiter = default_item_rate_limiter();
    let queue = WorkQueue::builder().priorities(Aging::Off).rate_limiter(limiter).metrics(metrics).build();
    (queue, recorder)
}

#[tokio::test(start_paused = true)]
async fn adds_and_times_are_those_of_client_go() {
    let (queue, recorder) = recorded();
    queue.add("foo");
    assert_eq!((recorder.record.lock().adds, queue.stats().ready), (1, 1));
    advance(US * 50).await;
    let item = queue.get().await.unwrap();
    assert_eq!(recorder.record.lock().queued, [US * 50]);
    queue.add("foo");
    queue.add("foo");
    assert_eq!((recorder.record.lock().adds, queue.stats().ready), (2, 0));
    advance(US * 25).await;
    item.done();
    assert_eq!(recorder.record.lock().worked, [US * 25]);
    let item = queue.get().await.unwrap();
    assert_eq!(recorder.record.lock().queued, [US * 50, US * 25], "measured from the add, not from done");
    advance(MS).await;
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.unfinished, stats.longest), (1, MS, MS));
    item.done();
    assert_eq!(recorder.record.lock().worked, [US * 25, MS]);
    assert_eq!(queue.stats().unfinished, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn done_then_next_is_measured_like_done_and_get() {
    let (queue, recorder) = recorded();
    queue.add_all(["foo", "bar"]);
    advance(US * 50).await;
    let mut item = queue.get().await.unwrap();
    advance(US * 25).await;
    queue.add("foo");
    assert!(item.done_then_next().await);
    assert_eq!(*item, "bar");
    item.done();
    let record = recorder.record.lock().clone();
    assert_eq!((record.adds, record.queued), (3, vec![US * 50, US * 75]));
    assert_eq!(record.worked, [US * 25, Duration::ZERO]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_counts_as_added_and_ready_since_its_deadline() {
    let (queue, recorder) = recorded();
    queue.add_after("foo", MS * 5);
    let stats = queue.stats();
    assert_eq!((stats.ready, stats.waiting, recorder.record.lock().adds), (0, 1, 0));
    advance(MS * 7).await;
    queue.get().await.unwrap().done();
    let record = recorder.record.lock().clone();
    assert_eq!((record.adds, record.queued), (1, vec![MS * 2]));
}

#[tokio::test(start_paused = true)]
async fn age_of_the_oldest_ready_key_follows_priorities_delays_and_hand_outs() {
    let (queue, _recorder) = recorded();
    let oldest = || queue.stats().oldest;
    assert_eq!(oldest(), Duration::ZERO);
    queue.add("low");
    advance(MS * 5).await;
    queue.add_with("high", AddOptions::new().priority(9));
    queue.add_after("delayed", MS * 2);
    advance(MS * 3).await;
    assert_eq!(oldest(), MS * 8);
    let high = queue.get().await.unwrap();
    assert_eq!((*high, oldest()), ("high", MS * 8), "a key of low priority stays the oldest");
    let low = queue.get().await.unwrap();
    assert_eq!((*low, oldest()), ("low", MS), "a delayed key is ready since its deadline");
    queue.get().await.unwrap().done();
    queue.add("low");
    assert_eq!(oldest(), Duration::ZERO, "a key in process is not ready");
    advance(MS * 4).await;
    low.done();
    assert_eq!(oldest(), MS * 4, "it is ready since it was added again");
}

#[tokio::test(start_paused = true)]
async fn oldest_ready_key_is_found_behind_many_others_and_not_measured_without_metrics() {
    let metrics: Arc<dyn QueueMetrics> = Arc::<Recorder>::default();
    let queue = WorkQueue::builder().metrics(metrics).build();
    queue.add_all(0..20_000_u32);
    let mut items: Vec<_> = (0..20_000).map(|_| queue.try_get().expect("a ready key")).collect();
    queue.add(19_999);
    advance(MS).await;
    queue.add_all(20_000..20_010);
    items.pop().expect("the last key").done();
    assert_eq!((queue.stats().ready, queue.stats().oldest), (11, MS));

    let queue = WorkQueue::new();
    queue.add("a");
    advance(MS).await;
    assert_eq!((queue.stats().ready, queue.stats().oldest), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_that_is_added_again_counts_as_one_add() {
    for (again, priority) in [(Duration::ZERO, 0), (Duration::ZERO, 1), (MS * 50, 0)] {
        let (queue, recorder) = recorded();
        queue.add_after("foo", MS * 50);
        advance(again).await;
        queue.add_with("foo", AddOptions::new().priority(priority));
        let depths = queue.stats().depths;
        assert_eq!(
            depths.iter().map(|row| (row.priority, row.len)).collect::<Vec<_>>(),
            [(Some(priority), 1)]
        );
        let item = queue.get().await.unwrap();
        assert_eq!(
            (item.priority(), queue.stats().depths.len(), recorder.record.lock().adds),
            (priority, 0, 1)
        );
        item.done();
        advance(MS * 100).await;
        assert_eq!((queue.len(), recorder.record.lock().adds), (0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_are_adds_with_a_delay_or_a_rate_limit() {
    let (queue, recorder) = recorded();
    queue.add("foo");
    queue.add_after("bar", MS);
    queue.add_rate_limited("baz");
    queue.get().await.unwrap().retry();
    assert_eq!(recorder.record.lock().retries, 3);
}

#[tokio::test(start_paused = true)]
async fn depth_counts_ready_keys_by_priority_when_delays_end_and_priorities_rise() {
    let (queue, recorder) = recorded();
    let depths =
        || queue.stats().depths.iter().map(|row| (row.priority.unwrap(), row.len)).collect::<Vec<_>>();
    queue.add_with("foo", AddOptions::new().priority(1).after(MS));
    queue.add("bar");
    assert_eq!(depths(), [(0, 1)]);
    advance(MS).await;
    assert_eq!(depths(), [(1, 1), (0, 1)]);
    queue.add_with("foo", AddOptions::new().priority(2));
    queue.add_with("bar", AddOptions::new().priority(2));
    assert_eq!(depths(), [(2, 2)]);
    assert_eq!(recorder.record.lock().adds, 2);
    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    assert_eq!(depths(), []);
}

#[test]
fn depth_has_a_bounded_number_of_rows() {
    let queue = WorkQueue::builder().fair_by(|key: &u32| key.to_string().into()).build();
    queue.add_all(0..250);
    let stats = queue.stats();
    assert_eq!((stats.depths.len(), stats.others, stats.ready), (100, 150, 250));
    assert!(stats.depths.iter().all(|row| row.group.is_some() && row.priority.is_none() && row.len == 1));
}

#[test]
fn the_probe_does_not_keep_a_dropped_queue_alive() {
    let (queue, recorder) = recorded();
    let probe = recorder.probe.lock().clone().unwrap();
    assert!(probe.stats().is_some());
    drop(queue);
    assert!(probe.stats().is_none());
}

#[cfg(feature = "prometheus")]
mod prometheus {
    use informer_workqueue::{PrometheusMetrics, WorkQueue};
    use prometheus_client::registry::Registry;

    use super::{AddOptions, Aging, MS, advance};

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry)
            .expect("writing to a string cannot fail");
        text
    }

    #[tokio::test(start_paused = true)]
    async fn names_and_buckets_are_those_of_client_go() {
        let mut registry = Registry::default();
        let metrics = PrometheusMetrics::register(&mut registry);
        let queue = WorkQueue::builder().metrics(metrics.queue("pods")).build();
        queue.add_all(["a", "b", "c"]);
        queue.add_after("d", MS);
        let first = queue.get().await.unwrap();
        advance(MS * 10).await;
        queue.get().await.unwrap().done();
        let text = text(&registry);
        for line in [
            r#"workqueue_depth{name="pods"} 2.0"#,
            r#"workqueue_adds_total{name="pods"} 4"#,
            r#"workqueue_retries_total{name="pods"} 1"#,
            r#"workqueue_queue_duration_seconds_count{name="pods"} 2"#,
            r#"workqueue_work_duration_seconds_count{name="pods"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="pods"} 0.01"#,
            r#"workqueue_longest_running_processor_seconds{name="pods"} 0.01"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        let buckets: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with("workqueue_work_duration_seconds_bucket"))
            .filter_map(|line| line.split_once("le=\"")?.1.split_once('"')?.0.parse().ok())
            .filter(|bucket: &f64| bucket.is_finite())
            .collect();
        assert_eq!(buckets.len(), 10);
        for (bucket, power) in buckets.iter().zip(-8..) {
            assert!((bucket / 10_f64.powi(power) - 1.0).abs() < 1e-6, "{bucket}");
        }
        first.done();
    }

    #[test]
    fn depth_is_exported_by_priority_and_group_until_the_queue_is_dropped() {
        let mut registry = Registry::default();
        let metrics = PrometheusMetrics::register(&mut registry);
        let queue = WorkQueue::builder()
            .priorities(Aging::Off)
            .fair_by(|key: &(&'static str, u8)| key.0.into())
            .metrics(metrics.queue("pods"))
            .build();
        assert!(text(&registry).contains("workqueue_depth{name=\"pods\"} 0"));
        queue.add(("east", 1));
        queue.add_with(("west", 1), AddOptions::new().priority(-100));
        let before = text(&registry);
        assert!(
            before.contains(r#"workqueue_depth{name="pods",priority="-100",group="west"} 1"#),
            "{before}"
        );
        assert!(before.contains(r#"workqueue_depth{name="pods",priority="0",group="east"} 1"#), "{before}");
        drop(queue);
        let after = text(&registry);
        assert!(!after.contains("workqueue_depth{"), "{after}");
        assert!(after.contains(r#"workqueue_adds_total{name="pods"} 2"#), "counters stay: {after}");
    }
}
