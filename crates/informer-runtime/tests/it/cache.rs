use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use informer_apiserver::{FaultMatch, Verb};
use informer_cache::handler::{on_event, on_event_async};
use informer_client::{Dynamic, HashShares, Lazy, Metadata, ResourceKind, StreamingLists};
use informer_core::{LabelSelector, Object};
use informer_runtime::{
    Cache, CachedClient, CancellationToken, InformerOptions, ListOptions, Manager, MissingInformer,
    ReadError, Runnable, RunnableGroup, typed,
};
use informer_store::field;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::{SOON, Server, gvr};

#[tokio::test(start_paused = true)]
async fn first_read_of_a_kind_starts_its_informer_and_waits() {
    let server = Server::start();
    server.pod("default/web-0");
    let whole_lists = InformerOptions::default().streaming_lists(StreamingLists::Off);
    let cache = server.cache().options(whole_lists).build();
    cache.start();
    let pod = cache.get::<Pod>("default/web-0").await.unwrap().expect("the pod exists");
    assert_eq!(pod.get().unwrap().metadata.name.as_deref(), Some("web-0"));
    assert_eq!(cache.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 1);
    assert!(cache.get::<Pod>("default/none").await.unwrap().is_none(), "a missing object is no error");
    assert_eq!(server.api.count_requests(Verb::List, "pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn read_without_informer_is_rejected_with_missing_informer_refuse() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().missing_informer(MissingInformer::Refuse).build();
    cache.start();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err();
    assert!(matches!(error, ReadError::NotCached { .. }), "{error}");
    let error = cache.list::<Pod>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::NotCached { .. }), "{error}");
    let pods = cache.informer::<Pod>();
    pods.wait_for_sync(SOON).await.unwrap();
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some(), "its informer was requested");
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_merged() {
    let server = Server::start();
    for key in ["a/one", "b/two", "c/three"] {
        server.pod(key);
    }
    server.create("nodes", "worker-1", serde_json::json!({}));
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.start();
    assert_eq!(cache.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 2);
    assert_eq!(cache.list::<Pod>(&ListOptions::default().namespace("a")).await.unwrap().len(), 1);
    let error = cache.get::<Pod>("c/three").await.unwrap_err().to_string();
    assert_eq!(error, "read Pod.v1: namespace \"c\" is not in the cache, which has namespace a, namespace b");
    assert!(
        cache.get::<Node>("worker-1").await.unwrap().is_some(),
        "cluster-scoped kinds are cached completely"
    );
}

/// Returns the namespaces and queries of the requests that the server has received with this verb for a
/// resource.
fn asked(server: &Server, verb: Verb, resource: &str) -> Vec<(Option<String>, String)> {
    let requests = server.api.requests().into_iter().filter(|request| request.is(verb, resource));
    requests.map(|request| (request.namespace, request.query)).collect()
}

fn names<O: Object>(objects: &[Arc<O>]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().map(|object| object.key().to_string()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(start_paused = true)]
async fn read_before_start_fails_and_informer_starts_with_the_cache() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().build();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err();
    assert!(matches!(error, ReadError::NotStarted { .. }), "{error}");
    cache.start();
    cache.wait_for_sync(SOON).await.unwrap();
    assert!(
        cache.has_synced() && cache.existing_informer::<Lazy<Pod>>(ResourceKind::of::<Pod>().gvk()).is_some()
    );
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn first_read_times_out_with_the_last_error() {
    let server = Server::start();
    server.pod("default/web-0");
    let forbidden = server.api.faults().on(FaultMatch::list("pods")).status(403);
    let watch = server.api.faults().on(FaultMatch::watch("pods")).status(403);
    let cache = server.cache().build();
    cache.start();
    let begin = Instant::now();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err();
    assert_eq!(begin.elapsed(), Duration::from_secs(30));
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("403") && cause.contains("pods"), "{cause}");
    let maps = cache.list::<ConfigMap>(&ListOptions::default()).await.unwrap();
    assert!(maps.is_empty(), "a failing kind does not delay other kinds");
    forbidden.remove();
    watch.remove();
    // The informer of Pods has failed for 30 s, so its backoff may now be a minute. A first read would not
    // wait that long, so the test waits for the sync.
    cache.wait_for_sync(Duration::from_secs(120)).await.unwrap();
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
    assert!(cache.get::<Pod>("default/none").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_names_unsynced_informers() {
    let server = Server::start();
    server.api.faults().on(FaultMatch::list("pods")).status(403);
    server.api.faults().on(FaultMatch::watch("pods")).status(403);
    let cache = server.cache().build();
    let (_pods, maps) = (cache.informer::<Pod>(), cache.informer::<ConfigMap>());
    cache.start();
    let error = cache.wait_for_sync(SOON).await.unwrap_err();
    assert_eq!(error.unsynced().len(), 1);
    assert!(error.to_string().contains("informer pods.v1") && error.to_string().contains("403"), "{error}");
    assert!(maps.has_synced() && !cache.has_synced());
}

#[tokio::test(start_paused = true)]
async fn creating_informers_and_indexes_never_waits() {
    let server = Server::start();
    server.api.faults().on(FaultMatch::list("pods")).status(503);
    server.api.faults().on(FaultMatch::watch("pods")).status(503);
    let cache = server.cache().build();
    cache.start();
    let begin = Instant::now();
    let pods = cache.informer::<Pod>();
    cache.index_field::<Pod>("spec.nodeName", field("spec.nodeName")).unwrap();
    assert!(begin.elapsed().is_zero() && !pods.has_synced());
    assert!(cache.index_field::<Pod>("spec.nodeName", field("spec.nodeName")).is_err(), "twice");
}

#[tokio::test(start_paused = true)]
async fn label_selectors_work_in_one_and_all_namespaces() {
    let server = Server::start();
    for (key, label) in [("a/one", "app=web"), ("b/two", "app=web"), ("b/three", "app=api")] {
        server.labelled(key, label);
    }
    for builder in [server.cache(), server.cache().namespaces(["a", "b"])] {
        let cache = builder.build();
        cache.start();
        let web = ListOptions::default().labels("app=web".parse().unwrap());
        assert_eq!(names(&cache.list::<Pod>(&web).await.unwrap()), ["a/one", "b/two"]);
        assert_eq!(names(&cache.list::<Pod>(&web.clone().namespace("b")).await.unwrap()), ["b/two"]);
        let in_b = ListOptions::default().namespace("b");
        assert_eq!(cache.list::<Pod>(&in_b).await.unwrap().len(), 2);
        assert_eq!(cache.list::<Pod>(&web.clone().limit(1)).await.unwrap().len(), 1);
        assert_eq!(cache.list::<Pod>(&ListOptions::default().limit(2)).await.unwrap().len(), 2);
        let names: Vec<String> =
            names(&cache.list_of::<Metadata<Pod>>(ResourceKind::of::<Pod>(), &web).await.unwrap());
        assert_eq!(names, ["a/one", "b/two"], "in another representation");
    }
}

#[tokio::test(start_paused = true)]
async fn field_selectors_use_indexes_and_are_combined() {
    let server = Server::start();
    for (key, node, phase) in
        [("a/one", "n1", "Running"), ("a/two", "n1", "Failed"), ("b/three", "n1", "Running")]
    {
        let mut pod = crate::fixture::pod_spec();
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": phase});
        server.create("pods", key, pod);
    }
    let cache = server.cache().build();
    cache.index_field::<Pod>("spec.nodeName", field("spec.nodeName")).unwrap();
    cache.start();
    let select = |fields: &str| ListOptions::default().fields(fields.parse().unwrap());
    assert_eq!(cache.list::<Pod>(&select("spec.nodeName=n1")).await.unwrap().len(), 3);
    let error = cache.list::<Pod>(&select("status.phase=Failed")).await.unwrap_err();
    assert!(matches!(error, ReadError::NoIndex { .. }), "{error}");
    let phases = typed(|pod: &Pod| pod.status.iter().filter_map(|status| status.phase.clone()).collect());
    cache.index_field::<Pod>("status.phase", phases).unwrap();
    let both = select("spec.nodeName=n1,status.phase=Running");
    assert_eq!(names(&cache.list::<Pod>(&both).await.unwrap()), ["a/one", "b/three"]);
    assert_eq!(names(&cache.list::<Pod>(&both.clone().namespace("a")).await.unwrap()), ["a/one"]);
    let one = both.labels("app=web".parse().unwrap());
    assert!(cache.list::<Pod>(&one).await.unwrap().is_empty(), "labels and fields");
    assert_eq!(names(&cache.list::<Pod>(&select("metadata.name=two")).await.unwrap()), ["a/two"]);
    let error = cache.list::<Pod>(&select("spec.nodeName!=n1")).await.unwrap_err();
    assert!(matches!(error, ReadError::NotExact { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn multi_valued_index_finds_objects_by_any_value() {
    let server = Server::start();
    server.create("nodes", "n1", json!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}));
    let cache = server.cache().build();
    let ranges =
        typed(|node: &Node| node.spec.iter().flat_map(|spec| spec.pod_cidrs.clone()).flatten().collect());
    cache.index_field::<Node>("spec.podCIDRs", ranges).unwrap();
    cache.start();
    for range in ["10.0.0.0/24", "fd00::/64"] {
        let select = ListOptions::default().fields(format!("spec.podCIDRs={range}").parse().unwrap());
        let nodes = cache.list::<Node>(&select.namespace("ignored")).await.unwrap();
        assert_eq!(names(&nodes), ["n1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_shared_and_edited_copies_do_not_change_the_cache() {
    let server = Server::start();
    server.pod("default/web-0");
    let client = server.client();
    let (first, second) = (
        client.cache().get::<Pod>("default/web-0").await.unwrap().unwrap(),
        client.cache().get::<Pod>("default/web-0").await.unwrap().unwrap(),
    );
    assert!(Arc::ptr_eq(&first, &second), "the object was not copied");
    let mut edited = client.get::<Pod>("default/web-0").await.unwrap().unwrap().edit();
    edited.metadata.labels = Some([("changed".to_owned(), "yes".to_owned())].into());
    assert!(edited.is_changed());
    assert!(client.get::<Pod>("default/web-0").await.unwrap().unwrap().metadata.labels.is_none());
}

#[tokio::test(start_paused = true)]
async fn dynamic_object_has_its_kind() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().build();
    cache.start();
    let kind = ResourceKind::new("", "v1", "Pod", "pods");
    let pods = cache.list_of::<Dynamic>(&kind, &ListOptions::default()).await.unwrap();
    let pod = pods[0].value().unwrap();
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
}

#[tokio::test(start_paused = true)]
async fn selectors_of_kinds_and_namespaces_are_sent_to_the_server() {
    let server = Server::start();
    server.labelled("a/one", "app=web");
    server.labelled("b/two", "app=api");
    server.pod("c/three");
    let cache = server
        .cache()
        .options(InformerOptions::default().streaming_lists(StreamingLists::Off))
        .kind_in::<Pod>("a", InformerOptions::default().labels("app=web".parse().unwrap()))
        .kind_in::<Pod>("", InformerOptions::default().labels("app=api".parse().unwrap()))
        .build();
    cache.start();
    assert_eq!(names(&cache.list::<Pod>(&ListOptions::default()).await.unwrap()), ["a/one", "b/two"]);
    assert!(cache.get::<Pod>("c/three").await.unwrap().is_none(), "it is not selected");
    let mut asked = asked(&server, Verb::List, "pods");
    asked.sort();
    let shown: Vec<String> = asked
        .iter()
        .map(|(namespace, query)| format!("{}: {query}", namespace.as_deref().unwrap_or("*")))
        .collect();
    assert!(
        shown[0].starts_with("*: fieldSelector=metadata.namespace!=a&labelSelector=app=api"),
        "{shown:?}"
    );
    assert!(shown[1].starts_with("a: labelSelector=app=web"), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn namespace_field_selector_lists_only_that_namespace() {
    let server = Server::start();
    server.pod("a/one");
    server.pod("b/two");
    let of_a = InformerOptions::default().fields("metadata.namespace=a".parse().unwrap());
    let cache = server.cache().kind::<Pod>(of_a).build();
    cache.start();
    assert_eq!(names(&cache.list::<Pod>(&ListOptions::default()).await.unwrap()), ["a/one"]);
    let watches = asked(&server, Verb::Watch, "pods");
    assert!(watches.iter().all(|(namespace, _)| namespace.as_deref() == Some("a")), "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn hash_shares_hold_each_object_once() {
    let server = Server::start();
    (0..40).for_each(|number| drop(server.pod(&format!("a/early-{number}"))));
    let shares = [HashShares::new(3, [0, 2]).unwrap(), HashShares::new(3, [1]).unwrap()];
    let caches = shares.map(|shares| {
        let cache = server.cache().kind::<Pod>(InformerOptions::default().shares(shares)).build();
        cache.start();
        cache
    });
    let informers = caches.each_ref().map(Cache::informer::<Pod>);
    for informer in &informers {
        informer.wait_for_sync(SOON).await.unwrap();
    }
    (0..40).for_each(|number| drop(server.pod(&format!("a/late-{number}"))));
    (0..20).for_each(|number| server.api.delete(&gvr("pods"), "a", &format!("early-{number}")).unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = informers.map(|informer| informer.list(&LabelSelector::everything()));
    assert!(held.iter().all(|share| share.len() > 5), "{} and {}", held[0].len(), held[1].len());
    let mut expected: Vec<String> = (20..40).map(|number| format!("a/early-{number}")).collect();
    expected.extend((0..40).map(|number| format!("a/late-{number}")));
    expected.sort();
    assert_eq!(names(&held.concat()), expected);
    assert!(asked(&server, Verb::Watch, "pods").iter().all(|(_, query)| query.contains("shardSelector=")));
    let states = caches[0].states();
    assert!(states[0].name.ends_with("share=0+2 of 3 by uid"), "{:?}", states[0].name);
}

#[tokio::test(start_paused = true)]
async fn kind_everywhere_overrides_namespaces_of_the_cache() {
    let server = Server::start();
    server.pod("elsewhere/one");
    let cache = server.cache().namespaces(["a"]).kind_everywhere::<Pod>().build();
    cache.start();
    assert_eq!(cache.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 1);
    let error = cache.get::<ConfigMap>("elsewhere/m").await.unwrap_err();
    assert!(matches!(error, ReadError::UnknownNamespace { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn removed_informer_stops_and_next_use_creates_a_new_one() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().build();
    cache.start();
    let first = cache.informer::<Pod>();
    first.wait_for_sync(SOON).await.unwrap();
    let gvk = ResourceKind::of::<Pod>().gvk().clone();
    assert!(cache.remove::<Lazy<Pod>>(&gvk));
    assert!(first.is_stopped() && first.is_removed());
    assert!(!cache.remove::<Lazy<Pod>>(&gvk), "it was removed");
    let second = cache.informer::<Pod>();
    second.wait_for_sync(SOON).await.unwrap();
    assert!(!second.is_stopped());
    server.pod("default/web-1");
    second.scoped_informers()[0].informer.wait_until(|pods| pods.contains("default/web-1")).await.unwrap();
    assert_eq!(first.len(), 1, "the removed informer keeps its store");
}

#[tokio::test(start_paused = true)]
async fn read_waiting_for_removed_informer_fails() {
    let server = Server::start();
    server.api.faults().on(FaultMatch::list("pods")).status(503);
    server.api.faults().on(FaultMatch::watch("pods")).status(503);
    let cache = server.cache().build();
    cache.start();
    let reading = tokio::spawn({
        let cache = cache.clone();
        async move { cache.get::<Pod>("default/web-0").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    assert_eq!(cache.remove_kind(ResourceKind::of::<Pod>().gvk()), 1);
    let error = reading.await.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Removed { .. }) && begin.elapsed().is_zero(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn transform_applies_to_added_and_updated_objects() {
    let server = Server::start();
    server.labelled("default/web-0", "app=web");
    let hidden = InformerOptions::default().transform::<Lazy<Pod>>(|pod| {
        let mut text: Value = serde_json::from_str(&pod.json()?)?;
        text["metadata"]["labels"] = json!({"transformed": "yes"});
        Ok(Arc::new(Lazy::from_json(&text.to_string())?))
    });
    let cache = server.cache().options(hidden).build();
    cache.start();
    let label = |pod: &Lazy<Pod>| pod.labels().get("transformed").map(str::to_owned);
    let pod = cache.get::<Pod>("default/web-0").await.unwrap().unwrap();
    assert_eq!(label(&pod).as_deref(), Some("yes"));
    let mut changed = server.get("pods", "default/web-0");
    changed["metadata"]["annotations"] = json!({"a": "1"});
    server.api.update(&crate::fixture::gvr("pods"), "default", changed).unwrap();
    let pods = cache.informer::<Pod>();
    let shows = |pod: &Lazy<Pod>| pod.annotation("a").is_some() && label(pod).is_some();
    let informer = &pods.scoped_informers()[0].informer;
    informer.wait_until(|pods| pods.get("default/web-0").is_some_and(|pod| shows(&pod))).await.unwrap();
    assert_eq!(cache.informer::<ConfigMap>().len(), 0, "other representations are not transformed");
}

#[tokio::test(start_paused = true)]
async fn resync_period_of_a_kind_causes_no_requests() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    server.create("nodes", "n1", json!({}));
    let often = InformerOptions::default().resync(Duration::from_secs(10));
    let never = InformerOptions::default().resync(Duration::ZERO);
    let cache = server.cache().options(often).kind::<Node>(never).build();
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let count = |place: usize| {
        let counts = Arc::clone(&counts);
        move || {
            counts[place].fetch_add(1, Ordering::SeqCst);
        }
    };
    let (maps, nodes) = (count(0), count(1));
    cache.informer::<ConfigMap>().add_handler(on_event(move |_| maps())).unwrap();
    cache.informer::<Node>().add_handler(on_event(move |_| nodes())).unwrap();
    cache.start();
    cache.wait_for_sync(SOON).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let requests = server.api.requests().len();
    tokio::time::sleep(Duration::from_secs(64)).await;
    assert_eq!(counts.each_ref().map(|count| count.load(Ordering::SeqCst)), [7, 1]);
    assert_eq!(server.api.requests().len(), requests, "from the cache");
}

#[tokio::test(start_paused = true)]
async fn handler_of_several_namespaces_gets_one_event_at_a_time() {
    let server = Server::start();
    for key in ["a/one", "b/two", "c/three"] {
        server.pod(key);
    }
    let cache = server.cache().namespaces(["a", "b"]).build();
    let (seen, busy) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let log = Arc::clone(&seen);
    let registration = cache
        .informer::<Pod>()
        .add_handler(on_event_async(move |event| {
            let (log, busy) = (Arc::clone(&log), Arc::clone(&busy));
            async move {
                assert!(!busy.swap(true, Ordering::SeqCst), "two concurrent calls");
                tokio::time::sleep(Duration::from_millis(10)).await;
                log.lock().push(event.key().to_string());
                busy.store(false, Ordering::SeqCst);
            }
        }))
        .unwrap();
    cache.start();
    registration.wait_for_sync(SOON).await.unwrap();
    seen.lock().sort();
    assert_eq!(*seen.lock(), ["a/one", "b/two"]);
    registration.remove_and_wait().await;
    server.pod("a/later");
    cache.informer::<Pod>().scoped_informers()[0].informer.wait_until(|pods| pods.len() == 2).await.unwrap();
    assert_eq!(seen.lock().len(), 2);
    assert!(registration.states().iter().all(|state| state.panics == 0));
}

#[tokio::test(start_paused = true)]
async fn removed_handler_of_several_namespaces_is_not_called_for_waiting_events() {
    let server = Server::start();
    for key in ["a/one", "b/two", "c/three"] {
        server.pod(key);
    }
    let cache = server.cache().namespaces(["a", "b", "c"]).build();
    let (calls, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (counted, waits) = (Arc::clone(&calls), Arc::clone(&go_on));
    let handler = on_event_async(move |_| {
        let (counted, waits) = (Arc::clone(&counted), Arc::clone(&waits));
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            waits.notified().await;
        }
    });
    let registration = cache.informer::<Pod>().add_handler(handler).unwrap();
    cache.start();
    cache.wait_for_sync(SOON).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the others wait for the first call");
    registration.remove();
    go_on.notify_one();
    tokio::time::timeout(SOON, registration.remove_and_wait()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a call began after the handler was removed");
}

#[tokio::test(start_paused = true)]
async fn pinned_kind_is_rejected_in_other_representations() {
    let server = Server::start();
    server.pod("default/web-0");
    let pods = ResourceKind::of::<Pod>();
    let cache = server.cache().pin_representation::<Metadata<Pod>>(&pods).build();
    cache.start();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err().to_string();
    assert_eq!(
        error,
        "read Pod.v1 as Lazy: the cache is pinned to Metadata; read it as that, or change `pin_representation`"
    );
    assert!(cache.get_of::<Metadata<Pod>>(&pods, "default/web-0").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn started_cache_is_taken_over_by_its_manager() {
    let server = Server::start();
    server.create("configmaps", "default/settings", json!({}));
    let cache = server.cache().build();
    cache.start();
    assert!(cache.get::<ConfigMap>("default/settings").await.unwrap().is_some(), "without a manager");
    let manager = Manager::of(CachedClient::new(&cache));
    manager.run_until(tokio::time::sleep(Duration::from_secs(60))).await.unwrap();
    assert!(cache.states().iter().all(|state| !state.running));
    assert_eq!(server.api.count_requests(Verb::Watch, "configmaps"), 1, "its informers continued");
    let error =
        Manager::of(CachedClient::new(&cache)).run_until(std::future::pending::<()>()).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("run the cache: a manager runs it already"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn cache_runs_in_one_manager_and_needs_no_leadership() {
    let server = Server::start();
    let cache = server.cache().build();
    assert_eq!(Runnable::group(&cache), RunnableGroup::Caches);
    let _pods = cache.informer::<Pod>();
    let stop = CancellationToken::new();
    let ready = Runnable::ready(&cache, SOON).unwrap();
    let running = tokio::spawn(Box::new(cache.clone()).run(stop.clone()));
    ready.await.unwrap();
    assert!(Box::new(cache.clone()).run(stop.clone()).await.is_err(), "it cannot run twice");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(cache.states().iter().all(|state| !state.running), "all informers have stopped");
    let error = cache.get::<ConfigMap>("default/m").await.unwrap_err();
    assert!(matches!(error, ReadError::Stopped { .. }), "{error}");
}
