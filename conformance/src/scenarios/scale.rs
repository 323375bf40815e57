use informer::Gvr;
use informer::cache::{GenericInformer, SharedInformer, SharedInformerFactory};
use informer::client::{KubeListWatch, Metadata, ResourceKind};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use serde_json::{Value, json};

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::watched::PATIENCE;
use crate::{Bench, Failure, InitialRead, Scenario, Watched};

const MANY: usize = 50_000;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(twenty_informers_of_ten_kinds_sync_and_follow),
        scenario!(fifty_thousand_objects_are_listed_streamed_and_followed).alone().slow().within(1800),
        scenario!(a_burst_of_changes_is_followed),
    ]
}

fn factory(bench: &Bench) -> SharedInformerFactory {
    SharedInformerFactory::new(bench.client()).namespace(&*bench.namespace)
}

/// Returns informers of ten kinds, each in two representations.
fn informers(of: &SharedInformerFactory) -> Vec<GenericInformer> {
    vec![
        of.informer::<ConfigMap>().into(),
        of.informer::<Secret>().into(),
        of.informer::<ServiceAccount>().into(),
        of.informer::<Pod>().into(),
        of.informer::<Deployment>().into(),
        of.informer::<ReplicaSet>().into(),
        of.informer::<StatefulSet>().into(),
        of.informer::<DaemonSet>().into(),
        of.informer::<Job>().into(),
        of.informer::<Lease>().into(),
        of.metadata::<ConfigMap>().into(),
        of.metadata::<Secret>().into(),
        of.metadata::<ServiceAccount>().into(),
        of.metadata::<Pod>().into(),
        of.metadata::<Deployment>().into(),
        of.metadata::<ReplicaSet>().into(),
        of.metadata::<StatefulSet>().into(),
        of.metadata::<DaemonSet>().into(),
        of.metadata::<Job>().into(),
        of.metadata::<Lease>().into(),
    ]
}

/// Returns one object with the given name for each kind, together with the collection of the kind.
fn objects(name: &str) -> Vec<(Gvr, Value)> {
    let template = |restart: &str| {
        let mut pod = super::selection::pod("");
        pod["spec"]["restartPolicy"] = json!(restart);
        json!({"metadata": {"labels": {"app": name}}, "spec": pod["spec"]})
    };
    let selector = json!({"matchLabels": {"app": name}});
    let named = || json!({"metadata": {"name": name}});
    let workload = |more: Value| {
        let mut object = named();
        object["spec"] = json!({"selector": selector, "template": template("Always")});
        if let (Some(spec), Value::Object(more)) = (object["spec"].as_object_mut(), more) {
            spec.extend(more);
        }
        object
    };
    let mut job = named();
    job["spec"] = json!({"template": template("Never")});
    vec![
        (Gvr::new("", "v1", "configmaps"), named()),
        (Gvr::new("", "v1", "secrets"), named()),
        (Gvr::new("", "v1", "serviceaccounts"), named()),
        (Gvr::new("", "v1", "pods"), super::selection::pod(name)),
        (Gvr::new("apps", "v1", "deployments"), workload(json!({}))),
        (Gvr::new("apps", "v1", "replicasets"), workload(json!({}))),
        (Gvr::new("apps", "v1", "statefulsets"), workload(json!({"serviceName": name}))),
        (Gvr::new("apps", "v1", "daemonsets"), workload(json!({}))),
        (Gvr::new("batch", "v1", "jobs"), job),
        (Gvr::new("coordination.k8s.io", "v1", "leases"), named()),
    ]
}

async fn create_each(bench: &Bench, name: &str) -> Result<(), Failure> {
    for (gvr, object) in objects(name) {
        bench.api.create(&gvr, &bench.namespace, &object).await?;
    }
    Ok(())
}

async fn twenty_informers_of_ten_kinds_sync_and_follow(bench: Bench) -> Result<(), Failure> {
    create_each(&bench, "before").await?;
    let factory = factory(&bench);
    let informers = informers(&factory);
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    assert_eq!(informers.len(), 20);
    create_each(&bench, "after").await?;
    for name in ["before", "after"] {
        for informer in &informers {
            // A generic informer has no notification of changes in its cache, so this polls.
            while informer.lister().get(&bench.key(name)).is_none() {
                crate::poll::pause().await;
            }
        }
    }
    factory.shutdown().await;
    Ok(())
}

async fn fifty_thousand_objects_are_listed_streamed_and_followed(bench: Bench) -> Result<(), Failure> {
    let early = Watched::synced(bench.maps(InitialRead::List)).await?;
    bench.create_many("map", MANY).await?;
    early.until(|cache| cache.len() == MANY).await?;
    let mut others: Vec<Watched<Map>> = Vec::new();
    for way in [InitialRead::List, InitialRead::Stream] {
        others.push(Watched::synced(bench.maps(way)).await?);
    }
    let source: KubeListWatch<Metadata> =
        KubeListWatch::of(bench.client(), ResourceKind::of::<ConfigMap>()).namespace(&*bench.namespace);
    let metadata = Watched::synced(SharedInformer::new(source)).await?;
    for number in 0..200 {
        bench.change(&format!("map-{}", number * 37), "1").await?;
        bench.delete(&format!("map-{}", number * 37 + 1)).await?;
    }
    let truth = bench.truth(&maps(), &bench.namespace).await?;
    assert_eq!(truth.len(), MANY - 200);
    bench.equal(&early, &truth).await?;
    bench.equal(&metadata, &truth).await?;
    for watched in &others {
        bench.equal(watched, &truth).await?;
    }
    Ok(())
}

async fn a_burst_of_changes_is_followed(bench: Bench) -> Result<(), Failure> {
    let (list, stream) = (
        Watched::synced(bench.maps(InitialRead::List)).await?,
        Watched::synced(bench.maps(InitialRead::Stream)).await?,
    );
    bench.create_many("map", 400).await?;
    let changes = (0..4).map(|writer| {
        let bench = bench.clone();
        tokio::spawn(async move {
            for round in 0..100 {
                bench.change(&format!("map-{}", writer * 100 + round), "1").await?;
            }
            Ok::<_, Failure>(())
        })
    });
    for change in changes.collect::<Vec<_>>() {
        change.await??;
    }
    bench.settled(&list, &maps()).await?;
    bench.settled(&stream, &maps()).await?;
    assert_eq!(list.seen().len(), 800, "every event was delivered exactly once");
    assert_eq!(list.informer.state().reflector.relists.total(), 0);
    Ok(())
}
