//! Tests of invalid responses of servers. Each must end in an error that names the operation and the remedy.
//! The cache must keep its objects, and other informers must continue.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use informer::cache::SharedInformerFactory;
use informer::cache::reflector::{ReflectorConfig, RelistReason};
use informer::client::{Client, Lazy, ResourceKind, StreamingLists};
use informer::testing::{TestServer, list, pod, watch};
use informer::{FieldSelector, Object as _};
use informer_apiserver::{FaultAction, KindDefinition};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::fixture::{Beside, eventually, item, pod_list, respond_with, text};

const MINUTE: Duration = Duration::from_secs(60);

/// Tests an invalid response to relists of Pods, and returns the error that the informer of Pods reports.
/// `action` is the fault that replaces the responses. Checks that the cache and another informer are
/// unaffected, and that the informer recovers after the fault is removed.
async fn relist_fails(action: FaultAction) -> String {
    let beside = Beside::start().await;
    let fault = beside.relist(u64::MAX, action);
    let error = beside.failure().await;
    beside.holds().await;
    fault.remove();
    beside.recovers().await;
    error
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_json_is_named_with_the_place_and_leaves_the_cache_alone() {
    let error = relist_fails(text(r#"{"kind":"PodList","items":[}"#)).await;
    assert_eq!(error, "list pods: not JSON: expected a value at byte 27, found '}'");
    let error = relist_fails(text("<html>a login page</html>")).await;
    assert!(
        error.contains("list pods") && error.contains("check that the address is that of an API server"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_no_list() {
    let begin = json!({"kind": "PodList", "items": [item("half", 3)]}).to_string();
    let error = relist_fails(text(&begin[..begin.len() - 2])).await;
    assert!(error.starts_with("list pods: the response was cut off after "), "{error}");
    assert!(error.ends_with("the list is repeated"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_watch_ends_it_and_loses_no_event() {
    let beside = Beside::start().await;
    beside.server.faults().on(watch::<Pod>()).nth(1).then(FaultAction::Garbage { after_events: 0 });
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
    let reflector = beside.pods.state().reflector;
    let error = reflector.last_error.unwrap().to_string();
    // In a protobuf watch, each event starts with its length. The response is text instead, so the client
    // reads its first bytes as a length that is over the limit.
    assert!(error.starts_with("watch pods: an event is over the limit"), "{error}");
    assert_eq!(reflector.relists.get(RelistReason::WatchFailed), 1, "its version cannot be relied on");
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_of_a_watch_is_a_broken_connection_that_is_resumed_without_a_list() {
    let beside = Beside::start().await;
    beside.server.faults().on(watch::<Pod>()).nth(1).then(FaultAction::HalfFrame { after_events: 0 });
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
    let error = beside.pods.state().reflector.last_error.unwrap().to_string();
    assert!(error.starts_with("watch pods: ") && error.contains("the response ended"), "{error}");
    assert_eq!(beside.server.requests(list::<Pod>()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn objects_without_metadata_or_name_are_quarantined_and_others_are_delivered() {
    let beside = Beside::start().await;
    let version = beside.server.server().version();
    let kept = serde_json::to_value(beside.server.get::<Pod>("default/kept").await.unwrap()).unwrap();
    let items =
        [json!({"spec": {}}), kept, json!({"metadata": {"namespace": "default"}}), item("good", version)];
    beside.relist(1, pod_list(version, "", &items));
    beside.pods.wait_until(|pods| pods.contains("default/good")).await.unwrap();
    assert!(beside.pods.indexer().contains("default/kept"));
    let undecodable: Vec<String> = beside.pods.undecodable().iter().map(ToString::to_string).collect();
    assert_eq!(
        undecodable,
        ["an object without a readable name: metadata.name: missing"],
        "the log contains only the newest one"
    );
    assert_eq!(beside.pods.state().undecodable_total, 2);
    beside.holds().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_twice_in_a_list_is_taken_once_in_its_last_state() {
    let mut beside = Beside::start().await;
    let version = beside.server.server().version();
    beside.server.server().skip_to(version + 10);
    let mut kept = serde_json::to_value(beside.server.get::<Pod>("default/kept").await.unwrap()).unwrap();
    let first = kept.clone();
    kept["metadata"]["resourceVersion"] = (version + 9).to_string().into();
    beside.relist(1, pod_list(version + 10, "", &[first, kept]));
    let event = beside.events.next().await.unwrap();
    assert_eq!(event.to_string(), format!("updated default/kept @{version} -> @{}", version + 9));
    assert_eq!((beside.pods.indexer().len(), beside.pods.state().reflector.duplicates), (1, 1));
    beside.holds().await;
    beside.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn pages_that_never_end_are_given_up_with_the_limit_in_the_error() {
    let server = TestServer::start().await;
    let mut config = ReflectorConfig::named("pods");
    config.max_pages = 5;
    let factory =
        SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off).reflector(config);
    let pods = factory.informer::<Pod>();
    let endless = |page: u64| pod_list(9, &format!("token {page}"), &[item(&format!("of-page-{page}"), 9)]);
    // Each page has a different continue token. A repeated token would end the list with another error than
    // the tested one, that of too many pages.
    for page in 1..=20 {
        server.faults().on(list::<Pod>()).nth(page).then(endless(page));
    }
    let _run = pods.start();
    let error = pods.wait_for_sync(Duration::from_millis(100)).await.unwrap_err().to_string();
    assert!(error.contains("pods") && error.contains("more than 5 pages (max_pages)"), "{error}");
    assert_eq!(server.requests(list::<Pod>()).count(), 5);
    assert!(pods.indexer().is_empty(), "a truncated list is not applied");
    // The faults replace the first 20 pages. The first list fails after 5 of them, which is the limit
    // `max_pages`, and the first three retries fail in the same way. The fourth retry receives a valid list.
    pods.wait_for_sync(10 * MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_line_of_two_gigabytes_is_given_up_at_the_limit_that_the_error_names() {
    const CHUNK: usize = 1 << 20;
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let service = tower::service_fn(move |_: http::Request<Full<Bytes>>| {
        let taken = Arc::clone(&counted);
        async move {
            let begin = r#"{"kind":"PodList","items":[{"metadata":{"name":"long","annotations":{"a":""#;
            let chunk = Bytes::from(vec![b'x'; CHUNK]);
            let line = stream::repeat(chunk).take((2 << 30) / CHUNK).inspect(move |chunk| {
                taken.fetch_add(chunk.len(), Ordering::Relaxed);
            });
            let body = stream::iter([Bytes::from_static(begin.as_bytes())]).chain(line);
            let body = StreamBody::new(body.map(|data| Ok::<_, Infallible>(Frame::data(data))));
            let json = http::Response::builder().header("content-type", "application/json");
            Ok::<_, Infallible>(json.body(body).unwrap())
        }
    });
    let mut read = informer::client::ReadOptions::default();
    read.limits.object_bytes = 4 * CHUNK;
    let client = Client::from_service(service, "default");
    let factory = SharedInformerFactory::new(client).streaming_lists(StreamingLists::Off).read_options(read);
    let pods = factory.informer::<Pod>();
    let _run = pods.start();
    let error = pods.wait_for_sync(Duration::from_millis(100)).await.unwrap_err().to_string();
    let limit =
        format!("list pods: an object is over the limit of {} bytes (Limits::object_bytes)", 4 * CHUNK);
    assert!(error.contains(&limit), "{error}");
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken <= 6 * CHUNK, "{taken} bytes were read before the client aborted");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_another_kind_is_refused() {
    let node = json!({"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [item("node", 9)]});
    let error = relist_fails(text(node.to_string())).await;
    assert_eq!(error, r#"list pods: expected a PodList, but it is "NodeList"; check group and kind"#);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_number_is_used_as_it_is_and_left_when_the_server_refuses_it() {
    let beside = Beside::start().await;
    let kept = serde_json::to_value(beside.server.get::<Pod>("default/kept").await.unwrap()).unwrap();
    beside.relist(1, pod_list("seven", "", &[kept]));
    let error = beside.failure().await;
    assert!(
        error.starts_with("watch pods: the server responded with 500: resourceVersion: Invalid value"),
        "{error}"
    );
    let asked: Vec<String> =
        beside.server.requests(watch::<Pod>()).map(|watch| watch.resource_version).collect();
    assert_eq!(asked.last().unwrap(), "seven");
    beside.holds().await;
    beside.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_an_older_version_is_not_applied_but_read_again_consistently() {
    let beside = Beside::start().await;
    beside.server.create(&pod("default/second")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/second")).await.unwrap();
    let seen = beside.server.server().version().to_string();
    beside.relist(1, FaultAction::Rewind { by: 1 });
    eventually(|| beside.server.requests(list::<Pod>()).count() == 3).await;
    eventually(|| beside.server.requests(watch::<Pod>()).count() == 2).await;
    let state = beside.pods.state();
    assert_eq!((state.objects, state.reflector.stale_lists, state.reflector.rewound), (2, 1, 0));
    let asked: Vec<String> =
        beside.server.requests(list::<Pod>()).map(|list| list.resource_version).collect();
    assert_eq!(asked, ["0", &seen, ""], "the last one is the consistent read");
    beside.holds().await;
}

#[tokio::test(start_paused = true)]
async fn events_of_older_versions_are_counted_and_not_applied() {
    let mut beside = Beside::start().await;
    let mut kept: Pod = beside.server.get("default/kept").await.unwrap();
    for round in 0..3 {
        kept.metadata.labels = Some([("round".to_owned(), round.to_string())].into());
        beside.server.update(&kept).await.unwrap();
        let event = beside.events.next().await.unwrap();
        assert_eq!(event.object().labels().get("round"), Some(round.to_string().as_str()));
        kept = beside.server.get("default/kept").await.unwrap();
    }
    beside.server.faults().on(watch::<Pod>()).times(1).then(FaultAction::Rewind { by: 2 });
    beside.server.faults().on(watch::<Pod>()).nth(1).cut_after(0);
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
    let state = beside.pods.state();
    assert!(state.counters.stale >= 1 && state.reflector.older_versions >= 1, "{state:?}");
    assert_eq!(beside.pods.indexer().get("default/kept").unwrap().labels().get("round"), Some("2"));
    let event = beside.events.next().await.unwrap();
    assert_eq!(event.key(), "default/next", "older states are not delivered");
}

#[tokio::test(start_paused = true)]
async fn an_event_of_an_unknown_type_is_counted_and_those_behind_it_flow() {
    let beside = Beside::start().await;
    beside.server.faults().on(watch::<Pod>()).nth(1).then(FaultAction::UnknownEvent { after_events: 0 });
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
    let events = beside.pods.state().reflector.events;
    assert_eq!((events.unknown, events.added), (1, 1));
    assert_eq!(beside.server.requests(list::<Pod>()).count(), 1);
    beside.holds().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_silent_server_returns_an_error_that_names_it() {
    let error = relist_fails(FaultAction::NeverAnswer).await;
    assert_eq!(error, "list pods: no response within 75s; check that the address is an API server");
    let server = TestServer::start().await;
    server.faults().on(list::<Pod>()).then(FaultAction::NeverAnswer);
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    let pods = factory.informer::<Pod>();
    let _run = pods.start();
    let error = pods.wait_for_sync(2 * MINUTE).await.unwrap_err().to_string();
    assert!(
        error.starts_with("not synced after 120s: ") && error.contains("no response within 75s"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_refusal_says_what_was_attempted_and_what_to_do() {
    let cases = [
        (401, "check the credentials"),
        (403, "grant list and watch on it"),
        (404, "check that the kind (its CustomResourceDefinition) exists on the server"),
        (406, ""),
        (415, ""),
    ];
    for (code, advice) in cases {
        let status = FaultAction::Status { code, reason: None, message: None, retry_after: None, body: None };
        let error = relist_fails(status).await;
        assert!(error.starts_with(&format!("list pods: the server responded with {code} ")), "{error}");
        assert!(error.ends_with(advice), "{error}");
    }
    // This fault simulates a proxy that responds with plain text instead of the API server's `Status` object.
    let error = relist_fails(respond_with(503, "upstream connect error\n")).await;
    assert!(
        error.starts_with("list pods: the server responded with 503 ") && error.ends_with("connect error"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_later_is_named_until_then_and_asked_for_less_and_less() {
    let server = TestServer::start().await;
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    let widgets = factory.dynamic(ResourceKind::new("example.com", "v1", "Widget", "widgets"));
    let pods = factory.informer::<Pod>();
    factory.start();
    let error = factory.wait_for_cache_sync(5 * MINUTE).await.unwrap_err();
    assert_eq!(error.unsynced().len(), 1, "{error}");
    let text = error.to_string();
    assert!(text.contains("list widgets.example.com: the server responded with 404 "), "{text}");
    assert!(
        text.contains("check that the kind (its CustomResourceDefinition) exists on the server"),
        "{text}"
    );
    assert!(pods.has_synced());
    let tries = server.server().requests().iter().filter(|request| request.path.contains("widgets")).count();
    assert!((8..30).contains(&tries), "{tries} tries in five minutes");
    server.server().register(KindDefinition::custom("example.com", "v1", "Widget"));
    widgets.wait_for_sync(MINUTE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_cannot_be_read_or_is_not_supported_is_named() {
    let error = "spec.nodeName".parse::<FieldSelector>().unwrap_err().to_string();
    assert!(error.contains("spec.nodeName"), "{error}");
    let server = TestServer::start().await;
    let factory = SharedInformerFactory::new(server.client())
        .streaming_lists(StreamingLists::Off)
        .fields("spec.colour=red".parse().unwrap());
    let pods = factory.informer::<Pod>();
    let _run = pods.start();
    let error = pods.wait_for_sync(MINUTE).await.unwrap_err().to_string();
    assert!(
        error.contains("list pods with fields spec.colour=red: the server responded with 400 "),
        "{error}"
    );
    assert!(error.contains("field label not supported: spec.colour"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_shape_is_kept_by_its_header_and_named_by_its_first_reader() {
    let beside = Beside::start().await;
    let version = beside.server.server().version();
    let kept = serde_json::to_value(beside.server.get::<Pod>("default/kept").await.unwrap()).unwrap();
    let mut odd = item("odd", version);
    odd["spec"]["containers"] = "none".into();
    beside.relist(1, pod_list(version, "", &[kept, odd]));
    beside.pods.wait_until(|pods| pods.len() == 2).await.unwrap();
    let odd: Arc<Lazy<Pod>> = beside.pods.indexer().get("default/odd").unwrap();
    let error = odd.get().unwrap_err().to_string();
    assert!(error.contains("default/odd") && error.contains("Pod") && error.contains("spec"), "{error}");
    assert!(!error.contains("none"), "the error contains no value: {error}");
    odd.get().unwrap_err();
    assert_eq!(beside.pods.state().undecodable_total, 1, "counted once per version");
    assert_eq!(beside.pods.undecodable()[0].key().unwrap(), "default/odd");
    beside.holds().await;
}
