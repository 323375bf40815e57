use informer::cache::{SharedInformer, SharedInformerFactory};
use informer::client::{Dynamic, KubeListWatch, Metadata, Pruning, ReadOptions, ResourceKind, Typed};
use informer::{Gvr, Object};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(metadata_informers_get_no_content),
        scenario!(metadata_informers_stream_their_list),
        scenario!(all_representations_show_the_same_objects),
        scenario!(typed_objects_follow_changes),
        scenario!(managed_fields_are_dropped_unless_requested),
        scenario!(a_transform_changes_cached_objects_and_events),
        scenario!(cluster_scoped_objects_have_no_namespace),
        scenario!(elements_of_lists_are_held_with_all_their_fields),
    ]
}

async fn metadata_informers_get_no_content(bench: Bench) -> Result<(), Failure> {
    let map = json!({"metadata": {"name": "a", "annotations": {"note": "kept"}}, "data": {"value": "x".repeat(50_000)}});
    bench.api.create(&maps(), &bench.namespace, &map).await?;
    bench.visible(&maps()).await?;
    let informer =
        SharedInformer::new(bench.source::<Metadata<ConfigMap>>(&bench.client(), InitialRead::List));
    let watched = Watched::synced(informer).await?;
    bench.settled(&watched, &maps()).await?;
    let held = watched.informer.lister().get(&bench.key("a"))?;
    assert_eq!(held.annotation("note").as_deref(), Some("kept"));
    assert!(held.held_bytes() < 5_000, "{} bytes of metadata", held.held_bytes());
    bench.change("a", "small").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(
        watched.story("a"),
        [CallKind::Initial, CallKind::Updated],
        "a change of content is an update of the metadata"
    );
    Ok(())
}

async fn metadata_informers_stream_their_list(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 12).await?;
    let informer =
        SharedInformer::new(bench.source::<Metadata<ConfigMap>>(&bench.client(), InitialRead::Stream));
    let watched = Watched::synced(informer).await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.informer.state().reflector.list_requests, 0);
    bench.delete("map-3").await?;
    bench.settled(&watched, &maps()).await
}

async fn all_representations_show_the_same_objects(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 9).await?;
    let factory = SharedInformerFactory::new(bench.client()).namespace(&*bench.namespace);
    let lazy = Watched::start(factory.informer::<ConfigMap>())?;
    let typed = Watched::start(factory.typed::<ConfigMap>())?;
    let dynamic = Watched::start(factory.dynamic(ResourceKind::of::<ConfigMap>()))?;
    let metadata = Watched::start(factory.metadata::<ConfigMap>())?;
    bench.change("map-1", "changed").await?;
    bench.delete("map-2").await?;
    let truth = bench.truth(&maps(), &bench.namespace).await?;
    bench.equal(&lazy, &truth).await?;
    bench.equal(&typed, &truth).await?;
    bench.equal(&dynamic, &truth).await?;
    bench.equal(&metadata, &truth).await?;
    let key = bench.key("map-1");
    let of_typed = typed.informer.lister().get(&key)?.get()?;
    let of_lazy = lazy.informer.lister().get(&key)?.get()?;
    let of_dynamic = dynamic.informer.lister().get(&key)?;
    assert_eq!(of_typed.data, of_lazy.data);
    assert_eq!(of_dynamic.value()?["data"]["value"], "changed");
    Ok(())
}

async fn typed_objects_follow_changes(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let informer: SharedInformer<Typed<ConfigMap>> =
        SharedInformer::new(bench.source(&bench.client(), InitialRead::Stream));
    let watched = Watched::synced(informer).await?;
    bench.change("a", "7").await?;
    bench.settled(&watched, &maps()).await?;
    let data = watched.informer.lister().get(&bench.key("a"))?.get()?.data.clone().unwrap_or_default();
    assert_eq!(data.get("value").map(String::as_str), Some("7"));
    Ok(())
}

async fn managed_fields_are_dropped_unless_requested(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let source: KubeListWatch<Dynamic> =
        KubeListWatch::of(bench.client(), ResourceKind::of::<ConfigMap>()).namespace(&*bench.namespace);
    let all = ReadOptions { pruning: Pruning::nothing(), ..ReadOptions::default() };
    let cut = Watched::synced(SharedInformer::new(source.clone())).await?;
    let kept = Watched::synced(SharedInformer::new(source.read_options(all))).await?;
    let fields = |watched: &Watched<Dynamic>| {
        let held = watched.informer.lister().get(&bench.key("a"));
        Ok::<_, Failure>(held?.value()?["metadata"]["managedFields"].clone())
    };
    assert!(fields(&cut)?.is_null());
    assert!(fields(&kept)?.is_array());
    Ok(())
}

async fn a_transform_changes_cached_objects_and_events(bench: Bench) -> Result<(), Failure> {
    bench.create("seen").await?;
    bench.create("refused").await?;
    let informer = SharedInformer::builder(bench.source::<Map>(&bench.client(), InitialRead::List))
        .transform(|object| match object.key().name() {
            "refused" => Err("rejected by the transform".into()),
            _ => Ok(object),
        })
        .build();
    let watched = Watched::synced(informer).await?;
    assert!(watched.informer.indexer().contains(&bench.key("seen")));
    assert!(!watched.informer.indexer().contains(&bench.key("refused")));
    let aside = watched.informer.undecodable();
    assert_eq!(
        aside.iter().filter(|entry| entry.key().is_some_and(|key| key.name() == "refused")).count(),
        1
    );
    bench.change("refused", "1").await?;
    bench.change("seen", "1").await?;
    watched.until_seen(|seen| seen.iter().any(|seen| seen.what == CallKind::Updated)).await?;
    assert!(watched.story("refused").is_empty(), "{:?}", watched.seen());
    Ok(())
}

async fn cluster_scoped_objects_have_no_namespace(bench: Bench) -> Result<(), Failure> {
    use k8s_openapi::api::storage::v1::StorageClass;
    let classes = Gvr::new("storage.k8s.io", "v1", "storageclasses");
    let informer = SharedInformerFactory::new(bench.client()).informer::<StorageClass>();
    let watched = Watched::synced(informer).await?;
    let class = json!({"metadata": {"name": bench.namespace}, "provisioner": "example.com/none"});
    bench.api.create(&classes, "", &class).await?;
    watched.until(|cache| cache.contains(&bench.namespace)).await?;
    let held = watched.informer.lister().get(&bench.namespace)?;
    assert_eq!((held.key().namespace(), held.key().name()), (None, &*bench.namespace));
    bench.api.delete(&classes, "", &bench.namespace).await?;
    watched.until(|cache| !cache.contains(&bench.namespace)).await
}

async fn elements_of_lists_are_held_with_all_their_fields(bench: Bench) -> Result<(), Failure> {
    let container = json!({
        "name": "main", "image": "example.com/none:1", "ports": [{"containerPort": 80}, {"containerPort": 443}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
    });
    let side = json!({"name": "side", "image": "example.com/none:1"});
    let pod = json!({"containers": [container, side]});
    let labels = json!({"app": "web"});
    let map = bench.create("owner").await?;
    let uid = &map["metadata"]["uid"];
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let objects = [
        ("", "pods", json!({"spec": pod})),
        ("", "secrets", json!({"stringData": {"key": "x"}})),
        (
            "",
            "services",
            json!({"spec": {"selector": labels, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}}),
        ),
        (
            "apps",
            "deployments",
            json!({
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            }),
        ),
    ];
    for (group, resource, mut object) in objects {
        object["metadata"] = json!({"name": "web", "ownerReferences": [owner]});
        let gvr = Gvr::new(group, "v1", resource);
        bench.api.create(&gvr, &bench.namespace, &object).await?;
        bench.visible(&gvr).await?;
    }
    if bench.server.is_newer() {
        let pods = Gvr::new("", "v1", "pods").path(Some(&bench.namespace));
        let pod = bench.api.read(&format!("{pods}/web")).await?;
        let container = &pod["spec"]["containers"][0];
        assert_eq!((&container["env"][0]["masked"], &container["shells"][0]), (&json!(true), &json!("sh")));
    }
    bench.equals_json().await
}
