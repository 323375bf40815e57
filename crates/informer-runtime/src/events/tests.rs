use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use informer_apiserver::{ApiServer, Fault, FaultAction, FaultMatch, KindDefinition, Verb};
use informer_client::{Client, Dynamic, Lazy, Representation, ResourceKind, Typed};
use informer_core::Gvr;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::state::{EventState, MAX_SERIES};
use super::{EventKey, EventRecorder, EventSender, EventType, Recorded};
use crate::{BoxError, EventSubject, ListOptions, Runnable};

struct Fixture {
    server: ApiServer,
    recorder: EventRecorder,
    stop: CancellationToken,
    task: JoinHandle<Result<(), BoxError>>,
}

impl Fixture {
    fn new() -> Self {
        let kind = KindDefinition::custom("events.k8s.io", "v1", "Event").without_status();
        let server = ApiServer::builder().kind(kind).build();
        let (sender, recorder) = EventSender::new(Client::from_service(server.service(), "default"));
        let stop = CancellationToken::new();
        let task = tokio::spawn(Box::new(sender).run(stop.clone()));
        Self { server, recorder: recorder.of("tests"), stop, task }
    }

    fn events(&self) -> Vec<Value> {
        self.server.list(&Gvr::new("events.k8s.io", "v1", "events"), "").expect("the kind is served")
    }

    fn record(&self, reason: &str) {
        self.recorder.normal(&pod(), reason, "Testing", format!("about {reason}"));
    }

    fn writes(&self) -> usize {
        let count = |verb| self.server.count_requests(verb, "events");
        count(Verb::Create) + count(Verb::Patch)
    }

    fn on(&self, verb: Verb) -> informer_apiserver::FaultBuilder {
        self.server.faults().on(FaultMatch::verb(verb))
    }
}

fn pod() -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("shop".to_owned());
    pod.metadata.uid = Some("4711".to_owned());
    pod
}

#[tokio::test(start_paused = true)]
async fn event_has_reference_reason_action_and_note() {
    let fixture = Fixture::new();
    fixture.recorder.warning(&pod(), "Broken", "Mending", "it fell");
    sleep(Duration::from_secs(1)).await;
    let event = fixture.events().pop().expect("it exists");
    assert_eq!(
        (&event["type"], &event["reason"], &event["action"]),
        (&"Warning".into(), &"Broken".into(), &"Mending".into())
    );
    assert_eq!((&event["note"], &event["reportingController"]), (&"it fell".into(), &"tests".into()));
    assert_eq!(event["metadata"]["namespace"], "shop");
    let regarding = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "4711"});
    assert_eq!(event["regarding"], regarding);
    assert!(event["eventTime"].is_string() && event["series"].is_null());
    assert!(event["reportingInstance"].as_str().is_some_and(|instance| !instance.is_empty()));
}

/// Returns an embedded server with a Pod, and a client that reads every kind from its cache.
fn pod_on_a_server() -> (Fixture, crate::CachedClient) {
    let fixture = Fixture::new();
    let spec = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    fixture.server.create(&Gvr::new("", "v1", "pods"), "shop", spec).expect("a valid object");
    let cache = crate::Cache::new(Client::from_service(fixture.server.service(), "default"));
    cache.start();
    (fixture, crate::CachedClient::new(&cache))
}

#[tokio::test(start_paused = true)]
async fn events_have_full_references_to_objects_of_every_representation() {
    let (fixture, client) = pod_on_a_server();
    let (cache, pods, key) = (client.cache(), ResourceKind::of::<Pod>(), "shop/web");
    let gvk = pods.gvk();
    let dynamic = client.dynamic(pods.clone());
    let subjects = [
        ("Fetched", EventSubject::from(&client.get::<Pod>(key).await.unwrap().unwrap())),
        ("Type", EventSubject::from(&**client.get::<Pod>(key).await.unwrap().unwrap().view())),
        ("DynamicGet", EventSubject::of_dynamic(&dynamic.get(key).await.unwrap().unwrap())),
        ("DynamicList", EventSubject::of_dynamic(&dynamic.list(&ListOptions::default()).await.unwrap()[0])),
        ("Lazy", EventSubject::of(&*read::<Lazy<Pod>>(cache, &pods).await)),
        ("Typed", EventSubject::of(&*read::<Typed<Pod>>(cache, &pods).await)),
        ("Metadata", EventSubject::of(&*read::<informer_client::Metadata<Pod>>(cache, &pods).await)),
        ("Dynamic", EventSubject::of_kind(gvk, &*read::<Dynamic>(cache, &pods).await)),
        ("Untyped", EventSubject::of_kind(gvk, &*read::<informer_client::Metadata>(cache, &pods).await)),
    ];
    let stored = fixture.server.get(&Gvr::new("", "v1", "pods"), "shop", "web").unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web",
        "uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"],
    });
    for (reason, subject) in subjects {
        fixture.recorder.normal(subject, reason, "Testing", "x");
    }
    sleep(Duration::from_secs(1)).await;
    let events = fixture.events();
    assert_eq!(events.len(), 9);
    for event in events {
        assert_eq!(event["regarding"], expected, "{}", event["reason"]);
    }
}

async fn read<O: Representation>(cache: &crate::Cache, kind: &ResourceKind) -> Arc<O> {
    let informer = cache.informer_of::<O>(kind.clone());
    informer.wait_for_sync(Duration::from_secs(10)).await.expect("the kind is served");
    informer.get("shop/web").expect("the namespace is cached").expect("the Pod exists")
}

#[tokio::test(start_paused = true)]
async fn events_about_cluster_scoped_objects_are_in_the_default_namespace_with_uid() {
    let fixture = Fixture::new();
    let mut node = k8s_openapi::api::core::v1::Node::default();
    node.metadata.name = Some("worker-1".to_owned());
    node.metadata.uid = Some("4711".to_owned());
    fixture.recorder.normal(&node, "Full", "Testing", "x");
    sleep(Duration::from_secs(1)).await;
    let event = fixture.events().pop().expect("it exists");
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(
        event["regarding"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "worker-1", "uid": "4711"})
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_different_versions_of_an_object_form_one_series() {
    let fixture = Fixture::new();
    for version in ["1", "2"] {
        let mut pod = pod();
        pod.metadata.resource_version = Some(version.to_owned());
        fixture.recorder.normal(&pod, "Changed", "Testing", "x");
    }
    sleep(Duration::from_secs(1)).await;
    let events = fixture.events();
    assert_eq!((events.len(), &events[0]["series"]["count"]), (1, &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn event_with_related_object_is_a_different_event() {
    let fixture = Fixture::new();
    for node in ["worker-1", "worker-2"] {
        let recorder = fixture.recorder.related(EventSubject::new("v1", "Node", "", node));
        recorder.normal(&pod(), "Moved", "Moving", "to another node");
    }
    fixture.recorder.normal(&pod(), "Moved", "Moving", "to another node");
    sleep(Duration::from_secs(1)).await;
    let events = fixture.events();
    let mut related: Vec<&str> =
        events.iter().filter_map(|event| event["related"]["name"].as_str()).collect();
    related.sort_unstable();
    assert_eq!((related, events.len()), (vec!["worker-1", "worker-2"], 3));
}

#[tokio::test(start_paused = true)]
async fn second_event_starts_a_series_and_final_count_is_sent_at_its_end() {
    let fixture = Fixture::new();
    for _ in 0..10 {
        fixture.record("Again");
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(fixture.writes(), 2, "one event, one series");
    assert_eq!(fixture.events()[0]["series"]["count"], 2);
    sleep(Duration::from_secs(500)).await;
    assert_eq!(fixture.writes(), 3);
    assert_eq!(fixture.events()[0]["series"]["count"], 10);
    fixture.record("Again");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.events().len(), 2, "a later event starts a new one");
}

#[tokio::test(start_paused = true)]
async fn running_series_updates_its_count_every_half_hour() {
    let fixture = Fixture::new();
    for _ in 0..100 {
        fixture.record("Again");
        sleep(Duration::from_secs(60)).await;
    }
    assert!((4..=6).contains(&fixture.writes()), "{} requests", fixture.writes());
    assert_eq!(fixture.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_per_object_are_rate_limited_and_drops_are_counted() {
    let fixture = Fixture::new();
    for number in 0..100 {
        fixture.record(&format!("Reason{number}"));
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!((fixture.events().len(), fixture.recorder.dropped()), (25, 75));
    sleep(Duration::from_secs(301)).await;
    fixture.record("OneMore");
    fixture.record("TwoMore");
    sleep(Duration::from_secs(5)).await;
    assert_eq!((fixture.events().len(), fixture.recorder.dropped()), (26, 76));
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_overflow_is_counted() {
    let fixture = Fixture::new();
    let _silent: Fault = fixture.on(Verb::Create).then(FaultAction::NeverAnswer);
    for number in 0..2000 {
        let subject = EventSubject::new("v1", "Pod", "default", &format!("pod-{number}"));
        fixture.recorder.normal(subject, "Flood", "Testing", "");
    }
    assert_eq!(fixture.recorder.dropped(), 1000);
}

#[tokio::test(start_paused = true)]
async fn temporarily_failed_event_is_retried() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).times(3).status(503);
    fixture.record("Late");
    sleep(Duration::from_secs(60)).await;
    assert_eq!((fixture.events().len(), fixture.recorder.dropped()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn event_with_taken_name_gets_another_name() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).times(2).status(409);
    fixture.record("Second");
    sleep(Duration::from_secs(1)).await;
    assert_eq!((fixture.events().len(), fixture.recorder.dropped()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn event_without_free_name_is_counted_as_dropped() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).times(1000).status(409);
    fixture.record("Nameless");
    sleep(Duration::from_secs(600)).await;
    assert_eq!((fixture.writes(), fixture.recorder.dropped()), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn event_with_lost_response_exists_once() {
    let fixture = Fixture::new();
    let lost = fixture.on(Verb::Create).lose_answer();
    fixture.record("Once");
    sleep(Duration::from_secs(60)).await;
    assert_eq!((lost.fired(), fixture.events().len(), fixture.recorder.dropped()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn event_repeated_by_the_stop_exists_once() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).lose_answer();
    fixture.record("Once");
    sleep(Duration::from_millis(1)).await;
    fixture.stop.cancel();
    fixture.task.await.expect("no panic").expect("a clean stop");
    let events =
        fixture.server.list(&Gvr::new("events.k8s.io", "v1", "events"), "").expect("the kind is served");
    assert_eq!((events.len(), fixture.recorder.dropped()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn final_counts_of_many_series_are_sent_with_bounded_concurrency() {
    let (now, most, all) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::default());
    let counts = (Arc::clone(&now), Arc::clone(&most), Arc::<AtomicUsize>::clone(&all));
    let service = tower::service_fn(move |_: http::Request<http_body_util::Full<bytes::Bytes>>| {
        let (now, most, all) = counts.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            all.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, Relaxed);
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        }
    });
    let (sender, recorder) = EventSender::new(Client::from_service(service, "default"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(Box::new(sender).run(stop.clone()));
    for _ in 0..3 {
        for number in 0..100 {
            let mut one = pod();
            one.metadata.name = Some(format!("web-{number}"));
            recorder.normal(&one, "Again", "Testing", "");
        }
        sleep(Duration::from_secs(5)).await;
    }
    sleep(Duration::from_secs(600)).await;
    assert_eq!((all.load(Relaxed), recorder.dropped()), (300, 0));
    assert!(most.load(Relaxed) <= super::MAX_REQUESTS, "{most:?} at a time");
    stop.cancel();
    task.await.expect("no panic").expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_not_retried() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).status(403);
    fixture.record("Forbidden");
    sleep(Duration::from_secs(600)).await;
    assert_eq!((fixture.writes(), fixture.recorder.dropped()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn object_name_that_is_invalid_in_event_names_is_replaced() {
    let fixture = Fixture::new();
    let long = format!("{}-b", "a".repeat(199));
    for name in ["system:node", "Upper", "dots..dots", &long, "plain.name"] {
        let mut named = pod();
        named.metadata.name = Some(name.to_owned());
        fixture.recorder.normal(&named, "Named", "Naming", "oddly");
    }
    sleep(Duration::from_secs(1)).await;
    let events = fixture.events();
    let names = events.iter().filter_map(|event| event["metadata"]["name"].as_str());
    let mut stems: Vec<&str> = names.filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
    stems.sort_unstable();
    assert_eq!(stems, [&long[..199], "event", "event", "event", "plain.name"]);
}

#[tokio::test(start_paused = true)]
async fn event_with_invalid_namespace_sends_no_request() {
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |_: http::Request<http_body_util::Full<bytes::Bytes>>| {
        count.fetch_add(1, Relaxed);
        std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(String::new())))
    });
    let (sender, recorder) = EventSender::new(Client::from_service(service, "default"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(Box::new(sender).run(stop.clone()));
    let mut odd = pod();
    odd.metadata.namespace = Some("no such place".to_owned());
    recorder.normal(&odd, "Lost", "Losing", "");
    sleep(Duration::from_secs(1)).await;
    assert_eq!((asked.load(Relaxed), recorder.dropped()), (0, 1));
    stop.cancel();
    task.await.expect("no panic").expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn series_restarts_after_its_event_was_deleted() {
    let fixture = Fixture::new();
    fixture.record("Again");
    sleep(Duration::from_secs(1)).await;
    let name = fixture.events()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let gvr = Gvr::new("events.k8s.io", "v1", "events");
    fixture.server.delete(&gvr, "shop", &name).expect("it exists");
    fixture.record("Again");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.events()[0]["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn stop_flushes_waiting_events_and_counts() {
    let fixture = Fixture::new();
    for _ in 0..5 {
        fixture.record("Again");
        sleep(Duration::from_secs(1)).await;
    }
    fixture.record("Last");
    fixture.stop.cancel();
    let (server, recorder) = (fixture.server.clone(), fixture.recorder.clone());
    fixture.task.await.expect("no panic").expect("a clean stop");
    let events = server.list(&Gvr::new("events.k8s.io", "v1", "events"), "").expect("the kind is served");
    let count = |reason: &str| {
        events.iter().find(|event| event["reason"] == reason).map(|event| event["series"]["count"].clone())
    };
    assert_eq!(count("Again"), Some(5.into()));
    assert_eq!(count("Last"), Some(Value::Null));
    recorder.normal(&pod(), "TooLate", "Testing", "");
    assert_eq!(recorder.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn stop_without_server_ends_within_flush_timeout() {
    let fixture = Fixture::new();
    fixture.on(Verb::Create).then(FaultAction::NeverAnswer);
    fixture.record("Lost");
    sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    fixture.stop.cancel();
    fixture.task.await.expect("no panic").expect("a clean stop");
    assert_eq!(begun.elapsed(), super::FLUSH_TIMEOUT);
}

#[test]
fn long_strings_are_truncated_at_character_boundaries() {
    assert_eq!(super::cut("äöü", 3), "ä");
    assert_eq!(super::cut("abc", 3), "abc");
    assert_eq!(super::cut("", 3), "");
}

#[test]
fn events_at_the_same_time_have_unique_names() {
    let (mut state, now) = (EventState::default(), tokio::time::Instant::now().into_std());
    let mut record = |kind: &str, reason: &str| {
        let key = EventKey {
            event_type: EventType::Normal,
            reason: reason.to_owned(),
            action: String::new(),
            controller: "tests".into(),
            regarding: EventSubject::new("v1", kind, "shop", "web"),
            related: None,
            distinct_note: None,
        };
        let recorded = Recorded { key, note: String::new() };
        let write = state.record(recorded, now, Timestamp::UNIX_EPOCH).expect("the first event");
        write.expect("a request").name
    };
    let names = [record("Pod", "Made"), record("Pod", "Moved"), record("Service", "Made")];
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), 3, "{names:?}");
}

#[test]
fn number_of_series_is_bounded() {
    let (mut state, now) = (EventState::default(), tokio::time::Instant::now().into_std());
    for number in 0..10 * MAX_SERIES as u64 {
        let key = EventKey {
            event_type: EventType::Normal,
            reason: "Flood".to_owned(),
            action: String::new(),
            controller: "tests".into(),
            regarding: EventSubject::new("v1", "Pod", "default", &format!("pod-{number}")),
            related: None,
            distinct_note: None,
        };
        let later = now + Duration::from_millis(number);
        let recorded = Recorded { key, note: String::new() };
        assert!(state.record(recorded, later, Timestamp::UNIX_EPOCH).is_ok());
        assert!(state.len() <= 2 * MAX_SERIES);
    }
}

#[tokio::test(start_paused = true)]
async fn sinks_receive_each_event_of_a_series_and_may_panic() {
    let server = ApiServer::builder().build();
    let received = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    let client = Client::from_service(server.service(), "default");
    let manager = crate::Manager::new(client)
        .event_sink(|_: &super::RecordedEvent| panic!("in a sink"))
        .event_sink(move |event: &super::RecordedEvent| log.lock().push(event.to_string()));
    let (handle, recorder) = (manager.handle(), manager.handle().recorder("tests"));
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    for note in ["first", "second", "third"] {
        recorder.normal(&pod(), "Moved", "Move", note);
    }
    sleep(Duration::from_secs(1)).await;
    handle.stop();
    task.await.expect("no panic").expect("a clean stop");
    let expected = ["first", "second", "third"].map(|note| format!("Normal Moved Pod shop/web: {note}"));
    assert_eq!(*received.lock(), expected);
}
