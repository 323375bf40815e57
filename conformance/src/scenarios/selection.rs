use informer::cache::{SharedInformer, SharedInformerFactory};
use informer::client::{HashShares, KubeListWatch, Lazy};
use informer::{Header, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_namespaced_informer_sees_its_namespace_only),
        scenario!(an_informer_of_all_namespaces_sees_several),
        scenario!(labels_select_on_the_server),
        scenario!(an_object_that_no_longer_matches_is_deleted_from_the_view),
        scenario!(set_based_label_selectors_select),
        scenario!(fields_select_pods_by_node),
        scenario!(fields_select_secrets_by_type),
        scenario!(one_object_is_watched_by_its_name),
        scenario!(an_unsupported_field_selector_is_named),
        scenario!(shares_of_a_kind_hold_each_object_once),
    ]
}

async fn a_namespaced_informer_sees_its_namespace_only(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let elsewhere = json!({"metadata": {"name": format!("elsewhere-{}", bench.namespace)}});
    bench.api.create(&maps(), "default", &elsewhere).await?;
    bench.create("here").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.seen().len(), 1, "{:?}", watched.seen());
    Ok(())
}

async fn an_informer_of_all_namespaces_sees_several(bench: Bench) -> Result<(), Failure> {
    let label = format!("all={}", bench.namespace);
    let informer = SharedInformerFactory::new(bench.client()).labels(label.parse()?).informer::<ConfigMap>();
    let watched = Watched::synced(informer).await?;
    let labelled = |name: &str| json!({"metadata": {"name": name, "labels": {"all": bench.namespace}}});
    let other = format!("other-{}", bench.namespace);
    bench.api.create(&maps(), "default", &labelled(&other)).await?;
    bench.api.create(&maps(), &bench.namespace, &labelled("a")).await?;
    watched.until(|cache| cache.len() == 2).await?;
    assert_eq!(watched.informer.by_index("namespace", "default")?.len(), 1);
    assert_eq!(watched.informer.by_index("namespace", &bench.namespace)?.len(), 1);
    Ok(())
}

fn labelled(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"tier": value}}})
}

fn by_labels(bench: &Bench, selector: &str, way: InitialRead) -> Result<SharedInformer<Map>, Failure> {
    let source: KubeListWatch<Map> = bench.source(&bench.client(), way);
    Ok(SharedInformer::new(source.labels(selector.parse()?)))
}

async fn labels_select_on_the_server(bench: Bench) -> Result<(), Failure> {
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "front")] {
        bench.api.create(&maps(), &bench.namespace, &labelled(name, tier)).await?;
    }
    bench.visible(&maps()).await?;
    for way in [InitialRead::List, InitialRead::Stream] {
        let watched = Watched::synced(by_labels(&bench, "tier=front", way)?).await?;
        let mut names: Vec<String> = watched.seen().iter().map(|seen| seen.name().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["a", "c"], "{way:?}");
    }
    Ok(())
}

async fn an_object_that_no_longer_matches_is_deleted_from_the_view(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(by_labels(&bench, "tier=front", InitialRead::List)?).await?;
    bench.api.create(&maps(), &bench.namespace, &labelled("a", "front")).await?;
    watched.until(|cache| cache.len() == 1).await?;
    for (tier, present) in [("back", false), ("front", true)] {
        let patch = json!({"metadata": {"labels": {"tier": tier}}});
        bench.api.merge(&maps(), &bench.namespace, "a", &patch).await?;
        watched.until(|cache| cache.is_empty() != present).await?;
    }
    watched.until_seen(|seen| seen.len() == 3).await?;
    assert_eq!(watched.story("a"), [CallKind::Added, CallKind::Deleted, CallKind::Added]);
    watched.replayed().map(drop)
}

async fn set_based_label_selectors_select(bench: Bench) -> Result<(), Failure> {
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "middle")] {
        bench.api.create(&maps(), &bench.namespace, &labelled(name, tier)).await?;
    }
    bench.visible(&maps()).await?;
    bench.create("none").await?;
    for (selector, expected) in
        [("tier in (front,back)", 2), ("tier notin (front)", 3), ("!tier", 1), ("tier,tier!=back", 2)]
    {
        let watched = Watched::synced(by_labels(&bench, selector, InitialRead::List)?).await?;
        let here = watched.informer.indexer().list();
        // In a real cluster, a controller creates the config map `kube-root-ca.crt` in each namespace. Only
        // names shorter than five characters are counted, to exclude it.
        let ours = here.iter().filter(|map| informer::Object::key(&***map).name().len() < 5).count();
        assert_eq!(ours, expected, "{selector}");
        let local = watched.informer.lister().list(&selector.parse()?);
        assert_eq!(local.len(), here.len(), "the client and the server evaluate {selector} differently");
    }
    Ok(())
}

pub(super) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "example.com/none:1"}]}})
}

async fn fields_select_pods_by_node(bench: Bench) -> Result<(), Failure> {
    let pods = informer::Gvr::new("", "v1", "pods");
    for (name, node) in [("a", "node-1"), ("b", "node-2"), ("c", "node-1")] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = json!(node);
        bench.api.create(&pods, &bench.namespace, &pod).await?;
    }
    bench.visible(&pods).await?;
    let source: KubeListWatch<Lazy<Pod>> = bench.source(&bench.client(), InitialRead::List);
    let watched =
        Watched::synced(SharedInformer::new(source.fields("spec.nodeName=node-1".parse()?))).await?;
    assert_eq!(watched.informer.indexer().len(), 2);
    bench.api.create(&pods, &bench.namespace, &pod("unscheduled")).await?;
    bench.api.delete(&pods, &bench.namespace, "a").await?;
    watched.until(|cache| cache.len() == 1).await?;
    watched.until_seen(|seen| seen.last().is_some_and(|last| last.what == CallKind::Deleted)).await?;
    assert!(watched.story("unscheduled").is_empty());
    Ok(())
}

async fn fields_select_secrets_by_type(bench: Bench) -> Result<(), Failure> {
    let secrets = informer::Gvr::new("", "v1", "secrets");
    for (name, kind) in [("a", "example.com/one"), ("b", "example.com/two")] {
        let secret = json!({"metadata": {"name": name}, "type": kind});
        bench.api.create(&secrets, &bench.namespace, &secret).await?;
    }
    bench.visible(&secrets).await?;
    let source: KubeListWatch<Lazy<Secret>> = bench.source(&bench.client(), InitialRead::Stream);
    let watched =
        Watched::synced(SharedInformer::new(source.fields("type=example.com/two".parse()?))).await?;
    assert_eq!(watched.seen().len(), 1);
    assert_eq!(watched.seen()[0].name(), "b");
    Ok(())
}

async fn one_object_is_watched_by_its_name(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 5).await?;
    let source: KubeListWatch<Map> = bench.source(&bench.client(), InitialRead::List);
    let watched = Watched::synced(SharedInformer::new(source.fields("metadata.name=map-2".parse()?))).await?;
    bench.change("map-1", "1").await?;
    bench.change("map-2", "1").await?;
    watched.until_seen(|seen| seen.len() == 2).await?;
    assert_eq!(watched.story("map-2"), [CallKind::Initial, CallKind::Updated]);
    assert_eq!(watched.informer.indexer().len(), 1);
    Ok(())
}

async fn an_unsupported_field_selector_is_named(bench: Bench) -> Result<(), Failure> {
    let source: KubeListWatch<Map> = bench.source(&bench.client(), InitialRead::List);
    let watched = Watched::start(SharedInformer::new(source.fields("data.value=1".parse()?)))?;
    watched.until_state(|state| state.reflector.last_error.is_some()).await?;
    let error =
        watched.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("data.value") && error.contains("configmaps"), "{error}");
    assert!(!watched.informer.has_synced());
    Ok(())
}

async fn in_share(bench: &Bench, share: &HashShares) -> Result<Vec<String>, Failure> {
    let list = bench.api.read(&maps().path(Some(&bench.namespace))).await?;
    let mut keys = Vec::new();
    for item in list["items"].as_array().into_iter().flatten() {
        let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default();
        let key = ObjectKey::new(text("namespace"), text("name"))?;
        if share.contains(&Header::new(key.clone()).with_uid(text("uid"))) {
            keys.push(key.to_string());
        }
    }
    Ok(keys)
}

async fn shares_of_a_kind_hold_each_object_once(bench: Bench) -> Result<(), Failure> {
    bench.create_many("early", 30).await?;
    for (way, name) in [(InitialRead::List, "list"), (InitialRead::Stream, "stream")] {
        let mut held = Vec::new();
        for number in 0..3 {
            let share = HashShares::new(3, [number])?;
            let source: KubeListWatch<Map> = bench.source(&bench.client(), way);
            held.push((Watched::synced(SharedInformer::new(source.shares(share.clone()))).await?, share));
        }
        bench.create_many(name, 30).await?;
        bench.delete(&format!("{name}-0")).await?;
        for (watched, share) in &held {
            let keys = in_share(&bench, share).await?;
            assert!(keys.len() > 1, "{way:?}: {share}: {keys:?}");
            let is_all = |cache: &informer::cache::Indexer<Map>| {
                cache.len() == keys.len() && keys.iter().all(|key| cache.contains(key))
            };
            watched.until(is_all).await?;
            watched.replayed()?;
        }
    }
    Ok(())
}
