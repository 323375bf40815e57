use prometheus_client::encoding::text::encode;

use super::*;
use crate::WorkQueue;

#[test]
fn probes_of_dropped_queues_are_removed_without_a_scrape() {
    let metrics = PrometheusMetrics::register(&mut Registry::default());
    let make = || WorkQueue::<u32>::builder().metrics(metrics.queue("of a moment")).build();
    let steady: Vec<_> = (0..100).map(|_| make()).collect();
    for _ in 0..10_000 {
        drop(make());
        let held = metrics.queues.probes.lock().list.len();
        assert!(held <= 2 * steady.len(), "{held}");
    }
}

#[test]
fn dropped_queues_are_not_exported_and_live_ones_are() {
    let mut registry = Registry::default();
    let metrics = PrometheusMetrics::register(&mut registry);
    let [kept, gone] = ["kept", "gone"].map(|name| WorkQueue::builder().metrics(metrics.queue(name)).build());
    kept.add(1);
    gone.add(1);
    drop(gone);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains("workqueue_depth{name=\"kept\"} 1.0\n"), "{text}");
    assert!(!text.contains("workqueue_depth{name=\"gone\"}"), "{text}");
    assert_eq!(metrics.queues.probes.lock().list.len(), 1);
}

#[test]
fn depths_of_queues_with_the_same_name_are_summed() {
    let mut registry = Registry::default();
    let metrics = PrometheusMetrics::register(&mut registry);
    let queues = [2, 3].map(|keys| {
        let queue = WorkQueue::builder().metrics(metrics.queue("shared")).build();
        for key in 0..keys {
            queue.add(key);
        }
        queue
    });
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains("workqueue_depth{name=\"shared\"} 5.0\n"), "{text}");
    drop(queues);
}
