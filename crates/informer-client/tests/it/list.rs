use std::collections::HashMap;
use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_cache::source::{
    KnownObjects, ListRequest, ListWatch, Listed, SourceContext, SourceErrorKind, VersionMatch,
};
use informer_client::{KubeListWatch, Lazy, Prefilter, Pruning, ReadOptions, SplitLists};
use informer_core::{Object, ObjectKey};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::script::{Reply, first_list, list, script};

fn pods(names: &[&str]) -> String {
    let items: Vec<_> = names
        .iter()
        .map(|name| {
            json!({"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": "3",
            "managedFields": [{"manager": "kubectl"}]}, "spec": {"containers": []}})
        })
        .collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items})
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn first_list_requests_resource_version_0_with_a_limit() {
    let (client, requests) = script([Reply::ok(pods(&["x", "y"]))]);
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert_eq!(requests.uris(), ["/api/v1/pods?limit=500&resourceVersion=0"]);
    assert!(requests.last_header("user-agent").unwrap().contains(" informer/"));
    assert_eq!(read.keys(), ["a/x", "a/y"]);
    assert_eq!((read.end.version.to_string().as_str(), read.end.continue_token), ("7", None));
}

#[tokio::test(start_paused = true)]
async fn list_query_contains_namespace_selectors_and_continue_token() {
    let list_page = |token: &str| {
        let metadata = json!({"resourceVersion": "7", "continue": token, "remainingItemCount": 4});
        Reply::ok(
            json!({"items": [], "metadata": metadata, "kind": "DeploymentList", "apiVersion": "apps/v1"})
                .to_string(),
        )
    };
    let (client, requests) = script([list_page("next page/="), list_page("")]);
    let source = KubeListWatch::<Lazy<Deployment>>::all(client)
        .namespace("team a/../b")
        .labels("app in (web, api), !canary".parse().unwrap())
        .fields("metadata.name!=x".parse().unwrap());
    let page = ListRequest { version: "5".into(), version_match: VersionMatch::NotOlderThan, ..first_list() };
    let end = list(&source, page).await.unwrap().end;
    assert_eq!(end.remaining, Some(4));
    let next = ListRequest { continue_token: end.continue_token, version: "5".into(), ..first_list() };
    assert_eq!(list(&source, next).await.unwrap().end.continue_token, None);
    let path = "/apis/apps/v1/namespaces/team%20a%2F..%2Fb/deployments";
    let selectors = "fieldSelector=metadata.name%21%3Dx&labelSelector=app+in+%28api%2Cweb%29%2C%21canary";
    assert_eq!(
        requests.uris(),
        [
            format!("{path}?{selectors}&limit=500&resourceVersion=5&resourceVersionMatch=NotOlderThan"),
            format!("{path}?continue=next+page%2F%3D&{selectors}&limit=500"),
        ]
    );
    assert!(
        source
            .describe()
            .starts_with("deployments.apps in namespace team a/../b with labels app in (api,web)")
    );
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_removed_by_default() {
    let (client, _) = script([Reply::ok(pods(&["x"])), Reply::ok(pods(&["x"])), Reply::ok(pods(&["x"]))]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let text = |listed: &Listed<Lazy<Pod>>| listed.object().json().unwrap().into_owned();
    let read = list(&source, first_list()).await.unwrap();
    let cut = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"3","uid":"x"},"spec":{"containers":[]}}"#;
    assert_eq!(text(&read.items[0]), cut);
    let whole =
        source.clone().read_options(ReadOptions { pruning: Pruning::nothing(), ..ReadOptions::default() });
    let read = list(&whole, first_list()).await.unwrap();
    assert!(text(&read.items[0]).contains("kubectl"));
    let pruning = Pruning::default().cut("spec".parse().unwrap());
    let bare = source.read_options(ReadOptions { pruning, ..ReadOptions::default() });
    let read = list(&bare, first_list()).await.unwrap();
    assert_eq!(
        text(&read.items[0]),
        r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"3","uid":"x"}}"#
    );
}

struct Held(HashMap<String, Arc<Lazy<Pod>>>);

impl KnownObjects<Lazy<Pod>> for Held {
    fn get(&self, key: &str) -> Option<Arc<Lazy<Pod>>> {
        self.0.get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.0.values().map(|pod| pod.key().clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_object_is_reused_from_the_cache() {
    let changed = pods(&["x", "y"]).replacen("\"resourceVersion\":\"3\"", "\"resourceVersion\":\"4\"", 1);
    let (client, _) = script([Reply::ok(pods(&["x", "y"])), Reply::ok(changed)]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let first = list(&source, first_list()).await.unwrap();
    let held = first.items.iter().map(|item| (item.object().key().to_string(), Arc::clone(item.object())));
    let held = Arc::new(Held(held.collect()));
    let context = SourceContext::new(Some(held), UndecodableLog::default());
    let second = list(&source, ListRequest { context, ..first_list() }).await.unwrap();
    assert!(matches!(&second.items[0], Listed::Fresh(_)), "{second:?}");
    assert!(matches!(&second.items[1], Listed::Known(known) if Arc::ptr_eq(known, first.items[1].object())));
}

#[tokio::test(start_paused = true)]
async fn list_is_read_with_any_member_order_whitespace_and_framing() {
    let body = "\n{ \"items\" :\n[ {\"metadata\":{\"name\":\"x\"}} ,\t{\"metadata\":{\"name\":\"y\"}}\r\n] , \"extra\":[{}], \
                \"metadata\":{\"resourceVersion\":\"7\"},\"kind\":\"PodList\"} \n";
    let replies = (1..=body.len()).map(|size| {
        body.as_bytes().chunks(size).fold(Reply::ok(""), |reply, frame| reply.data(frame.to_vec()))
    });
    let (client, _) = script(replies);
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    for _ in 1..=body.len() {
        let read = list(&source, first_list()).await.unwrap();
        assert_eq!((read.keys(), read.end.version.to_string().as_str()), (vec!["x", "y"], "7"));
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_returned_before_the_response_is_complete() {
    use futures_util::StreamExt as _;
    use informer_cache::source::ListSource as _;
    let body = pods(&["x", "y"]);
    let (begin, _) = body.split_at(body.find("\"y\"").unwrap());
    let (client, _) = script([Reply::ok(begin.to_owned()).stall()]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let mut parts = source.list(first_list()).await.unwrap();
    let first = parts.next().await.unwrap().unwrap();
    assert_eq!(format!("{first:?}"), "Items([Fresh(a/x @3)])");
    let error = parts.next().await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (SourceErrorKind::Timeout, "list pods: the response was silent for 60s")
    );
}

#[tokio::test(start_paused = true)]
async fn list_in_a_single_frame_is_returned_in_batches() {
    use futures_util::StreamExt as _;
    use informer_cache::source::{ListPart, ListSource as _};
    let names: Vec<String> = (0..2500).map(|index| format!("p{index}")).collect();
    let body = pods(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (client, _) = script([Reply::ok(body)]);
    let mut parts = KubeListWatch::<Lazy<Pod>>::all(client).list(first_list()).await.unwrap();
    let mut batches = Vec::new();
    while let Some(part) = parts.next().await {
        if let ListPart::Items(items) = part.unwrap() {
            batches.push(items.len());
        }
    }
    assert_eq!(batches, [1000, 1000, 500]);
}

#[tokio::test(start_paused = true)]
async fn list_items_may_be_null() {
    let (client, _) =
        script([Reply::ok(r#"{"kind":"PodList","items":null,"metadata":{"resourceVersion":"1"}}"#)]);
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert!(read.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn rejected_streaming_list_is_remembered_per_server_and_kind() {
    let (client, _) = script([]);
    let pods = KubeListWatch::<Lazy<Pod>>::all(&client);
    assert!(pods.supports_streaming_list());
    pods.streaming_list_failed();
    assert!(!KubeListWatch::<Lazy<Pod>>::all(&client).namespace("a").supports_streaming_list());
    assert!(KubeListWatch::<Lazy<Deployment>>::all(&client).supports_streaming_list());
    let (other, _) = script([]);
    assert!(KubeListWatch::<Lazy<Pod>>::all(&other).supports_streaming_list());
}

#[tokio::test(start_paused = true)]
async fn list_with_limit_or_minimum_version_is_not_split() {
    let page = || Reply::ok(pods(&["x"]));
    let (client, requests) = script([page(), page(), page()]);
    let split = SplitLists { objects_min: 0, ..SplitLists::default() };
    let source = KubeListWatch::<Lazy<Pod>>::all(client).split_lists(split);
    let (version, version_match) = ("5".into(), VersionMatch::NotOlderThan);
    let check = ListRequest { version, version_match, limit: Some(1), ..first_list() };
    list(&source, check).await.unwrap();
    list(&source, ListRequest { limit: Some(1), ..first_list() }).await.unwrap();
    let minimum = ListRequest { version: "5".into(), version_match, limit: None, ..first_list() };
    list(&source, minimum).await.unwrap();
    let not_older = "resourceVersion=5&resourceVersionMatch=NotOlderThan";
    assert_eq!(
        requests.uris(),
        [
            format!("/api/v1/pods?limit=1&{not_older}"),
            "/api/v1/pods?limit=1&resourceVersion=0".to_owned(),
            format!("/api/v1/pods?{not_older}"),
        ]
    );
    assert!(source.prefers_complete_lists());
}

/// Returns the replies to the requests of a list of three pods that is split by namespace into `a` and `b`.
fn split_replies(in_b: &[&str]) -> [Reply; 4] {
    let counted =
        pods(&["x"]).replace(r#""resourceVersion":"7""#, r#""resourceVersion":"7","remainingItemCount":2"#);
    let namespaces = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]});
    [counted, namespaces.to_string(), pods(&["x"]), pods(in_b)].map(Reply::ok)
}

#[tokio::test(start_paused = true)]
async fn split_list_counts_objects_with_a_limit_of_one_and_reads_namespaces_at_one_version() {
    let (client, requests) = script(split_replies(&["y", "z"]));
    let split = SplitLists { requests: 1, objects_min: 3 };
    let source = KubeListWatch::<Lazy<Pod>>::all(client).split_lists(split);
    let read = list(&source, ListRequest { limit: None, ..first_list() }).await.unwrap();
    let names: Vec<_> = read.items.iter().map(|pod| pod.object().key().name()).collect();
    assert_eq!((names, read.end.version.to_string()), (vec!["x", "y", "z"], "7".to_owned()));
    let exact = "resourceVersion=7&resourceVersionMatch=Exact";
    assert_eq!(
        requests.uris(),
        [
            "/api/v1/pods?limit=1".to_owned(),
            format!("/api/v1/namespaces?{exact}"),
            format!("/api/v1/namespaces/a/pods?{exact}"),
            format!("/api/v1/namespaces/b/pods?{exact}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn split_list_counts_objects_that_the_prefilter_rejects() {
    let (client, requests) = script(split_replies(&["y", "z"]));
    let split = SplitLists { requests: 1, objects_min: 3 };
    let prefilter = Prefilter::new(|pod| pod.name() != "x");
    let options = ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() };
    let source = KubeListWatch::<Lazy<Pod>>::all(client).split_lists(split).read_options(options);
    let read = list(&source, ListRequest { limit: None, ..first_list() }).await.unwrap();
    let names: Vec<_> = read.items.iter().map(|pod| pod.object().key().name()).collect();
    assert_eq!((names, read.rejected, requests.uris().len()), (vec!["y", "z"], 1, 4));
}

#[tokio::test(start_paused = true)]
async fn split_list_with_a_wrong_number_of_objects_fails_and_the_next_list_is_whole() {
    for (in_b, problem) in [
        (&["y"][..], "there are fewer objects in its namespaces than the server counted"),
        (&["y", "z", "zz"], "there are more objects than the server counted"),
    ] {
        let whole = [Reply::ok(pods(&["x", "y", "z"]))];
        let (client, requests) = script(split_replies(in_b).into_iter().chain(whole));
        let split = SplitLists { requests: 1, objects_min: 3 };
        let source = KubeListWatch::<Lazy<Pod>>::all(client).split_lists(split);
        let request = || ListRequest { limit: None, ..first_list() };
        let error = format!("{:#?}", list(&source, request()).await.err().unwrap());
        assert!(error.contains(problem), "{error}");
        assert_eq!(list(&source, request()).await.unwrap().items.len(), 3);
        assert_eq!(requests.uris()[4], "/api/v1/pods?resourceVersion=0");
    }
}
