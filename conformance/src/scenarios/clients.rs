use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::TryStreamExt;
use http::Method;
use informer::client::{Client, ResourceKind};
use informer::source::SourceErrorKind;
use informer::{Gvk, Gvr};
use informer_runtime::{
    Cache, CachedClient, DeleteOptions, ListOptions, MAX_CONFLICT_ATTEMPTS, Owner, Patch, add_finalizer,
    contains_finalizer, has_controller_reference, remove_finalizer, retry_on_conflict,
    set_controller_reference,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::bench::maps;
use crate::poll;
use crate::request_log::RequestLog;
use crate::scenario::scenario;
use crate::server::{CustomKind, definition, definitions};
use crate::watched::PATIENCE;
use crate::{Bench, Failure, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_status_write_of_a_dynamic_object_changes_only_the_status),
        scenario!(a_dynamic_object_with_a_finalizer_exists_until_the_finalizer_is_removed),
        scenario!(an_apply_of_a_dynamic_object_removes_only_omitted_fields_of_its_owner),
        scenario!(a_metadata_client_reads_patches_and_deletes_without_bodies),
        scenario!(a_rest_mapper_finds_a_kind_that_is_defined_later),
        scenario!(an_apply_that_changes_nothing_is_not_sent),
        scenario!(a_conflicting_update_is_repeated_with_the_new_state),
    ]
}

/// Returns a client whose cache is restricted to the namespace of the scenario.
pub(super) fn cached(bench: &Bench, client: Client) -> CachedClient {
    let cache = Cache::builder(client).namespaces([&*bench.namespace]).read_timeout(PATIENCE).build();
    cache.start();
    CachedClient::new(&cache)
}

pub(super) fn kind(custom: &CustomKind) -> ResourceKind {
    ResourceKind::new(&custom.group, custom.versions[0], &custom.kind, &custom.plural).namespaced()
}

fn widget(bench: &Bench, custom: &CustomKind, name: &str) -> Result<DynamicObject, Failure> {
    Ok(serde_json::from_value(json!({
        "apiVersion": format!("{}/{}", custom.group, custom.versions[0]), "kind": custom.kind,
        "metadata": {"name": name, "namespace": bench.namespace}, "spec": {"size": 1},
    }))?)
}

fn config_map<K: DeserializeOwned>(bench: &Bench, name: &str, data: &Value) -> Result<K, Failure> {
    let metadata = json!({"name": name, "namespace": bench.namespace});
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data,
    }))?)
}

async fn a_status_write_of_a_dynamic_object_changes_only_the_status(bench: Bench) -> Result<(), Failure> {
    let custom = bench.custom(&["v1"]);
    let mut crd = definition(&custom);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    bench.api.create(&definitions(), "", &crd).await?;
    while bench.api.list(&custom.gvr("v1"), &bench.namespace).await.is_err() {
        poll::pause().await;
    }
    let widgets = cached(&bench, bench.client()).dynamic(kind(&custom));
    let created = widgets.create(&widget(&bench, &custom, "a")?).await?;
    assert_eq!(created.metadata.generation, Some(1));

    let key = bench.key("a");
    let written = widgets.edit_status(&key, |widget| {
        widget.data["spec"]["size"] = json!(9);
        widget.data["status"] = json!({"ready": true});
    });
    let written = written.await?.ok_or("the object does not exist")?;
    assert_eq!(written.data["spec"], json!({"size": 1}), "a status write leaves the spec unchanged");
    assert_eq!(written.data["status"], json!({"ready": true}));
    assert_eq!(written.metadata.generation, Some(1));

    let mut edited = written.clone();
    edited.data["spec"]["size"] = json!(2);
    edited.data["status"]["ready"] = json!(false);
    let updated = widgets.update(&written, &edited).await?;
    assert_eq!(updated.data["spec"], json!({"size": 2}));
    assert_eq!(updated.data["status"], json!({"ready": true}), "an update leaves the status unchanged");
    assert_eq!(updated.metadata.generation, Some(2));

    let stale = widgets.status().update(&written, &edited).await;
    let error = stale.err().ok_or("an update of a stale object was accepted")?;
    assert!(error.is_conflict(), "{error}");
    let patched = widgets.status().patch(&key, &Patch::merge(json!({"status": {"ready": false}}))).await?;
    assert_eq!(patched.data["status"], json!({"ready": false}));
    Ok(())
}

async fn a_dynamic_object_with_a_finalizer_exists_until_the_finalizer_is_removed(
    bench: Bench,
) -> Result<(), Failure> {
    const FINALIZER: &str = "conformance.example.com/hold";
    let custom = bench.define(&["v1"]).await?;
    let client = cached(&bench, bench.client());
    let widgets = client.dynamic(kind(&custom));
    let owner = widgets.create(&widget(&bench, &custom, "owner")?).await?;
    let other = widgets.create(&widget(&bench, &custom, "other")?).await?;
    bench.create("m").await?;
    let (maps, key) = (client.dynamic(ResourceKind::of::<ConfigMap>()), bench.key("m"));
    let edited = maps.edit(&key, |map| {
        set_controller_reference(Owner::of_dynamic(&owner), map).expect("the owner is in the same namespace");
        add_finalizer(map, FINALIZER);
    });
    let mut held = edited.await?.ok_or("the object does not exist")?;
    assert!(has_controller_reference(&held) && contains_finalizer(&held, FINALIZER));
    let reference = &held.metadata.owner_references.as_ref().ok_or("the object has no owner")?[0];
    assert_eq!(
        (&reference.api_version, &reference.kind, &reference.name, Some(&reference.uid)),
        (&format!("{}/v1", custom.group), &custom.kind, &"owner".to_owned(), owner.metadata.uid.as_ref())
    );
    let second = set_controller_reference(Owner::of_dynamic(&other), &mut held);
    assert!(second.is_err(), "an object has at most one controller");

    maps.delete(&key, &DeleteOptions::default()).await?;
    let deleting = maps.get(&key).await?.ok_or("the finalizer does not keep the object")?;
    assert!(deleting.metadata.deletion_timestamp.is_some());
    let last = maps.edit(&key, |map| {
        remove_finalizer(map, FINALIZER);
    });
    assert!(last.await?.is_some());
    assert!(maps.get(&key).await?.is_none());
    Ok(())
}

async fn an_apply_of_a_dynamic_object_removes_only_omitted_fields_of_its_owner(
    bench: Bench,
) -> Result<(), Failure> {
    let client = cached(&bench, bench.client()).field_owner("ours");
    let kind = ResourceKind::of::<ConfigMap>();
    let (ours, theirs) = (client.dynamic(&kind), client.field_owner("theirs").dynamic(&kind));
    let desired = |data: Value| config_map::<DynamicObject>(&bench, "m", &data);
    ours.apply(&desired(json!({"a": "1", "b": "2"}))?).await?;
    theirs.patch(&bench.key("m"), &Patch::merge(json!({"data": {"c": "3"}}))).await?;
    let applied = ours.apply(&desired(json!({"a": "1"}))?).await?;
    assert_eq!(applied.data["data"], json!({"a": "1", "c": "3"}));
    theirs.patch(&bench.key("m"), &Patch::merge(json!({"data": {"a": "9"}}))).await?;
    let conflict = ours.apply(&desired(json!({"a": "1"}))?).await;
    let conflict = conflict.err().ok_or("an apply has overwritten a field of another owner")?;
    assert!(conflict.is_conflict() && conflict.to_string().contains("theirs"), "{conflict}");
    let forced = client.force().dynamic(&kind).apply(&desired(json!({"a": "1"}))?).await?;
    assert_eq!(forced.data["data"], json!({"a": "1", "c": "3"}));
    // The returned object has managed fields, which a server rejects in an apply.
    client.force().dynamic(&kind).apply(&forced).await?;
    Ok(())
}

async fn a_metadata_client_reads_patches_and_deletes_without_bodies(bench: Bench) -> Result<(), Failure> {
    let secrets = Gvr::new("", "v1", "secrets");
    for name in ["a", "b", "c"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"key": "hidden"}});
        bench.api.create(&secrets, &bench.namespace, &secret).await?;
    }
    let metadata = cached(&bench, bench.client()).live_metadata(ResourceKind::of::<Secret>());
    let a = bench.key("a");
    let read = metadata.get(&a).await?.ok_or("the object does not exist")?;
    assert_eq!(read.types.map(|types| types.kind).as_deref(), Some("PartialObjectMetadata"));
    assert!(metadata.get(&bench.key("none")).await?.is_none());
    let label = Patch::merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let patched = metadata.patch(&a, &label).await?;
    assert_eq!(patched.metadata.labels.map(|labels| labels["app"].clone()).as_deref(), Some("web"));
    let stored = bench.api.read(&format!("{}/a", secrets.path(Some(&bench.namespace)))).await?;
    assert_eq!(stored["data"], json!({"key": "aGlkZGVu"}), "the body is unchanged");

    let here = ListOptions::default().namespace(&*bench.namespace);
    let labelled = here.clone().labels("app=web".parse()?);
    assert_eq!(metadata.list(&labelled).await?.len(), 1);
    let listed: Vec<_> = metadata.stream(&here.clone().limit(1)).try_collect().await?;
    let names: Vec<_> = listed.iter().filter_map(|object| object.metadata.name.as_deref()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    metadata.delete(&bench.key("b"), &DeleteOptions::default()).await?;
    metadata.delete_all(&labelled, &DeleteOptions::default()).await?;
    let left = metadata.list(&here).await?;
    assert_eq!(left.iter().filter_map(|object| object.metadata.name.as_deref()).collect::<Vec<_>>(), ["c"]);
    Ok(())
}

async fn a_rest_mapper_finds_a_kind_that_is_defined_later(bench: Bench) -> Result<(), Failure> {
    let custom = bench.custom(&["v1"]);
    let (mapper, gvk) = (bench.client().rest_mapper(), Gvk::new(&custom.group, "v1", &custom.kind));
    assert_eq!(mapper.resolve("cm").await?.kind.gvr(), maps());
    // A server that cannot discover the group of another scenario reports it as unavailable, so the kind may
    // be in that group.
    let is_missing = |kind| matches!(kind, SourceErrorKind::NotFound | SourceErrorKind::Unavailable);
    let missing = mapper.kind(&gvk).await.err().ok_or("the kind is known before it is defined")?;
    assert!(is_missing(missing.kind()), "{missing}");
    bench.define(&["v1"]).await?;
    let found = loop {
        match mapper.kind(&gvk).await {
            Ok(found) => break found,
            Err(error) if is_missing(error.kind()) => poll::pause().await,
            Err(error) => return Err(error.into()),
        }
    };
    assert_eq!((found.kind.gvr(), found.namespaced), (custom.gvr("v1"), true));
    for found in [
        mapper.resource(&custom.gvr("v1")).await?,
        mapper.preferred(&custom.group, &custom.kind).await?,
        mapper.resolve(&custom.name()).await?,
    ] {
        assert_eq!(found.kind.gvk(), &gvk);
    }
    let widgets = cached(&bench, bench.client()).dynamic(found.kind);
    widgets.create(&widget(&bench, &custom, "a")?).await?;
    assert_eq!(widgets.list(&ListOptions::default().namespace(&*bench.namespace)).await?.len(), 1);

    bench.api.delete(&definitions(), "", &custom.name()).await?;
    while mapper.refresh().await?.kind(&gvk).is_some() {
        poll::pause().await;
    }
    assert!(mapper.kind(&gvk).await.is_err());
    Ok(())
}

async fn an_apply_that_changes_nothing_is_not_sent(bench: Bench) -> Result<(), Failure> {
    let (client, requests) = RequestLog::of(bench.client());
    let client = cached(&bench, client).field_owner("ours").skip_unchanged_applies();
    let applies = || requests.count(|request| request.method == Method::PATCH);
    let desired = |value: &str| config_map::<ConfigMap>(&bench, "m", &json!({"value": value}));
    let first = client.apply(&desired("1")?).await?;
    for _ in 0..3 {
        let again = client.apply(&desired("1")?).await?;
        assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
    }
    assert_eq!(applies(), 1);
    client.apply(&desired("2")?).await?;
    assert_eq!(applies(), 2, "a changed body is sent");
    bench.change("m", "3").await?;
    let key = bench.key("m");
    let value = async || {
        let held = client.get::<ConfigMap>(&key).await?;
        Ok::<_, Failure>(held.and_then(|map| map.data.as_ref().map(|data| data["value"].clone())))
    };
    while value().await?.as_deref() != Some("3") {
        poll::pause().await;
    }
    let restored = client.force().apply(&desired("2")?).await?;
    assert_eq!(restored.data.as_ref().map(|data| &*data["value"]), Some("2"));
    assert_eq!(applies(), 3, "a change by another program is reverted");
    bench.delete("m").await?;
    while value().await?.is_some() {
        poll::pause().await;
    }
    client.apply(&desired("2")?).await?;
    assert_eq!((value().await?.as_deref(), applies()), (Some("2"), 4), "a deleted object is created again");
    Ok(())
}

async fn a_conflicting_update_is_repeated_with_the_new_state(bench: Bench) -> Result<(), Failure> {
    bench.create("m").await?;
    let (client, key, attempts) = (cached(&bench, bench.client()), bench.key("m"), AtomicU32::new(0));
    // Another program changes the object between the read and the update of the first attempts.
    let update = async |conflicts: u32, label: &str| {
        let number = attempts.fetch_add(1, Ordering::SeqCst);
        let map = client.live().get::<ConfigMap>(&key).await?.expect("no program deletes the object");
        if number < conflicts {
            bench.change("m", &format!("{label}-{number}")).await.expect("the object can be changed");
        }
        let mut edited = map.edit();
        edited.data.get_or_insert_default().insert(label.to_owned(), "yes".to_owned());
        client.update(&edited).await
    };
    let stored = retry_on_conflict(|| update(2, "first")).await?;
    assert_eq!(attempts.swap(0, Ordering::SeqCst), 3);
    let data = stored.data.as_ref().ok_or("the object has no data")?;
    assert_eq!((&*data["value"], &*data["first"]), ("first-1", "yes"), "no write is lost");
    let failed = retry_on_conflict(|| update(u32::MAX, "second")).await;
    let error = failed.err().ok_or("an update of a stale object was accepted")?;
    assert!(error.is_conflict(), "{error}");
    assert_eq!(attempts.load(Ordering::SeqCst), MAX_CONFLICT_ATTEMPTS);
    Ok(())
}
