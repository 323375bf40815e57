use std::time::Duration;

use http::Method;
use informer::Object;
use informer::cache::SharedInformer;
use informer::client::{Dynamic, Lazy};
use informer::source::SourceErrorKind;
use informer_runtime::{
    Cache, CacheBuilder, CacheInformer, CachedClient, ListOptions, ReadError, Referenced,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::clients::kind;
use crate::bench::{Map, maps};
use crate::poll;
use crate::request_log::RequestLog;
use crate::scenario::scenario;
use crate::server::{CustomKind, definitions};
use crate::watched::{PATIENCE, recorder};
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(only_bodies_of_referenced_objects_are_requested_and_kept_current),
        scenario!(a_client_reads_its_own_writes_of_referenced_secrets),
        scenario!(an_informer_ends_with_its_crd_and_starts_again_with_it),
        scenario!(an_unused_informer_ends_and_the_next_read_creates_it_again),
        scenario!(objects_that_fail_the_filter_are_not_cached),
        scenario!(a_memory_limit_compresses_objects_and_drops_none),
    ]
}

/// Returns the builder of a cache that is restricted to the namespace of the scenario.
fn builder(bench: &Bench, client: impl Into<informer::client::Client>) -> CacheBuilder {
    Cache::builder(client).namespaces([&*bench.namespace]).read_timeout(PATIENCE)
}

fn value(map: &Map) -> Option<String> {
    map.get().ok()?.data.as_ref()?.get("value").cloned()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// Waits until the metadata in the cache shows this state of an object.
async fn shown(
    bench: &Bench,
    maps: &Referenced<ConfigMap>,
    name: &str,
    state: &Value,
) -> Result<(), Failure> {
    let key = bench.key(name);
    while maps.metadata().get(&key)?.is_none_or(|held| *held.resource_version() != version(state)) {
        poll::pause().await;
    }
    Ok(())
}

async fn only_bodies_of_referenced_objects_are_requested_and_kept_current(
    bench: Bench,
) -> Result<(), Failure> {
    bench.create_many("map", 5).await?;
    let (client, requests) = RequestLog::of(bench.client());
    let collection = maps().path(Some(&bench.namespace));
    let body = format!("{collection}/");
    let bodies = || {
        let reads = requests.matching(|read| read.method == Method::GET && read.path.starts_with(&body));
        reads.into_iter().map(|read| read.path[body.len()..].to_owned()).collect::<Vec<_>>()
    };
    let cache = builder(&bench, client).build();
    cache.start();
    let maps = cache.referenced::<ConfigMap>()?;
    let reference = maps.reference(&bench.key("map-0").parse()?);
    let read = reference.get().await?.ok_or("the object does not exist")?;
    assert_eq!(value(&read).as_deref(), Some("0"));
    assert_eq!((maps.metadata().len(), maps.state().bodies), (5, 1));
    assert_eq!(bodies(), ["map-0"]);

    let unreferenced = bench.change("map-1", "1").await?;
    bench.change("map-0", "1").await?;
    poll::until(|| reference.held().and_then(|map| value(&map)).as_deref() == Some("1")).await;
    shown(&bench, &maps, "map-1", &unreferenced).await?;
    assert!(bodies().iter().all(|name| name == "map-0"), "{:?}", bodies());
    let read = maps.get(&bench.key("map-1")).await?.ok_or("the object does not exist")?;
    assert_eq!(value(&read).as_deref(), Some("1"), "a read requests the body of any object");
    assert_eq!(bodies().iter().filter(|name| *name == "map-1").count(), 1);

    bench.delete("map-0").await?;
    poll::until(|| reference.held().is_none()).await;
    assert!(reference.get().await?.is_none());
    let again = bench.create("map-0").await?;
    shown(&bench, &maps, "map-0", &again).await?;
    let read = reference.get().await?.ok_or("the object does not exist")?;
    assert_eq!(read.uid(), again["metadata"]["uid"], "the body is that of the new object");
    drop(reference);
    assert_eq!(maps.state().referenced, 0);
    cache.stop().await;
    Ok(())
}

async fn a_client_reads_its_own_writes_of_referenced_secrets(bench: Bench) -> Result<(), Failure> {
    let cache = builder(&bench, bench.client()).referenced::<Secret>().build();
    cache.start();
    let (client, key) = (CachedClient::new(&cache), bench.key("db"));
    let metadata = json!({"name": "db", "namespace": bench.namespace});
    let secret = json!({"metadata": metadata, "stringData": {"user": "0"}});
    client.create(&serde_json::from_value::<Secret>(secret)?).await?;
    for user in ["1", "2", "3"] {
        let read = client.get::<Secret>(&key).await?.ok_or("the cache does not show the own write")?;
        let mut edited = read.edit();
        edited.string_data = Some([("user".to_owned(), user.to_owned())].into());
        client.update(&edited).await?;
        let read = client.get::<Secret>(&key).await?.ok_or("the cache does not show the own write")?;
        assert_eq!(read.data.as_ref().map(|data| &*data["user"].0), Some(user.as_bytes()));
    }
    client.delete::<Secret>(&key).await?;
    assert!(client.get::<Secret>(&key).await?.is_none());
    cache.stop().await;
    Ok(())
}

/// Deletes the CRD of a kind until the informer has ended. A cache notices the deletion of a CRD only after
/// it has listed all CRDs, and nothing shows when it has. Before that, the informer fails to list its kind.
async fn delete_until_noticed(
    bench: &Bench,
    custom: &CustomKind,
    informer: &CacheInformer<Dynamic>,
) -> Result<(), Failure> {
    let is_missing = || {
        let states = informer.scoped_informers().iter().map(|scoped| scoped.informer.state().reflector);
        let mut errors = states.filter(|state| state.failures > 0).filter_map(|state| state.last_error);
        errors.any(|error| error.kind() == SourceErrorKind::NotFound)
    };
    loop {
        bench.api.delete(&definitions(), "", &custom.name()).await?;
        poll::until(|| !informer.is_served() || is_missing()).await;
        if !informer.is_served() {
            return Ok(());
        }
        bench.define(&["v1"]).await?;
        poll::until(|| !is_missing()).await;
    }
}

async fn an_informer_ends_with_its_crd_and_starts_again_with_it(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    let (gvr, kind) = (custom.gvr("v1"), kind(&custom));
    let widget = |name: &str| {
        let api_version = format!("{}/v1", custom.group);
        json!({"apiVersion": api_version, "kind": custom.kind, "metadata": {"name": name}})
    };
    bench.api.create(&gvr, &bench.namespace, &widget("one")).await?;
    bench.visible(&gvr).await?;
    let (client, requests) = RequestLog::of(bench.client());
    let collection = gvr.path(Some(&bench.namespace));
    let cache = builder(&bench, client).follow_crds().build();
    cache.start();
    let informer = cache.dynamic(kind.clone());
    let (handler, calls) = recorder();
    informer.add_handler(handler)?;
    informer.wait_for_sync(PATIENCE).await?;
    let mut served = informer.served();

    delete_until_noticed(&bench, &custom, &informer).await?;
    let list = async || cache.list_of::<Dynamic>(kind.clone(), &ListOptions::default()).await;
    while !matches!(list().await, Err(ReadError::NotServed { .. })) {
        poll::pause().await;
    }
    assert!(cache.has_synced(), "the informer does not count while its kind is not served");
    poll::until(|| informer.is_stopped()).await;
    let before = requests.count(|request| request.path == collection);

    bench.define(&["v1"]).await?;
    bench.api.create(&gvr, &bench.namespace, &widget("two")).await?;
    served.wait_for(|served| *served).await?;
    while informer.get(&bench.key("two"))?.is_none() || informer.len() != 1 {
        poll::pause().await;
    }
    assert!(requests.count(|request| request.path == collection) > before);
    let story = |name: &str| -> Vec<CallKind> {
        calls.borrow().iter().filter(|call| call.name() == name).map(|call| call.what).collect()
    };
    poll::until(|| !story("two").is_empty() && story("one").len() >= 2).await;
    let one = story("one");
    assert!(
        matches!(one[..], [CallKind::Initial, CallKind::Deleted | CallKind::DeletedStale]),
        "the handler is kept and receives each change once: {one:?}"
    );
    cache.stop().await;
    Ok(())
}

async fn an_unused_informer_ends_and_the_next_read_creates_it_again(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let cache = builder(&bench, bench.client()).idle_timeout(Duration::from_secs(1)).build();
    cache.start();
    let held = cache.informer::<Secret>();
    for round in ["0", "1", "2"] {
        bench.change("a", round).await?;
        bench.visible(&maps()).await?;
        let read = cache.get::<ConfigMap>(&bench.key("a")).await?.ok_or("the object does not exist")?;
        assert_eq!(value(&read).as_deref(), Some(round), "the new informer shows the newest state");
        poll::until(|| cache.states().len() < 2).await;
        let names: Vec<String> = cache.states().into_iter().map(|state| state.name).collect();
        assert!(matches!(&names[..], [name] if name.contains("secrets")), "{names:?} run, one is held");
    }
    drop(held);
    poll::until(|| cache.states().is_empty()).await;
    cache.stop().await;
    Ok(())
}

async fn objects_that_fail_the_filter_are_not_cached(bench: Bench) -> Result<(), Failure> {
    for way in [InitialRead::List, InitialRead::Stream] {
        let (cable, client) = bench.cable().await?;
        let [enters, leaves, other] =
            ["enters", "leaves", "other"].map(|name| format!("{name}-{way:?}").to_lowercase());
        for name in [&enters, &leaves, &other] {
            bench.create(name).await?;
        }
        bench.change(&leaves, "keep").await?;
        bench.visible(&maps()).await?;
        let passes = |map: &Map| value(map).as_deref() == Some("keep");
        let informer = SharedInformer::builder(bench.source::<Map>(&client, way)).filter(passes).build();
        let watched = Watched::synced(informer).await?;
        let cached = |name: &str| watched.informer.indexer().contains(&bench.key(name));
        assert!(cached(&leaves) && !cached(&enters) && !cached(&other));
        bench.change(&enters, "keep").await?;
        watched.until(|cache| cache.contains(&bench.key(&enters))).await?;
        let failing = bench.change(&leaves, "drop").await?;
        watched.until(|cache| !cache.contains(&bench.key(&leaves))).await?;

        cable.unplug().await;
        bench.change(&enters, "drop").await?;
        bench.change(&leaves, "keep").await?;
        bench.change(&other, "drop").await?;
        cable.plug();
        watched
            .until(|cache| cache.contains(&bench.key(&leaves)) && !cache.contains(&bench.key(&enters)))
            .await?;
        let story = |name: &str| watched.story(name);
        watched.until_seen(|_| story(&enters).len() == 2 && story(&leaves).len() == 3).await?;
        assert_eq!(story(&enters), [CallKind::Added, CallKind::Deleted]);
        assert_eq!(story(&leaves), [CallKind::Initial, CallKind::Deleted, CallKind::Added]);
        assert!(story(&other).is_empty(), "the handler is not called for an object that never passes");
        let seen = watched.seen();
        let deleted = seen.iter().find(|call| call.name() == leaves && call.what == CallKind::Deleted);
        assert_eq!(deleted.map(|call| &*call.version), Some(version(&failing)), "the state that failed");
    }
    Ok(())
}

async fn a_memory_limit_compresses_objects_and_drops_none(bench: Bench) -> Result<(), Failure> {
    let (count, text) = (100, "settings: of a program with many of them\n".repeat(20));
    let object = |number: usize| {
        let data = json!({"value": number.to_string(), "text": text});
        (bench.namespace.clone(), json!({"metadata": {"name": format!("map-{number}")}, "data": data}))
    };
    crate::load(&bench.api, &maps(), count, object).await?;
    bench.visible(&maps()).await?;
    let unlimited = builder(&bench, bench.client()).memory_limit(usize::MAX).build();
    unlimited.start();
    let plain = unlimited.list::<ConfigMap>(&ListOptions::default()).await?;
    let used = unlimited.memory().ok_or("the cache has a memory limit")?.used;
    let limited = builder(&bench, bench.client()).memory_limit(used / 2).build();
    limited.start();
    let compressed = limited.list::<ConfigMap>(&ListOptions::default()).await?;
    assert_eq!((plain.len(), compressed.len()), (count, count));
    let state = limited.memory().ok_or("the cache has a memory limit")?;
    assert!(state.sources.iter().all(|source| source.is_compressed && source.objects == count), "{state:?}");
    assert!(state.used < used, "{} bytes instead of {used}", state.used);
    let find = |key: &informer::ObjectKey, objects: &[std::sync::Arc<Lazy<ConfigMap>>]| {
        objects.iter().find(|object| object.key() == key).cloned()
    };
    for object in &compressed {
        let same = find(object.key(), &plain).ok_or("an object is missing")?;
        assert_eq!(object.get()?, same.get()?, "reads return the same as before");
    }
    bench.change("map-7", "changed").await?;
    let key = bench.key("map-7");
    while limited.get::<ConfigMap>(&key).await?.and_then(|map| value(&map)).as_deref() != Some("changed") {
        poll::pause().await;
    }
    tokio::join!(unlimited.stop(), limited.stop());
    Ok(())
}
