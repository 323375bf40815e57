use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer::Gvr;
use informer::cache::SharedInformer;
use informer::cache::reflector::{ReflectorConfig, RelistReason};
use informer::client::{Client, KubeListWatch, Lazy};
use informer::source::{
    ListRequest, ListSource, ListStream, ListWatch, SourceError, WatchRequest, WatchSource, WatchStream,
};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use serde_json::json;

use super::sync::event;
use crate::bench::maps;
use crate::scenario::scenario;
use crate::watched::PATIENCE;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Server, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_watch_from_a_compacted_version_causes_a_relist).alone(),
        scenario!(deletions_missed_by_a_compaction_are_reported_as_stale).alone(),
        scenario!(a_compacted_continue_token_causes_one_unpaginated_list).alone(),
        scenario!(a_compaction_under_an_open_watch_changes_nothing).alone(),
        scenario!(a_server_restart_that_loses_history_causes_a_relist).alone(),
        scenario!(a_streaming_informer_survives_a_compaction).alone(),
        scenario!(the_next_list_detects_a_server_restored_from_a_backup).alone(),
    ]
}

pub(super) type Happening = Lazy<CoreEvent>;

/// Returns the collection of events. A kube-apiserver has no watch cache for events: their watches and pages
/// come from etcd, so compaction affects them.
pub(super) fn events() -> Gvr {
    Gvr::new("", "v1", "events")
}

pub(super) async fn happen(bench: &Bench, name: &str) -> Result<(), Failure> {
    bench.api.create(&events(), &bench.namespace, &event(&bench.namespace, name)).await?;
    Ok(())
}

fn happenings(bench: &Bench, client: &Client, way: InitialRead) -> SharedInformer<Happening> {
    SharedInformer::new(bench.source(client, way))
}

/// Compacts the history of the server up to the present.
pub(super) async fn forget(bench: &Bench) -> Result<(), Failure> {
    bench.server.compact().await?;
    // Compaction never removes the newest revision, so an object is written and the history is compacted
    // again.
    happen(bench, &format!("after-{}", uuid::Uuid::new_v4())).await?;
    bench.server.compact().await?;
    Ok(())
}

async fn a_watch_from_a_compacted_version_causes_a_relist(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    happen(&bench, "first").await?;
    let watched = Watched::synced(happenings(&bench, &client, InitialRead::List)).await?;
    cable.unplug().await;
    for number in 0..5 {
        happen(&bench, &format!("missed-{number}")).await?;
    }
    forget(&bench).await?;
    cable.plug();
    bench.settled(&watched, &events()).await?;
    let relists = watched.informer.state().reflector.relists;
    assert_eq!(relists.get(RelistReason::WatchExpired), 1, "{relists:?}");
    assert_eq!(watched.story("first"), [CallKind::Initial], "unchanged objects are not reported again");
    Ok(())
}

async fn deletions_missed_by_a_compaction_are_reported_as_stale(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    for name in ["kept", "lost", "replaced"] {
        happen(&bench, name).await?;
    }
    let watched = Watched::synced(happenings(&bench, &client, InitialRead::List)).await?;
    cable.unplug().await;
    bench.api.delete(&events(), &bench.namespace, "lost").await?;
    bench.api.delete(&events(), &bench.namespace, "replaced").await?;
    happen(&bench, "replaced").await?;
    forget(&bench).await?;
    cable.plug();
    bench.settled(&watched, &events()).await?;
    assert_eq!(watched.story("kept"), [CallKind::Initial]);
    assert_eq!(watched.story("lost"), [CallKind::Initial, CallKind::DeletedStale]);
    assert_eq!(watched.story("replaced"), [CallKind::Initial, CallKind::DeletedStale, CallKind::Added]);
    Ok(())
}

/// A list source that compacts the server after the first page of the first list.
struct Interrupted {
    source: KubeListWatch<Happening>,
    bench: Bench,
    done: Arc<AtomicBool>,
}

impl ListSource<Happening> for Interrupted {
    async fn list(&self, request: ListRequest<Happening>) -> Result<ListStream<Happening>, SourceError> {
        if request.continue_token.is_some() && !self.done.swap(true, Ordering::SeqCst) {
            let forgotten = forget(&self.bench).await;
            forgotten.map_err(|error| {
                SourceError::new(informer::source::SourceErrorKind::Other, error.to_string())
            })?;
        }
        ListSource::list(&self.source, request).await
    }
}

impl WatchSource<Happening> for Interrupted {
    async fn watch(&self, request: WatchRequest<Happening>) -> Result<WatchStream<Happening>, SourceError> {
        WatchSource::watch(&self.source, request).await
    }
}

impl ListWatch<Happening> for Interrupted {
    fn describe(&self) -> String {
        ListWatch::describe(&self.source)
    }
}

async fn a_compacted_continue_token_causes_one_unpaginated_list(bench: Bench) -> Result<(), Failure> {
    let namespace = bench.namespace.clone();
    let object = |number: usize| (namespace.clone(), event(&namespace, &format!("event-{number}")));
    crate::load(&bench.api, &events(), 40, object).await?;
    let done = Arc::new(AtomicBool::new(false));
    let source = bench.source(&bench.client(), InitialRead::List);
    let source = Interrupted { source, bench: bench.clone(), done: Arc::clone(&done) };
    let mut config = ReflectorConfig::named("events");
    config.page_size = 10;
    let watched = Watched::synced(SharedInformer::builder(source).reflector(config).build()).await?;
    assert!(done.load(Ordering::SeqCst), "a second page was requested");
    bench.settled(&watched, &events()).await?;
    let relists = watched.informer.state().reflector.relists;
    assert_eq!(relists.get(RelistReason::ContinueExpired), 1, "{relists:?}");
    Ok(())
}

async fn a_compaction_under_an_open_watch_changes_nothing(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(happenings(&bench, &bench.client(), InitialRead::List)).await?;
    for round in 0..4 {
        happen(&bench, &format!("event-{round}")).await?;
        bench.settled(&watched, &events()).await?;
        bench.server.compact().await?;
    }
    happen(&bench, "last").await?;
    bench.settled(&watched, &events()).await?;
    let state = watched.informer.state().reflector;
    assert_eq!((state.relists.total(), state.watches_opened), (0, 1));
    Ok(())
}

async fn a_server_restart_that_loses_history_causes_a_relist(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 10).await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    cable.unplug().await;
    bench.delete("map-0").await?;
    bench.change("map-1", "1").await?;
    forget(&bench).await?;
    // After a compaction, a running kube-apiserver could still serve the watch from its watch cache. A
    // restarted one starts its watch cache with the present state. The embedded server has no watch cache,
    // only its history.
    bench.server.stop().await?;
    bench.server.start().await?;
    cable.plug();
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.story("map-0"), [CallKind::Initial, CallKind::DeletedStale]);
    assert_eq!(watched.story("map-1"), [CallKind::Initial, CallKind::Updated]);
    let relists = watched.informer.state().reflector.relists;
    assert_eq!(relists.get(RelistReason::WatchExpired), 1, "{relists:?}");
    Ok(())
}

async fn a_streaming_informer_survives_a_compaction(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 10).await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::Stream)).await?;
    cable.unplug().await;
    bench.delete("map-0").await?;
    bench.create("new").await?;
    forget(&bench).await?;
    if matches!(*bench.server, Server::Real(_)) {
        bench.server.stop().await?;
        bench.server.start().await?;
    }
    cable.plug();
    bench.settled(&watched, &maps()).await?;
    let state = watched.informer.state().reflector;
    assert_eq!(state.list_requests, 0, "it relists with a streaming list");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    bench.api.merge(&maps(), &bench.namespace, "new", &label).await?;
    bench.settled(&watched, &maps()).await
}

async fn the_next_list_detects_a_server_restored_from_a_backup(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 10).await?;
    bench.server.backup().await?;
    let ways = [InitialRead::List, InitialRead::Stream];
    let mut all = Vec::new();
    for way in ways {
        all.push(Watched::synced(bench.maps(way)).await?);
    }
    for number in 0..5 {
        bench.change(&format!("map-{number}"), "lost").await?;
        bench.create(&format!("lost-{number}")).await?;
    }
    bench.delete("map-9").await?;
    for watched in &all {
        bench.settled(watched, &maps()).await?;
    }
    bench.server.restore().await?;
    // The server assigns the resource versions of the lost changes again, to other changes. It accepts a
    // watch from a version that it has not reached yet, and sends nothing until its version is newer. The
    // client therefore detects the restore only by its next list.
    bench.change("map-1", "kept").await?;
    for watched in &mut all {
        watched.stop().await;
        watched.start_again();
        watched.informer.wait_for_sync(PATIENCE).await?;
        bench.settled(watched, &maps()).await?;
        assert_eq!(watched.story("lost-0").last(), Some(&CallKind::DeletedStale));
        assert!(watched.informer.indexer().contains(&bench.key("map-9")), "the object was never deleted");
    }
    bench.create("after").await?;
    for watched in &all {
        bench.settled(watched, &maps()).await?;
    }
    Ok(())
}
