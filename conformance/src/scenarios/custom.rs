use informer::cache::SharedInformer;
use informer::client::{Dynamic, KubeListWatch, Lazy, ResourceKind, Typed};
use informer::source::SourceErrorKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scenario::scenario;
use crate::server::CustomKind;
use crate::{Bench, CallKind, Failure, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(custom_objects_are_watched),
        scenario!(an_informer_syncs_after_its_kind_is_defined),
        scenario!(an_undecodable_object_does_not_block_others),
        scenario!(a_repaired_undecodable_object_is_cached_again),
        scenario!(a_typed_read_of_an_invalid_object_names_object_and_field),
        scenario!(two_versions_of_a_kind_show_the_same_objects),
        scenario!(deleting_a_crd_deletes_its_objects_and_recreating_it_recovers),
        scenario!(a_changed_crd_ends_watches_and_loses_nothing),
    ]
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Widget {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WidgetSpec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct WidgetSpec {
    #[serde(default)]
    size: u32,
}

fn kind(custom: &CustomKind, version: &str) -> ResourceKind {
    ResourceKind::new(&custom.group, version, &custom.kind, &custom.plural)
}

fn widget(custom: &CustomKind, version: &str, name: &str, size: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", custom.group), "kind": custom.kind,
        "metadata": {"name": name}, "spec": {"size": size},
    })
}

async fn make(bench: &Bench, custom: &CustomKind, name: &str, size: Value) -> Result<(), Failure> {
    let version = custom.versions[0];
    bench.api.create(&custom.gvr(version), &bench.namespace, &widget(custom, version, name, &size)).await?;
    bench.visible(&custom.gvr(version)).await
}

async fn resize(bench: &Bench, custom: &CustomKind, name: &str, size: Value) -> Result<(), Failure> {
    let (gvr, patch) = (custom.gvr(custom.versions[0]), json!({"spec": {"size": size}}));
    bench.api.merge(&gvr, &bench.namespace, name, &patch).await?;
    Ok(())
}

fn widgets<O: informer::client::Representation>(
    bench: &Bench,
    custom: &CustomKind,
    version: &str,
) -> SharedInformer<O> {
    SharedInformer::new(KubeListWatch::of(bench.client(), kind(custom, version)).namespace(&*bench.namespace))
}

async fn custom_objects_are_watched(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    let lazy = Watched::synced(widgets::<Lazy<Widget>>(&bench, &custom, "v1")).await?;
    let dynamic = Watched::synced(widgets::<Dynamic>(&bench, &custom, "v1")).await?;
    resize(&bench, &custom, "a", json!(2)).await?;
    make(&bench, &custom, "b", json!(3)).await?;
    bench.settled(&lazy, &custom.gvr("v1")).await?;
    bench.settled(&dynamic, &custom.gvr("v1")).await?;
    assert_eq!(lazy.informer.lister().get(&bench.key("a"))?.get()?.spec.size, 2);
    assert_eq!(dynamic.informer.lister().get(&bench.key("b"))?.value()?["spec"]["size"], 3);
    assert_eq!(lazy.story("a"), [CallKind::Initial, CallKind::Updated]);
    Ok(())
}

async fn an_informer_syncs_after_its_kind_is_defined(bench: Bench) -> Result<(), Failure> {
    let custom = bench.custom(&["v1"]);
    let watched = Watched::start(widgets::<Dynamic>(&bench, &custom, "v1"))?;
    watched.until_state(|state| state.reflector.failures > 0).await?;
    let failure = watched.informer.state().reflector.last_error.map(|error| error.kind());
    assert_eq!(failure, Some(SourceErrorKind::NotFound));
    bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    bench.settled(&watched, &custom.gvr("v1")).await
}

async fn an_undecodable_object_does_not_block_others(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "good", json!(1)).await?;
    make(&bench, &custom, "bad", json!("large")).await?;
    let watched = Watched::synced(widgets::<Typed<Widget>>(&bench, &custom, "v1")).await?;
    make(&bench, &custom, "later", json!(2)).await?;
    resize(&bench, &custom, "good", json!(5)).await?;
    watched.until(|cache| cache.contains(&bench.key("later"))).await?;
    watched.until_seen(|seen| seen.iter().any(|seen| seen.what == CallKind::Updated)).await?;
    let aside = watched.informer.undecodable();
    let [bad] = &aside[..] else { return Err(format!("expected one undecodable object: {aside:?}").into()) };
    assert_eq!(bad.key().map(|key| key.name()), Some("bad"));
    assert!(bad.error().to_string().contains("spec.size"), "{}", bad.error());
    assert!(
        !format!("{bad:?} {}", bad.error()).contains("large"),
        "errors do not contain values of the object"
    );
    Ok(())
}

async fn a_repaired_undecodable_object_is_cached_again(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    let watched = Watched::synced(widgets::<Typed<Widget>>(&bench, &custom, "v1")).await?;
    resize(&bench, &custom, "a", json!("large")).await?;
    watched.until_state(|state| state.undecodable == 1).await?;
    assert_eq!(
        watched.informer.lister().get(&bench.key("a"))?.get()?.spec.size,
        1,
        "the last decodable state stays in the cache"
    );
    resize(&bench, &custom, "a", json!(3)).await?;
    bench.settled(&watched, &custom.gvr("v1")).await?;
    assert_eq!(watched.informer.lister().get(&bench.key("a"))?.get()?.spec.size, 3);
    assert!(watched.informer.undecodable().is_empty());
    assert_eq!(watched.story("a"), [CallKind::Initial, CallKind::Updated]);
    Ok(())
}

async fn a_typed_read_of_an_invalid_object_names_object_and_field(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "bad", json!({"width": 1})).await?;
    let watched = Watched::synced(widgets::<Lazy<Widget>>(&bench, &custom, "v1")).await?;
    let held = watched.informer.lister().get(&bench.key("bad"))?;
    let error = held.get().err().ok_or("a typed read of an invalid size succeeded")?;
    assert_eq!(error.field(), "spec.size");
    assert!(error.to_string().contains("bad"), "{error}");
    assert_eq!(watched.informer.undecodable().len(), 1);
    Ok(())
}

async fn two_versions_of_a_kind_show_the_same_objects(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1", "v2"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    let one = Watched::synced(widgets::<Dynamic>(&bench, &custom, "v1")).await?;
    let two = Watched::synced(widgets::<Dynamic>(&bench, &custom, "v2")).await?;
    resize(&bench, &custom, "a", json!(2)).await?;
    let new = widget(&custom, "v2", "b", &json!(7));
    bench.api.create(&custom.gvr("v2"), &bench.namespace, &new).await?;
    let truth = bench.truth(&custom.gvr("v1"), &bench.namespace).await?;
    assert_eq!(truth.len(), 2);
    bench.equal(&one, &truth).await?;
    bench.equal(&two, &truth).await?;
    let of = |watched: &Watched<Dynamic>, field: &str| {
        let held = watched.informer.lister().get(&bench.key("b"));
        Ok::<_, Failure>(held?.value()?[field].clone())
    };
    assert_eq!(of(&one, "apiVersion")?, format!("{}/v1", custom.group));
    assert_eq!(of(&two, "apiVersion")?, format!("{}/v2", custom.group));
    assert_eq!(of(&one, "spec")?, of(&two, "spec")?);
    Ok(())
}

async fn deleting_a_crd_deletes_its_objects_and_recreating_it_recovers(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    make(&bench, &custom, "b", json!(1)).await?;
    let watched = Watched::synced(widgets::<Lazy<Widget>>(&bench, &custom, "v1")).await?;
    let definitions = crate::server::definitions();
    bench.api.delete(&definitions, "", &custom.name()).await?;
    watched.until(|cache| cache.is_empty()).await?;
    watched
        .until_state(|state| {
            let last = state.reflector.last_error.as_ref();
            last.is_some_and(|error| error.kind() == SourceErrorKind::NotFound)
        })
        .await?;
    bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(2)).await?;
    bench.settled(&watched, &custom.gvr("v1")).await?;
    let seen = watched.seen();
    let of_a: Vec<_> = seen.iter().filter(|seen| seen.name() == "a").collect();
    assert!(matches!(of_a.last().map(|seen| seen.what), Some(CallKind::Added)), "{seen:?}");
    assert_ne!(of_a.first().map(|seen| &seen.uid), of_a.last().map(|seen| &seen.uid));
    Ok(())
}

async fn a_changed_crd_ends_watches_and_loses_nothing(bench: Bench) -> Result<(), Failure> {
    let custom = bench.define(&["v1"]).await?;
    make(&bench, &custom, "a", json!(1)).await?;
    let watched = Watched::synced(widgets::<Lazy<Widget>>(&bench, &custom, "v1")).await?;
    let columns = json!([{"name": "Size", "type": "string", "jsonPath": ".spec.size"}]);
    let mut definition = crate::server::definition(&custom);
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
    let patch = json!({"spec": {"versions": definition["spec"]["versions"]}});
    let definitions = crate::server::definitions();
    bench.api.merge(&definitions, "", &custom.name(), &patch).await?;
    // The server ends the watch one second after the change of the CRD. Writes continue until the informer
    // has opened another watch.
    let mut size = 1;
    while watched.informer.state().reflector.watches_opened < 2 {
        size += 1;
        while resize(&bench, &custom, "a", json!(size)).await.is_err() {
            crate::poll::pause().await;
        }
        crate::poll::pause().await;
    }
    bench.settled(&watched, &custom.gvr("v1")).await?;
    assert_eq!(watched.informer.lister().get(&bench.key("a"))?.get()?.spec.size, size);
    Ok(())
}
