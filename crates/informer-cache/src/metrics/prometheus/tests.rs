use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::{InformerMetrics, MIN_PROBES, PrometheusInformers};
use crate::handler::on_event;
use crate::testing::{ScriptedServer, ScriptedSource, TestObject, bookmark, modified, object};
use crate::{Event, HandlerOptions, SharedInformer, Undecodable};

const SOON: Duration = Duration::from_secs(5);

struct World {
    registry: Registry,
    metrics: PrometheusInformers,
}

impl World {
    fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = PrometheusInformers::register(&mut registry);
        Self { registry, metrics }
    }

    fn informer(&self, name: &str) -> (SharedInformer<TestObject>, ScriptedServer<TestObject>) {
        let (source, server) = ScriptedSource::new();
        let metrics = Arc::new(self.metrics.clone());
        (SharedInformer::builder(source).name(name).metrics(metrics).build(), server)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    #[track_caller]
    fn shows(&self, lines: &[&str]) {
        let text = self.text();
        for line in lines {
            assert!(text.lines().any(|shown| shown == *line), "{line} is not in\n{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_an_informer_are_exported_under_its_name() {
    let world = World::new();
    let (informer, mut server) = world.informer("things");
    let options = HandlerOptions::new().name("slow");
    informer.add_handler_with(options, on_event(|_: Event<TestObject>| panic!("on purpose"))).unwrap();
    world.shows(&[
        r#"informer_running{name="things"} 0.0"#,
        r#"informer_state{name="things",state="created"} 1.0"#,
    ]);

    let _run = informer.start();
    let list = server.expect_list().await.accept();
    list.items([object("a", "1"), object("b", "2")]);
    list.undecodable(Undecodable::new(Some("c".parse().unwrap()), "no body"));
    list.end("5");
    let watch = server.expect_watch().await.accept();
    watch.send(modified(object("a", "6"))).send(bookmark("1234567890123456789"));
    informer.wait_for_sync(SOON).await.unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;

    world.shows(&[
        r#"informer_objects{name="things"} 2.0"#,
        r#"informer_queued_items{name="things"} 0.0"#,
        r#"informer_store_resource_version{name="things"} 567890123456789.0"#,
        r#"informer_version_age_seconds{name="things"} 7.0"#,
        r#"informer_running{name="things"} 1.0"#,
        r#"informer_synced{name="things"} 1.0"#,
        r#"informer_state{name="things",state="watching"} 1.0"#,
        r#"informer_state{name="things",state="created"} 0.0"#,
        r#"informer_undecodable_objects{name="things"} 1.0"#,
        r#"informer_undecodable_total{name="things"} 1"#,
        r#"informer_relists_total{name="things",reason="first"} 1"#,
        r#"informer_relists_total{name="things",reason="watch_expired"} 0"#,
        r#"informer_list_requests_total{name="things"} 1"#,
        r#"informer_watches_total{name="things"} 1"#,
        r#"informer_watch_events_total{name="things",type="modified"} 1"#,
        r#"informer_watch_events_total{name="things",type="bookmark"} 1"#,
        r#"informer_handler_depth{name="things",handler="slow"} 0.0"#,
        r#"informer_handler_calls_total{name="things",handler="slow"} 3"#,
        r#"informer_handler_panics_total{name="things",handler="slow"} 3"#,
        r#"informer_handler_blocked_total{name="things",handler="slow"} 0"#,
        r#"informer_processing_latency_seconds_bucket{le="0.001",name="things"} 2"#,
    ]);
    let bytes = world.text();
    let bytes = bytes.lines().find_map(|line| line.strip_prefix(r#"informer_object_bytes{name="things"} "#));
    assert_ne!(bytes.unwrap(), "0.0");
}

#[tokio::test(start_paused = true)]
async fn no_object_name_is_in_the_metrics() {
    let world = World::new();
    let (informer, mut server) = world.informer("things");
    let _run = informer.start();
    let _watch = server.expect_sync([object("secret-namespace/secret-name", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    assert!(!world.text().contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn informers_and_handlers_with_the_same_name_are_distinguished_and_dropped_ones_removed() {
    let world = World::new();
    let (first, _server) = world.informer("things");
    let (second, _other) = world.informer("things");
    for _ in 0..2 {
        let options = HandlerOptions::new().name("same");
        first.add_handler_with(options, on_event(|_: Event<TestObject>| {})).unwrap();
    }
    world.shows(&[
        r#"informer_objects{name="things"} 0.0"#,
        r#"informer_objects{name="things#2"} 0.0"#,
        r#"informer_handler_depth{name="things",handler="same"} 0.0"#,
        r#"informer_handler_depth{name="things",handler="same#2"} 0.0"#,
    ]);
    drop(second);
    assert!(!world.text().contains("things#2"));
    drop(first);
    assert!(!world.text().contains("things"));
}

#[tokio::test(start_paused = true)]
async fn the_latencies_of_a_dropped_informer_are_removed() {
    let world = World::new();
    for name in ["stays", "goes"] {
        let (informer, mut server) = world.informer(name);
        let run = informer.start();
        let _watch = server.expect_sync([object("a", "1")], "5").await;
        informer.wait_for_sync(SOON).await.unwrap();
        let count = format!(r#"informer_processing_latency_seconds_count{{name="{name}"}} 1"#);
        world.shows(&[&count]);
        run.stop().await;
        if name == "stays" {
            std::mem::forget(informer);
        }
    }
    world.shows(&[r#"informer_processing_latency_seconds_count{name="stays"} 1"#]);
    assert!(!world.text().contains("goes"));
}

#[tokio::test]
async fn dropped_informers_do_not_accumulate_without_scrapes() {
    let world = World::new();
    let (_stays, _server) = world.informer("stays");
    for _ in 0..10_000 {
        world.informer("goes");
    }
    let kept = format!("{:?}", world.metrics);
    let count: String = kept.chars().filter(char::is_ascii_digit).collect();
    assert!(count.parse::<usize>().unwrap() <= 128, "{kept}");
}

#[tokio::test]
async fn latencies_of_dropped_informers_do_not_accumulate_without_scrapes() {
    let world = World::new();
    let (_stays, _server) = world.informer("stays");
    world.metrics.processed("stays", 1, Duration::from_millis(2));
    for number in 0..1000 {
        let name = format!("goes {number}");
        let _informer = world.informer(&name);
        world.metrics.processed(&name, 1, Duration::from_millis(2));
    }
    assert!(world.metrics.latencies.lock().len() <= MIN_PROBES + 1);
    world.shows(&[r#"informer_processing_latency_seconds_count{name="stays"} 1"#]);
}
