use std::time::Duration;

use futures_util::StreamExt;
use informer::ResourceVersion;
use informer::cache::SharedInformer;
use informer::cache::reflector::{ReflectorConfig, RelistReason};
use informer::client::{KubeListWatch, Lazy};
use informer::source::{
    ListPart, ListRequest, ListSource, SourceContext, VersionMatch, WatchEvent, WatchRequest, WatchSource,
};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use serde_json::json;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_list_fills_the_cache),
        scenario!(a_streaming_list_fills_the_cache),
        scenario!(an_empty_kind_syncs),
        scenario!(a_streaming_list_of_an_empty_kind_syncs),
        scenario!(changes_arrive_in_order),
        scenario!(every_change_of_many_writers_arrives),
        scenario!(a_consistent_list_is_paginated),
        scenario!(an_uncached_kind_is_listed_in_pages),
        scenario!(a_watch_requests_and_receives_bookmarks),
        scenario!(a_bookmark_advances_the_version_of_an_idle_informer).slow(),
        scenario!(an_object_with_finalizers_is_updated_then_deleted),
    ]
}

async fn a_list_fills_the_cache(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 30).await?;
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    bench.settled(&watched, &maps()).await?;
    assert!(watched.seen().iter().all(|seen| seen.what == CallKind::Initial), "{:?}", watched.seen());
    let state = watched.informer.state();
    assert!(state.reflector.list_requests > 0, "the initial state was listed");
    Ok(())
}

async fn a_streaming_list_fills_the_cache(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 30).await?;
    let watched = Watched::synced(bench.maps(InitialRead::Stream)).await?;
    bench.settled(&watched, &maps()).await?;
    assert!(watched.seen().iter().all(|seen| seen.what == CallKind::Initial), "{:?}", watched.seen());
    let reflector = watched.informer.state().reflector;
    assert_eq!(
        (reflector.list_requests, reflector.streaming_fallbacks),
        (0, 0),
        "one watch request was sent"
    );
    bench.create("later").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(
        watched.story("later"),
        [CallKind::Added],
        "events after the end of the initial events are not initial"
    );
    Ok(())
}

async fn an_empty_kind_syncs(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    assert!(watched.informer.indexer().is_empty());
    bench.create("first").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.story("first"), [CallKind::Added]);
    Ok(())
}

async fn a_streaming_list_of_an_empty_kind_syncs(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::Stream)).await?;
    assert!(watched.informer.indexer().is_empty());
    assert!(
        !watched.informer.last_sync_resource_version().is_empty(),
        "the bookmark that ends the initial events has a version"
    );
    bench.create("first").await?;
    bench.settled(&watched, &maps()).await?;
    Ok(())
}

async fn changes_arrive_in_order(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let mut versions = vec![version(&bench.create("one").await?)];
    for value in ["1", "2", "3"] {
        versions.push(version(&bench.change("one", value).await?));
    }
    bench.delete("one").await?;
    watched.until_seen(|seen| seen.last().is_some_and(|last| last.what == CallKind::Deleted)).await?;
    assert_eq!(
        watched.story("one"),
        [CallKind::Added, CallKind::Updated, CallKind::Updated, CallKind::Updated, CallKind::Deleted]
    );
    let seen: Vec<String> = watched.seen().into_iter().map(|seen| seen.version).collect();
    assert_eq!(seen[..4], versions[..]);
    bench.settled(&watched, &maps()).await
}

async fn every_change_of_many_writers_arrives(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let writers = (0..8).map(|writer| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let name = format!("writer-{writer}");
            bench.create(&name).await?;
            for round in 1..=20 {
                bench.change(&name, &round.to_string()).await?;
            }
            Ok::<_, Failure>(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    bench.settled(&watched, &maps()).await?;
    for writer in 0..8 {
        let story = watched.story(&format!("writer-{writer}"));
        assert_eq!(story.len(), 21, "a watch delivers every change: {story:?}");
    }
    assert_eq!(watched.informer.state().reflector.relists.total(), 0);
    Ok(())
}

async fn a_consistent_list_is_paginated(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 23).await?;
    let source: KubeListWatch<Map> = bench.source(&bench.client(), InitialRead::List);
    let (mut names, mut token, mut versions) = (Vec::new(), None, Vec::new());
    loop {
        let request = ListRequest {
            version: ResourceVersion::unset(),
            version_match: VersionMatch::Unset,
            limit: Some(5),
            continue_token: token,
            context: SourceContext::default(),
        };
        let page = page_of(source.list(request).await?).await?;
        assert!(page.names.len() <= 5, "{:?}", page.names);
        names.extend(page.names);
        versions.push(page.version);
        token = page.continue_token;
        if token.is_none() {
            break;
        }
    }
    names.sort();
    let mut all: Vec<String> = (0..23).map(|number| bench.key(&format!("map-{number}"))).collect();
    all.sort();
    assert_eq!(names, all);
    assert_eq!(versions.len(), 5);
    assert!(
        versions.iter().all(|version| *version == versions[0]),
        "all pages have the same version: {versions:?}"
    );
    Ok(())
}

/// One page of a list.
struct Page {
    /// The keys of the objects.
    names: Vec<String>,
    version: String,
    continue_token: Option<String>,
}

async fn page_of(mut stream: informer::source::ListStream<Map>) -> Result<Page, Failure> {
    use informer::Object;
    let mut names = Vec::new();
    while let Some(part) = stream.next().await {
        match part? {
            ListPart::Items(items) => names.extend(items.iter().map(|item| item.object().key().to_string())),
            ListPart::Rejected(_) => {}
            ListPart::Undecodable(what) => return Err(format!("{what:?}").into()),
            ListPart::End(end) => {
                let (version, continue_token) = (end.version.to_string(), end.continue_token);
                return Ok(Page { names, version, continue_token });
            }
        }
    }
    Err("the page stream ended without its final item".into())
}

/// A kube-apiserver reads events from etcd instead of a watch cache. It therefore obeys the limit of a list
/// even if the list may be at any version.
async fn an_uncached_kind_is_listed_in_pages(bench: Bench) -> Result<(), Failure> {
    let events = informer::Gvr::new("", "v1", "events");
    let namespace = bench.namespace.clone();
    let event = |number: usize| (namespace.clone(), event(&namespace, &format!("event-{number}")));
    crate::load(&bench.api, &events, 45, event).await?;
    let mut config = ReflectorConfig::named("events");
    config.page_size = 10;
    let source: KubeListWatch<Lazy<CoreEvent>> = bench.source(&bench.client(), InitialRead::List);
    let watched = Watched::synced(SharedInformer::builder(source).reflector(config).build()).await?;
    bench.settled(&watched, &events).await?;
    let state = watched.informer.state().reflector;
    assert_eq!(
        (state.list_requests, state.relists.get(RelistReason::First)),
        (5, 1),
        "45 events in pages of ten"
    );
    Ok(())
}

/// Returns an event that concerns the namespace. A real server accepts any number of such events.
pub(super) fn event(namespace: &str, name: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": name}, "reason": "Testing", "message": "0", "type": "Normal",
        "involvedObject": {"kind": "Namespace", "namespace": namespace, "name": namespace},
    })
}

async fn a_watch_requests_and_receives_bookmarks(bench: Bench) -> Result<(), Failure> {
    let (_, version) = bench.api.list(&maps(), &bench.namespace).await?;
    // This object is not selected by the watch, so the watch delivers no event for it. The next bookmark must
    // nevertheless report its resourceVersion.
    let other = json!({"metadata": {"name": "elsewhere"}});
    bench.api.create(&informer::Gvr::new("", "v1", "secrets"), &bench.namespace, &other).await?;
    // A server sends a bookmark some seconds before the end of a watch. On a busy machine a short watch may
    // end before the server gets to it.
    for seconds in [4, 8, 16, 32, 64] {
        let bookmarks = bookmarks(&bench, &version, Duration::from_secs(seconds)).await?;
        if let Some(last) = bookmarks.last() {
            assert!(ResourceVersion::from(version).is_older_than(last), "{bookmarks:?}");
            return Ok(());
        }
    }
    Err("no bookmark before the end of five watches".into())
}

/// Returns the versions of the bookmarks of a watch that lasts for `timeout`.
async fn bookmarks(bench: &Bench, version: &str, timeout: Duration) -> Result<Vec<ResourceVersion>, Failure> {
    let source: KubeListWatch<Map> = bench.source(&bench.client(), InitialRead::List);
    let request = WatchRequest {
        version: version.into(),
        bookmarks: true,
        send_initial_events: false,
        timeout,
        context: SourceContext::default(),
    };
    let mut watch = source.watch(request).await?;
    let mut bookmarks = Vec::new();
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Bookmark { version, .. } => bookmarks.push(version),
            other => return Err(format!("unexpected item without changes: {other:?}").into()),
        }
    }
    Ok(bookmarks)
}

async fn a_bookmark_advances_the_version_of_an_idle_informer(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let before = watched.informer.last_sync_resource_version();
    let other = json!({"metadata": {"name": "elsewhere"}});
    bench.api.create(&informer::Gvr::new("", "v1", "secrets"), &bench.namespace, &other).await?;
    // The embedded server and a kube-apiserver send one bookmark per minute.
    let quiet = informer::cache::reflector::ReflectorStatus::default();
    crate::poll::until(|| before.is_older_than(&watched.informer.last_sync_resource_version())).await;
    assert!(watched.seen().is_empty(), "bookmarks are not passed to handlers");
    assert_eq!(watched.informer.state().reflector.relists.total(), quiet.relists.total());
    Ok(())
}

async fn an_object_with_finalizers_is_updated_then_deleted(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let object = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    bench.api.create(&maps(), &bench.namespace, &object).await?;
    bench.delete("held").await?;
    watched.until_seen(|seen| seen.iter().any(|seen| seen.what == CallKind::Updated)).await?;
    let held = watched.informer.lister().get(&bench.key("held"))?;
    assert!(
        informer::Object::deletion_timestamp(&*held).is_some(),
        "the object has a deletionTimestamp until its finalizer is removed"
    );
    let patch = json!({"metadata": {"finalizers": null}});
    bench.api.merge(&maps(), &bench.namespace, "held", &patch).await?;
    watched.until_seen(|seen| seen.last().is_some_and(|last| last.what == CallKind::Deleted)).await?;
    assert_eq!(watched.story("held"), [CallKind::Added, CallKind::Updated, CallKind::Deleted]);
    bench.settled(&watched, &maps()).await
}

pub(super) fn version(object: &serde_json::Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
