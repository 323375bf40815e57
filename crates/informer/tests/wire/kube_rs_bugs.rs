//! Regression tests for known issues of kube-rs. The informers receive the responses of an embedded server.

use std::time::Duration;

use informer::Object as _;
use informer::cache::reflector::{ReflectorConfig, RelistReason};
use informer::cache::{Event, SharedInformer, SharedInformerFactory};
use informer::client::{Lazy, StreamingLists};
use informer::testing::{TestServer, list, pod, watch};
use informer_apiserver::{FaultAction, FaultMatch, FaultWhen};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::fixture::{Beside, config_map, eventually, respond_with};

const MINUTE: Duration = Duration::from_secs(60);

fn status(code: u16, retry_after: Option<u32>) -> FaultAction {
    FaultAction::Status { code, reason: None, message: None, retry_after, body: None }
}

/// Starts a server with one Pod, and returns it with an informer of Pods that requests streaming lists. The
/// informer is not started, so that a test can add faults before its first request.
async fn streaming() -> (TestServer, SharedInformer<Lazy<Pod>>) {
    let server = TestServer::start().await;
    server.create(&pod("default/a")).await.unwrap();
    let pods = SharedInformerFactory::new(server.client()).informer::<Pod>();
    (server, pods)
}

/// Matches streaming lists of Pods, which are watch requests with `sendInitialEvents=true`, for fault rules.
fn streaming_lists() -> FaultMatch {
    FaultMatch { query: Some("sendInitialEvents=true".to_owned()), ..watch::<Pod>() }
}

#[tokio::test(start_paused = true)]
async fn the_first_list_asks_for_any_version_though_it_has_a_limit() {
    let beside = Beside::start().await;
    let first = beside.server.requests(list::<Pod>()).next().unwrap();
    assert!(
        first.query.contains("limit=500") && first.query.contains("resourceVersion=0"),
        "{}",
        first.query
    );
}

#[tokio::test(start_paused = true)]
async fn watch_rejected_with_410_costs_one_relist_and_no_loop() {
    let beside = Beside::start().await;
    // The first fault ends the open watch of Pods. The second fault makes the server reject the next watch
    // request with status 410, so that the informer must list again.
    beside.server.faults().on(watch::<Pod>()).nth(1).cut_after(0);
    beside.server.faults().on(watch::<Pod>()).times(1).then(status(410, None));
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
    eventually(|| beside.pods.state().reflector.watches_opened == 2).await;
    assert_eq!(beside.server.requests(list::<Pod>()).count(), 2);
    assert_eq!(
        beside.server.requests(watch::<Pod>()).count(),
        3,
        "the first watch, the rejected one, the one after the list"
    );
    assert_eq!(beside.pods.state().reflector.relists.get(RelistReason::WatchExpired), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streaming_lists_is_listed_and_not_asked_again() {
    let (server, pods) = streaming().await;
    server.faults().on(watch::<Pod>()).then(FaultAction::RejectInitialEvents);
    let _run = pods.start();
    pods.wait_for_sync(MINUTE).await.unwrap();
    server.faults().on(watch::<Pod>()).nth(1).expire();
    server.create(&pod("default/b")).await.unwrap();
    pods.wait_until(|pods| pods.len() == 2).await.unwrap();
    assert_eq!(server.requests(streaming_lists()).count(), 1);
    assert_eq!(server.requests(list::<Pod>()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_its_end_mark_gives_way_to_a_list_after_a_deadline() {
    let (server, pods) = streaming().await;
    server.faults().on(watch::<Pod>()).then(FaultAction::NoInitialEnd);
    let _run = pods.start();
    pods.wait_for_sync(MINUTE).await.unwrap();
    assert_eq!(pods.state().reflector.streaming_fallbacks, 1);
    assert_eq!((server.requests(streaming_lists()).count(), server.requests(list::<Pod>()).count()), (1, 1));
    assert!(pods.indexer().contains("default/a"));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_relist_behind_a_lagging_server_does_not_go_back_in_time() {
    let (server, pods) = streaming().await;
    let _run = pods.start();
    pods.wait_for_sync(MINUTE).await.unwrap();
    let mut events = pods.events();
    for name in ["default/b", "default/c"] {
        server.create(&pod(name)).await.unwrap();
    }
    pods.wait_until(|pods| pods.len() == 3).await.unwrap();
    let seen = pods.last_sync_resource_version().to_string();
    server
        .faults()
        .on(streaming_lists())
        .when(FaultWhen { from: Some(2), times: Some(1), ..FaultWhen::default() })
        .then(FaultAction::Rewind { by: 2 });
    server.faults().on(watch::<Pod>()).nth(1).expire();
    eventually(|| pods.state().reflector.relists.total() >= 1 && !pods.state().reflector.is_failing()).await;
    server.create(&pod("default/d")).await.unwrap();
    pods.wait_until(|pods| pods.contains("default/d")).await.unwrap();
    assert_eq!(pods.indexer().len(), 4);
    for key in ["default/a", "default/b", "default/c", "default/d"] {
        let event = events.next().await.unwrap();
        assert!(
            matches!(&event, Event::Added { .. }) && event.key() == key,
            "{event} in place of {key} added"
        );
    }
    let asked: Vec<String> =
        server.requests(streaming_lists()).map(|request| request.resource_version).collect();
    assert_eq!(asked[1], seen, "a relist requests the last seen version");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_not_begun_again_when_its_watch_ends_in_time() {
    let (server, pods) = streaming().await;
    let _run = pods.start();
    pods.wait_for_sync(MINUTE).await.unwrap();
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(server.requests(streaming_lists()).count(), 1);
    let watches = server.requests(watch::<Pod>()).count();
    assert!((6..=12).contains(&watches), "{watches} watches of 5 to 10 minutes in an hour");
    assert_eq!(server.requests(list::<Pod>()).count(), 0);
    assert_eq!(pods.state().reflector.events.added, 1, "no event is delivered twice");
}

#[tokio::test(start_paused = true)]
async fn lists_that_always_fail_are_asked_for_less_and_less() {
    let server = TestServer::start().await;
    server.faults().on(list::<Pod>()).status(500);
    let pods =
        SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off).informer::<Pod>();
    let _run = pods.start();
    let error = pods.wait_for_sync(5 * MINUTE).await.unwrap_err().to_string();
    assert!(error.contains("list pods: the server responded with 500 "), "{error}");
    let times: Vec<Duration> = server.requests(list::<Pod>()).map(|request| request.at).collect();
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] < Duration::from_secs(2) && gaps[0] >= Duration::from_millis(800), "{gaps:?}");
    assert!(gaps[5..].iter().all(|gap| *gap >= Duration::from_secs(20)), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= MINUTE), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_kind_slow_down_no_other_and_a_healthy_one_resets_no_backoff() {
    let server = TestServer::start().await;
    server.faults().on(list::<Pod>()).status(500);
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    let (_pods, maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    factory.start();
    maps.wait_for_sync(Duration::from_millis(10)).await.unwrap();
    for number in 0..3000 {
        let key = format!("default/map-{number}");
        server.create(&config_map(&key)).await.unwrap();
        maps.wait_until_for(Duration::from_millis(10), |maps| maps.contains(&key)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let lists = server.requests(list::<Pod>()).count();
    assert!(lists < 20, "{lists} lists in five minutes with a healthy watch");
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_while_disconnected_are_announced_as_deleted() {
    let mut beside = Beside::start().await;
    eventually(|| beside.pods.state().reflector.watches_opened == 1).await;
    let server = beside.server.server();
    server.disconnect_watchers();
    server.delete(&informer::Gvr::new("", "v1", "pods"), "default", "kept").unwrap();
    server.compact();
    let event = beside.events.next().await.unwrap();
    assert!(matches!(&event, Event::Deleted { stale: true, .. }), "{event}");
    assert_eq!(event.key(), "default/kept");
    assert!(!beside.pods.indexer().contains("default/kept"));
    assert_eq!(beside.server.requests(list::<Pod>()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_gives_way_to_one_whole_list() {
    let server = TestServer::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.create(&pod(&format!("default/{name}"))).await.unwrap();
    }
    let mut config = ReflectorConfig::named("pods");
    config.page_size = 2;
    let factory =
        SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off).reflector(config);
    // The server ignores the page limit of a list with `resourceVersion=0`, and splits only consistent lists
    // into pages. The first fault makes the first list fail, because the informer then requests a consistent
    // list.
    server.faults().on(list::<Pod>()).nth(1).expire();
    let pages = FaultMatch { query: Some("continue=".to_owned()), ..list::<Pod>() };
    server.faults().on(pages).expire();
    let pods = factory.informer::<Pod>();
    let _run = pods.start();
    pods.wait_for_sync(Duration::from_secs(1)).await.unwrap();
    assert_eq!(pods.indexer().len(), 5);
    let queries: Vec<String> = server.requests(list::<Pod>()).map(|request| request.query).collect();
    assert_eq!(queries.len(), 4, "{queries:?}");
    assert!(queries[2].contains("continue="), "{queries:?}");
    assert!(!queries[3].contains("continue=") && !queries[3].contains("limit="), "{queries:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_are_asked_for_with_timeouts_that_differ() {
    let beside = Beside::start().await;
    tokio::time::sleep(120 * MINUTE).await;
    let seconds = |query: &str| -> u64 {
        let value = query.split('&').find_map(|pair| pair.strip_prefix("timeoutSeconds=")).unwrap();
        value.parse().unwrap()
    };
    let mut timeouts: Vec<u64> =
        beside.server.requests(watch::<Pod>()).map(|watch| seconds(&watch.query)).collect();
    assert!(timeouts.iter().all(|timeout| (300..600).contains(timeout)), "{timeouts:?}");
    timeouts.sort_unstable();
    timeouts.dedup();
    assert!(timeouts.len() > 5, "{timeouts:?}");
    assert_eq!(beside.server.requests(list::<Pod>()).count(), 1, "a watch that ends in time causes no list");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_falls_silent_is_cut_and_resumed_from_the_last_version() {
    let beside = Beside::start().await;
    beside.server.faults().on(watch::<Pod>()).nth(1).stall_after(0);
    beside.server.create(&pod("default/next")).await.unwrap();
    beside.pods.wait_until_for(11 * MINUTE, |pods| pods.contains("default/next")).await.unwrap();
    let reflector = beside.pods.state().reflector;
    assert_eq!((reflector.silent_watches, reflector.relists.total()), (1, 0), "{:?}", reflector.last_error);
    assert_eq!(beside.server.requests(watch::<Pod>()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_429_is_seen_at_once_and_its_retry_after_obeyed_by_one_request_an_attempt() {
    let beside = Beside::start().await;
    beside.relist(2, status(429, Some(20)));
    let error = beside.failure().await;
    assert!(error.starts_with("list pods: the server responded with 429 "), "{error}");
    eventually(|| beside.server.requests(list::<Pod>()).count() == 4).await;
    let times: Vec<Duration> = beside.server.requests(list::<Pod>()).map(|request| request.at).collect();
    assert!(
        times[2] - times[1] >= Duration::from_secs(20) && times[3] - times[2] >= Duration::from_secs(20),
        "{times:?}"
    );
    beside.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_printed_over_several_lines_is_one_error() {
    let body = "{\n  \"kind\": \"Status\",\n  \"code\": 403,\n  \"reason\": \"Forbidden\",\n  \"message\": \"pods is forbidden\"\n}\n";
    let beside = Beside::start().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    beside.server.faults().on(watch::<Pod>()).nth(1).cut_after(0);
    beside.server.faults().on(watch::<Pod>()).times(1).then(respond_with(403, body));
    beside.server.create(&pod("default/next")).await.unwrap();
    let error = beside.failure().await;
    assert_eq!(
        error,
        "watch pods: the server responded with 403 Forbidden: pods is forbidden; grant list and watch on it"
    );
    assert_eq!(beside.pods.state().reflector.failures, 1);
    beside.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_waiters_for_the_first_list_are_woken() {
    let server = TestServer::start().await;
    server.faults().on(list::<Pod>()).then(FaultAction::Delay { millis: 5000 });
    let pods =
        SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off).informer::<Pod>();
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let pods = pods.clone();
            tokio::spawn(async move { pods.wait_for_sync(Duration::from_secs(6)).await })
        })
        .collect();
    let _run = pods.start();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_is_not_ready_before_its_list_is_complete() {
    let server = TestServer::start().await;
    server.create(&pod("default/a")).await.unwrap();
    server.faults().on(list::<Pod>()).nth(1).then(FaultAction::Cut {
        after_events: None,
        after_bytes: Some(100),
        abrupt: false,
    });
    server
        .faults()
        .on(list::<Pod>())
        .nth(2)
        .then(FaultAction::Stall { after_events: None, after_bytes: Some(100) });
    let pods =
        SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off).informer::<Pod>();
    let _run = pods.start();
    eventually(|| server.requests(list::<Pod>()).count() == 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!pods.has_synced() && pods.indexer().is_empty());
    pods.wait_for_sync(3 * MINUTE).await.unwrap();
    assert!(pods.indexer().contains("default/a"));
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_receives_existing_objects_and_all_receive_deletes() {
    let mut beside = Beside::start().await;
    let mut late = beside.pods.events();
    let event = late.next().await.unwrap();
    assert!(matches!(&event, Event::Added { initial: true, .. }) && event.key() == "default/kept", "{event}");
    let pods = informer::Gvr::new("", "v1", "pods");
    // The test deletes the Pod and immediately creates it again. A consumer that compared states of the
    // cache, instead of reading events, could miss the deletion.
    beside.server.server().delete(&pods, "default", "kept").unwrap();
    beside.server.create(&pod("default/kept")).await.unwrap();
    for events in [&mut beside.events, &mut late] {
        let event = events.next().await.unwrap();
        assert!(event.object().deletion_timestamp().is_some(), "a pod is marked first: {event}");
        let event = events.next().await.unwrap();
        assert!(matches!(&event, Event::Deleted { stale: false, .. }), "{event}");
        let event = events.next().await.unwrap();
        assert!(matches!(&event, Event::Added { initial: false, .. }), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_reads_nothing_holds_up_neither_the_cache_nor_another() {
    let mut beside = Beside::start().await;
    let _asleep = beside.pods.events();
    for number in 0..2000 {
        beside.server.create(&pod(&format!("default/pod-{number}"))).await.unwrap();
    }
    for _ in 0..2000 {
        beside.events.next().await.unwrap();
    }
    assert_eq!(beside.pods.indexer().len(), 2001);
}
