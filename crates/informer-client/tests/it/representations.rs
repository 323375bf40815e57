use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_cache::source::{ListRequest, SourceContext};
use informer_client::{
    Dynamic, KubeListWatch, Lazy, Metadata, ReadOptions, Representation, ResourceKind, StaticKind, Typed,
};
use informer_core::Object;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_core::{ApiResource, DynamicObject};

use crate::script::{Read, Reply, first_list, list, script};

const PODS: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
    {"metadata":{"name":"web","namespace":"a","uid":"u","resourceVersion":"7","generation":2,"labels":{"app":"web"},
        "annotations":{"note":"a \"b\""},"finalizers":["keep"],"creationTimestamp":"2026-01-01T00:00:00Z",
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"o","controller":true}],
        "managedFields":[{"manager":"m"}]},
     "spec":{"nodeName":"n1","priority":5,"hostNetwork":true,"containers":[{"name":"c"}]}}]}"#;

async fn one<O: Representation>(source: impl FnOnce(informer_client::Client) -> KubeListWatch<O>) -> Arc<O> {
    let (client, _) = script([Reply::ok(PODS)]);
    let mut read: Read<O> = list(&source(client), first_list()).await.unwrap();
    assert_eq!(read.items.len(), 1, "{:?}", read.undecodable);
    read.items.remove(0).into_object()
}

fn fields<O: Object>(object: &O) -> [Option<String>; 6] {
    let paths = [
        "spec.nodeName",
        "spec.priority",
        "spec.hostNetwork",
        "spec.containers",
        "metadata.name",
        "spec.none",
    ];
    paths.map(|path| object.field(&path.parse().unwrap()).map(String::from))
}

fn check_header<O: Object>(object: &O) {
    assert_eq!(object.key(), "a/web");
    assert_eq!((object.uid(), object.generation()), ("u", Some(2)));
    assert_eq!(*object.resource_version(), "7");
    assert_eq!(object.labels().get("app"), Some("web"));
    assert_eq!(object.controller().map(|owner| owner.name()), Some("r"));
    assert_eq!(object.annotation("note").as_deref(), Some("a \"b\""));
    assert_eq!(object.annotation("other"), None);
    assert!(object.held_bytes() > 100);
}

fn all_fields() -> [Option<String>; 6] {
    [Some("n1"), Some("5"), Some("true"), None, Some("web"), None].map(|text| text.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn lazy_object_decodes_on_access_and_shares_its_view_while_in_use() {
    let pod = one(KubeListWatch::<Lazy<Pod>>::all).await;
    check_header(&*pod);
    assert_eq!(fields(&*pod), all_fields());
    let view = pod.get().unwrap();
    assert_eq!(view.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    assert!(Arc::ptr_eq(&view, &pod.get().unwrap()));
    let dropped = Arc::downgrade(&view);
    drop(view);
    assert!(dropped.upgrade().is_none(), "an unused view is dropped");
    assert_eq!(pod.get().unwrap().metadata.uid.as_deref(), Some("u"));
    assert_eq!(format!("{pod:?}"), "Lazy(a/web @7)");
}

#[tokio::test(start_paused = true)]
async fn lazy_dynamic_object_has_its_type_meta() {
    let resource = ApiResource::erase::<Pod>(&());
    let pod = one(|client| KubeListWatch::<Lazy<DynamicObject>>::of(client, &resource)).await;
    let types = pod.get().unwrap().types.clone().unwrap();
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "Pod"));
}

#[tokio::test(start_paused = true)]
async fn typed_object_dereferences_to_its_type() {
    let pod = one(KubeListWatch::<Typed<Pod>>::all).await;
    check_header(&*pod);
    assert_eq!(fields(&*pod), all_fields());
    assert_eq!(pod.spec.as_ref().unwrap().containers[0].name, "c");
    assert_eq!(pod.metadata.managed_fields, None);
    assert!(Arc::ptr_eq(&pod.get().unwrap(), &pod.get().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn dynamic_object_has_its_type_meta_if_list_items_omit_it() {
    let pod = one(|client| KubeListWatch::<Dynamic>::of(client, ResourceKind::of::<Pod>())).await;
    check_header(&*pod);
    assert_eq!(fields(&*pod), all_fields());
    let value = pod.value().unwrap();
    assert_eq!((&value["apiVersion"], &value["kind"]), (&"v1".into(), &"Pod".into()));
    assert_eq!(value["metadata"].get("managedFields"), None);
    let object = pod.to_dynamic_object().unwrap();
    assert_eq!(object.data["spec"]["nodeName"], "n1");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_requested_as_partial_object_metadata() {
    let body = PODS.replace("PodList", "PartialObjectMetadataList").replace(
        "{\"metadata\":{\"name\"",
        "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\"",
    );
    let (client, requests) = script([Reply::ok(body), Reply::ok("")]);
    let source = KubeListWatch::<Metadata<Pod>>::all(client);
    let read = list(&source, first_list()).await.unwrap();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert!(requests.last_header("accept").unwrap().ends_with(accept));
    let pod = read.items[0].object();
    check_header(&**pod);
    check_header(&*one(KubeListWatch::<Metadata<Pod>>::all).await);
    assert_eq!(pod.finalizers().collect::<Vec<_>>(), ["keep"]);
    assert_eq!(pod.creation_timestamp(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(pod.field(&"metadata.labels.app".parse().unwrap()).as_deref(), Some("web"));
    assert_eq!(pod.field(&"spec.nodeName".parse().unwrap()), None);
    crate::script::watch(&source, crate::script::watch_from("9")).await.1.unwrap();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(requests.last_header("accept").as_deref(), Some(accept));
}

#[tokio::test(start_paused = true)]
async fn failed_decode_names_the_field_hides_the_value_and_counts_once() {
    let body = r#"{"kind":"SecretList","items":[{"metadata":{"name":"s","namespace":"a","resourceVersion":"7"},
        "type":["hunter2"]}]}"#;
    let (client, _) = script([Reply::ok(body), Reply::ok(body)]);
    let log = UndecodableLog::default();
    let context = || SourceContext::new(None, log.clone());
    let lazy = KubeListWatch::<Lazy<Secret>>::all(&client);
    let read = list(&lazy, ListRequest { context: context(), ..first_list() }).await.unwrap();
    assert!(log.is_empty(), "only the header must be readable");
    let secret = read.items[0].object();
    let error = secret.get().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read Secret a/s at version 7: field type: invalid type, expected a string"
    );
    assert_eq!((error.kind(), error.field(), error.key().as_str()), ("Secret", "type", "a/s"));
    secret.get().unwrap_err();
    assert_eq!((log.len(), log.total()), (1, 1));
    assert_eq!(log.entries()[0].key().unwrap(), "a/s");
    // An object whose bytes do not fit its type is undecodable when it is listed in the `Typed`
    // representation.
    let typed = KubeListWatch::<Typed<Secret>>::all(&client);
    let read = list(&typed, first_list()).await.unwrap();
    assert_eq!(read.undecodable[0].error().to_string(), error.to_string());
}

#[cfg(feature = "packed")]
#[tokio::test(start_paused = true)]
async fn packed_object_equals_lazy_object() {
    use informer_client::Packed;
    let pod = one(KubeListWatch::<Packed<Pod>>::all).await;
    check_header(&*pod);
    assert_eq!(fields(&*pod), all_fields());
    let lazy = one(KubeListWatch::<Lazy<Pod>>::all).await;
    assert_eq!(pod.json().unwrap(), lazy.json().unwrap());
    assert_eq!(pod.get().unwrap(), lazy.get().unwrap());
    let view = pod.get().unwrap();
    assert!(Arc::ptr_eq(&view, &pod.get().unwrap()), "views are shared while they are in use");
    let dropped = Arc::downgrade(&view);
    drop(view);
    assert!(dropped.upgrade().is_none(), "an unused view is dropped");
    assert_eq!(format!("{pod:?}"), "Packed(a/web @7)");
}

/// Decodes all pods of a long list one after the other, with a view cache. Returns which of the typed views
/// are still alive, and asserts that reading a pod with a live view returns that view.
async fn live_views<O: Representation + StaticKind>(get: impl Fn(&O) -> Arc<Pod>) -> Vec<bool> {
    let pod = |number: usize| {
        let note = "x".repeat(1000);
        format!(
            r#"{{"metadata":{{"name":"p{number:02}","annotations":{{"note":"{note}"}}}},"spec":{{"containers":[]}}}}"#
        )
    };
    let pods: Vec<String> = (0..40).map(pod).collect();
    let body =
        format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#, pods.join(","));
    let keeping = ReadOptions { view_bytes: 64 << 10, ..ReadOptions::default() };
    let (client, _) = script([Reply::ok(body)]);
    let read = list(&KubeListWatch::<O>::all(client).read_options(keeping), first_list()).await.unwrap();
    let views: Vec<_> = read.items.iter().map(|pod| Arc::downgrade(&get(pod.object()))).collect();
    for (view, pod) in views.iter().zip(&read.items) {
        if let Some(view) = view.upgrade() {
            assert!(Arc::ptr_eq(&view, &get(pod.object())), "the view was decoded again");
        }
    }
    views.iter().map(|view| view.upgrade().is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn view_cache_stays_within_its_budget_and_evicts_the_oldest() {
    let check = |live: Vec<bool>| {
        let count = live.iter().filter(|lives| **lives).count();
        assert!((5..20).contains(&count), "{count} views of about 7 KB in 64");
        assert!(live[40 - count..].iter().all(|lives| *lives), "{live:?}");
    };
    check(live_views::<Lazy<Pod>>(|pod| pod.get().unwrap()).await);
    #[cfg(feature = "packed")]
    check(live_views::<informer_client::Packed<Pod>>(|pod| pod.get().unwrap()).await);
}
