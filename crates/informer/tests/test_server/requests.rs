//! Tests of the matchers of requests, on the requests of real clients.

use informer::client::StreamingLists;
use informer::kube_client::Api;
use informer::kube_client::api::{ListParams, Patch, PatchParams, PostParams};
use informer::prelude::*;
use informer::testing::{FaultMatch, TestServer, list, pod, request, watch};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

/// Returns the numbers of the requests that match, in the order of the log.
fn numbers(server: &TestServer, matching: FaultMatch) -> Vec<u64> {
    server.requests(matching).map(|request| request.number).collect()
}

#[tokio::test(start_paused = true)]
async fn matchers_select_the_requests_of_one_verb_kind_and_subresource() {
    let server = TestServer::start().await;
    let pods: Api<Pod> = Api::default_namespaced(server.kube_client());
    let (merge, apply) = (PatchParams::default(), PatchParams::apply("test"));
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    let phase = json!({"status": {"phase": "Running"}});
    let of_kind = |mut value: serde_json::Value| {
        (value["apiVersion"], value["kind"]) = (json!("v1"), json!("Pod"));
        value
    };

    let created = pods.create(&PostParams::default(), &pod("default/web-0")).await.unwrap(); // 1
    pods.get("web-0").await.unwrap(); // 2
    pods.get_status("web-0").await.unwrap(); // 3
    pods.replace("web-0", &PostParams::default(), &created).await.unwrap(); // 4
    let read = pods.get("web-0").await.unwrap(); // 5
    pods.replace_status("web-0", &PostParams::default(), &read).await.unwrap(); // 6
    pods.patch("web-0", &merge, &Patch::Merge(&labels)).await.unwrap(); // 7
    pods.patch_status("web-0", &merge, &Patch::Merge(&phase)).await.unwrap(); // 8
    pods.patch("web-0", &apply, &Patch::Apply(&of_kind(labels.clone()))).await.unwrap(); // 9
    pods.patch_status("web-0", &apply, &Patch::Apply(&of_kind(phase.clone()))).await.unwrap(); // 10
    pods.list(&ListParams::default()).await.unwrap(); // 11
    pods.delete("web-0", &Default::default()).await.unwrap(); // 12
    pods.delete_collection(&Default::default(), &ListParams::default()).await.unwrap(); // 13

    for (matching, expected) in [
        (request::create::<Pod>(), vec![1]),
        (request::get::<Pod>(), vec![2, 5]),
        (request::update::<Pod>(), vec![4]),
        (request::update_status::<Pod>(), vec![6]),
        (request::patch::<Pod>(), vec![7]),
        (request::patch_status::<Pod>(), vec![8]),
        (request::apply::<Pod>(), vec![9]),
        (request::apply_status::<Pod>(), vec![10]),
        (request::list::<Pod>(), vec![11]),
        (request::delete::<Pod>(), vec![12]),
        (request::write::<Pod>(), vec![1, 4, 7, 9, 12, 13]),
        (request::write_status::<Pod>(), vec![6, 8, 10]),
        (request::write::<Pod>().named("default/web-0"), vec![4, 7, 9, 12]),
        (request::write::<Pod>().named("other/web-0"), vec![]),
        (request::write::<Pod>().in_namespace("default"), vec![1, 4, 7, 9, 12, 13]),
        (request::write::<ConfigMap>(), vec![]),
    ] {
        assert_eq!(numbers(&server, matching.clone()), expected, "{matching:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_of_a_named_object_spares_the_others() {
    let server = TestServer::start().await;
    let pods: Api<Pod> = Api::default_namespaced(server.kube_client());
    for key in ["default/web-0", "default/web-1"] {
        server.create(&pod(key)).await.unwrap();
    }
    let fault = server.faults().on(request::delete::<Pod>().named("default/web-1")).status(500);
    pods.delete("web-0", &Default::default()).await.unwrap();
    pods.delete("web-1", &Default::default()).await.unwrap_err();
    assert_eq!(fault.fired(), 1);
}

#[cfg(feature = "runtime")]
#[tokio::test(start_paused = true)]
async fn matchers_of_the_documented_client_methods() {
    use informer::runtime::{Cache, CachedClient, Patch};

    let server = TestServer::start().await;
    let client = CachedClient::new(&Cache::new(server.client())).field_owner("test").force();
    let key = "default/web-0";
    let created = client.create(&pod(key)).await.unwrap();
    let mut edited = created.edit();
    edited.metadata.labels.get_or_insert_default().insert("app".to_owned(), "web".to_owned());
    let updated = client.update(&edited).await.unwrap();
    let mut edited = updated.edit();
    edited.status.get_or_insert_default().phase = Some("Running".to_owned());
    client.status().update(&edited).await.unwrap();
    client.patch::<Pod>(key, &Patch::merge(json!({"metadata": {"labels": {"app": "shop"}}}))).await.unwrap();
    client.apply(&pod(key)).await.unwrap();
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some("settings".to_owned()), Some("default".to_owned()));
    server.create(&map).await.unwrap();
    client.replace(&map).await.unwrap();
    client.live().get::<Pod>(key).await.unwrap();
    client.delete::<Pod>(key).await.unwrap();
    for (matching, count) in [
        (request::create::<Pod>(), 1),
        (request::patch::<Pod>(), 2),
        (request::patch_status::<Pod>(), 1),
        (request::apply::<Pod>(), 1),
        (request::update::<ConfigMap>(), 1),
        (request::get::<Pod>(), 1),
        (request::delete::<Pod>(), 1),
        (request::write::<Pod>(), 5),
    ] {
        assert_eq!(server.requests(matching.clone()).count(), count, "{matching:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn initial_lists_and_relists_are_counted_alike_with_and_without_streaming() {
    for (streaming, lists) in [(StreamingLists::On, 0), (StreamingLists::Off, 2)] {
        let server = TestServer::start().await;
        let factory = SharedInformerFactory::new(server.client()).streaming_lists(streaming);
        let pods = factory.informer::<Pod>();
        factory.start();
        factory.wait_for_cache_sync(std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(server.requests(request::initial_list::<Pod>()).count(), 1, "{streaming:?}");

        let expired = server.faults().on(watch::<Pod>()).nth(1).expire();
        server.create(&pod("default/web-0")).await.unwrap();
        pods.wait_until(|cache| cache.contains("default/web-0")).await.unwrap();
        assert_eq!(expired.fired(), 1);
        assert_eq!(server.requests(request::initial_list::<Pod>()).count(), 2, "{streaming:?}");
        assert_eq!(server.requests(list::<Pod>()).count(), lists, "{streaming:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_count_as_one_initial_list() {
    let server = TestServer::start().await;
    for number in 0..5 {
        server.create(&pod(&format!("default/web-{number}"))).await.unwrap();
    }
    let pods: Api<Pod> = Api::all(server.kube_client());
    let mut token = None;
    loop {
        let mut page = ListParams::default().limit(2);
        page.continue_token = token;
        let listed = pods.list(&page).await.unwrap();
        token = listed.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break;
        }
    }
    assert_eq!(server.requests(list::<Pod>()).count(), 3);
    assert_eq!(server.requests(request::initial_list::<Pod>()).count(), 1);
}
