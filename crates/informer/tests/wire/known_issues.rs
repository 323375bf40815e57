//! Regression tests for known issues of client-go. The informers receive the responses of an embedded server.

use std::sync::Arc;
use std::time::Duration;

use informer::cache::{Event, SharedInformerFactory};
use informer::client::StreamingLists;
use informer::testing::{TestServer, list, pod, watch};
use informer::{Gvr, Object as _};
use informer_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::fixture::{Beside, config_map, eventually};

const MINUTE: Duration = Duration::from_secs(60);

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_may_not_be_listed_ends_and_names_the_laggard_alone() {
    let server = TestServer::start().await;
    server.faults().on(list::<Pod>()).status(403);
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    let (_pods, maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    factory.start();
    let error = factory.wait_for_cache_sync(MINUTE).await.unwrap_err();
    assert_eq!(error.unsynced().len(), 1);
    let last = error.unsynced()[0].last_error.as_deref().unwrap();
    assert!(last.starts_with("list pods: the server responded with 403 Forbidden: "), "{last}");
    assert!(last.ends_with("; grant list and watch on it"), "{last}");
    assert!(maps.has_synced());
}

#[tokio::test(start_paused = true)]
async fn handler_that_changes_an_object_changes_its_own_copy() {
    let beside = Beside::start().await;
    let mut object = beside.pods.indexer().get("default/kept").unwrap();
    assert!(Arc::get_mut(&mut object).is_none(), "the cache contains it, too");
    let mut mine: Pod = (*object.get().unwrap()).clone();
    mine.metadata.labels = Some([("mine".to_owned(), "1".to_owned())].into());
    let held = beside.pods.indexer().get("default/kept").unwrap();
    assert!(held.labels().get("mine").is_none() && held.get().unwrap().metadata.labels.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restored_from_a_backup_is_followed_back() {
    let mut beside = Beside::start().await;
    let backup = beside.server.server().version();
    beside.server.create(&pod("default/after-the-backup")).await.unwrap();
    assert_eq!(beside.events.next().await.unwrap().key(), "default/after-the-backup");
    beside.server.server().rewind(backup).unwrap();
    // The server was restored to an earlier version. It sends no events to a watch that began at a later
    // version, so the test ends the watch. The informer then lists again, and the server rejects a list at
    // the later version.
    beside.server.faults().on(watch::<Pod>()).nth(1).expire();
    let event = beside.events.next().await.unwrap();
    assert!(event.is_deleted() && event.key() == "default/after-the-backup", "{event}");
    assert_eq!(beside.pods.indexer().keys(), ["default/kept"]);
    assert_eq!(beside.pods.state().reflector.rewound, 1);
    let event = beside.events.next().await.unwrap();
    assert_eq!(
        event.to_string(),
        format!("updated default/kept @{backup} -> @{backup}"),
        "resourceVersions are reused: every event is delivered"
    );
    beside.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_is_a_delete_and_an_add_though_both_were_missed() {
    let mut beside = Beside::start().await;
    let server = beside.server.server();
    server.disconnect_watchers();
    server.delete(&pods(), "default", "kept").unwrap();
    beside.server.create(&pod("default/kept")).await.unwrap();
    server.compact();
    let deleted = beside.events.next().await.unwrap();
    assert!(matches!(&deleted, Event::Deleted { stale: true, .. }), "{deleted}");
    let added = beside.events.next().await.unwrap();
    assert!(matches!(&added, Event::Added { initial: false, .. }), "{added}");
    assert_ne!(deleted.object().uid(), added.object().uid());
}

#[tokio::test(start_paused = true)]
async fn restarted_informer_lists_again_and_announces_the_difference() {
    let server = TestServer::of(ApiServer::builder().build());
    server.create(&config_map("default/gone")).await.unwrap();
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    let maps = factory.informer::<ConfigMap>();
    let mut events = maps.events();
    let run = maps.start();
    maps.wait_for_sync(MINUTE).await.unwrap();
    assert_eq!(events.next().await.unwrap().key(), "default/gone");
    run.stop().await;
    assert!(maps.is_stopped());
    server.delete::<ConfigMap>("default/gone").await.unwrap();
    server.create(&config_map("default/new")).await.unwrap();
    let _run = maps.start();
    eventually(|| server.requests(list::<ConfigMap>()).count() == 2).await;
    let event = events.next().await.unwrap();
    assert!(event.is_deleted() && event.key() == "default/gone", "{event}");
    assert_eq!(events.next().await.unwrap().key(), "default/new");
    assert!(maps.has_synced() && !maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_handler_is_counted_and_affects_no_other_handler() {
    let mut beside = Beside::start().await;
    let panics = informer::cache::on_event(|event: Event<informer::client::Lazy<Pod>>| {
        assert_ne!(event.key(), "default/trouble", "a bug of the handler");
    });
    let _registration = beside.pods.add_handler(panics).unwrap();
    for name in ["default/trouble", "default/next"] {
        beside.server.create(&pod(name)).await.unwrap();
        assert_eq!(beside.events.next().await.unwrap().key(), name);
    }
    let told = || beside.pods.state().handlers.iter().map(|it| (it.calls, it.panics)).collect::<Vec<_>>();
    eventually(|| told()[1].0 == 3).await;
    assert_eq!(told()[1], (3, 1), "the initial pod, the one that caused the panic, and the next");
}
