use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use informer::cache::SharedInformer;
use informer::client::Lazy;
use informer::testing::StaticSource;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Differences, Truth};
use crate::demo::handlers::View;
use crate::demo::reconcile::Usage;

fn pod(name: &str, version: &str, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": version,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": true}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": phase},
    })
}

fn truth(pods: &[Value]) -> Truth {
    Truth { objects: pods.iter().map(|pod| (super::key(pod), pod.clone())).collect::<BTreeMap<_, _>>() }
}

async fn compared(cached: &[Value], served: &[Value]) -> Differences {
    let objects = cached.iter().map(|pod| Lazy::<Pod>::from_json(&pod.to_string()).unwrap());
    let informer = SharedInformer::new(StaticSource::new(objects, "9"));
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(5)).await.unwrap();
    let mut differences = Differences::new();
    truth(served).compare_cache(&informer, &mut differences);
    run.stop().await;
    differences
}

#[tokio::test]
async fn a_cache_that_differs_in_one_object_is_not_equal() {
    let (one, two) = (pod("one", "1", "Running"), pod("two", "2", "Running"));
    assert!(compared(&[one.clone(), two.clone()], &[one.clone(), two.clone()]).await.is_empty());
    for (cached, served, says) in [
        (vec![one.clone()], vec![one.clone(), two.clone()], "ns/two is not in the cache"),
        (vec![one.clone(), two.clone()], vec![one.clone()], "ns/two is in the cache, not on the server"),
        (vec![pod("one", "1", "Failed")], vec![one.clone()], "ns/one differs: the cache has version 1"),
    ] {
        assert_eq!(compared(&cached, &served).await, [says]);
    }
}

#[test]
fn missed_event_of_a_handler_is_a_difference() {
    let mut differences = Differences::new();
    truth(&[pod("one", "1", "Running")]).compare_view("slow", &View::new(), &mut differences);
    let says = [
        "handler slow did not receive ns/one at resourceVersion 1",
        "handler slow has 0 pods, the server has 1",
    ];
    assert_eq!(differences, says);
}

#[test]
fn a_result_of_the_reconciler_that_is_out_of_date_is_not_equal() {
    let truth = truth(&[pod("one", "1", "Running"), pod("two", "2", "Failed")]);
    let check = |running: usize| {
        let mut differences = Differences::new();
        truth.compare_usage(&HashMap::from([("set".into(), Usage { running, nodes: 1 })]), &mut differences);
        differences
    };
    assert!(check(1).is_empty());
    assert_eq!(check(2), ["the reconciler's result for owner set is out of date"]);
}
