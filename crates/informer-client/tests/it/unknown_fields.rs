//! Tests with a server that sends protobuf fields which the built-in schema does not contain.

use futures_util::StreamExt;
use informer_cache::source::{SourceErrorKind, WatchSource};
use informer_client::{KubeListWatch, Lazy, Metadata, Prefilter, ReadOptions};
use informer_core::{FieldPath, Gvk, Object};
use informer_schema::{enclose, write_frame};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::protobuf::{pods, protobuf, wire};
use crate::script::{Reply, first_list, list, script, watch, watch_from};

/// Returns a list of one pod with field 2000, which the built-in schema does not contain.
fn list_with_unknown_field() -> Vec<u8> {
    let mut pod = Vec::new();
    let metadata = [&[0x0a, 1][..], b"x", &[0x32, 1], b"3"].concat();
    pod.extend([0x0a, u8::try_from(metadata.len()).unwrap()]);
    pod.extend(metadata);
    pod.extend([0x80, 0x7d, 1]);
    let mut list = vec![0x0a, 0x03, 0x12, 0x01, b'7', 0x12, u8::try_from(pod.len()).unwrap()];
    list.extend(pod);
    enclose("v1", "PodList", &list)
}

#[tokio::test(start_paused = true)]
async fn read_of_a_field_unknown_to_the_schema_lists_the_kind_again_as_json() {
    let unknown: FieldPath = "spec.fieldOfNextYear".parse().unwrap();
    let (client, requests) = script([protobuf(list_with_unknown_field()), Reply::ok("{}")]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client.clone());
    let read = list(&source, first_list()).await.unwrap();
    let pod = read.items[0].object();
    assert!(pod.is_partial());
    assert_eq!(client.kinds_with_unknown_fields(), [Gvk::new("", "v1", "Pod")]);
    assert_eq!(pod.field(&unknown), None);
    let (events, ended) = watch(&source, watch_from("7")).await;
    assert_eq!((events.len(), ended.unwrap_err().kind()), (0, SourceErrorKind::EncodingChanged));
    assert_eq!(requests.uris().len(), 1, "the watch is not requested");
    list(&source, first_list()).await.unwrap_err();
    assert_eq!(requests.last_header("accept").as_deref(), Some("application/json"));
}

#[tokio::test(start_paused = true)]
async fn metadata_stays_in_protobuf_if_the_kind_must_be_read_as_json() {
    let unknown: FieldPath = "spec.fieldOfNextYear".parse().unwrap();
    let partial = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "x", "namespace": "a", "resourceVersion": "8"},
    });
    let event = write_frame("ADDED", &wire(&partial));
    let (client, requests) =
        script([protobuf(list_with_unknown_field()), protobuf(event.clone()), protobuf(event)]);
    let metadata = KubeListWatch::<Metadata<Pod>>::all(client.clone());
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    let mut open = metadata.watch(watch_from("7")).await.unwrap();
    read.items[0].object().field(&unknown);
    assert!(matches!(open.next().await, Some(Ok(_))), "the metadata watch stays open");
    let (events, ended) = watch(&metadata, watch_from("8")).await;
    ended.unwrap();
    assert_eq!(events.len(), 1);
    assert!(requests.last_header("accept").unwrap().contains("protobuf"));
}

/// Returns a list of the metadata of one pod, with field 2000 of `ObjectMeta`, which the schema does not
/// contain.
fn metadata_list_with_unknown_field() -> Vec<u8> {
    let metadata = [&[0x0a, 1][..], b"x", &[0x32, 1], b"3", &[0x80, 0x7d, 1]].concat();
    let item = [&[0x0a, u8::try_from(metadata.len()).unwrap()][..], &metadata].concat();
    let list = [&[0x0a, 3, 0x12, 1, b'7', 0x12, u8::try_from(item.len()).unwrap()][..], &item].concat();
    enclose("meta.k8s.io/v1", "PartialObjectMetadataList", &list)
}

#[tokio::test(start_paused = true)]
async fn prefilter_that_needs_unknown_metadata_lists_only_the_metadata_again_as_json() {
    let unknown: FieldPath = "metadata.fieldOfNextYear".parse().unwrap();
    let whole = protobuf(wire(&pods(&["x"])));
    let (client, requests) = script([protobuf(metadata_list_with_unknown_field()), Reply::ok("{}"), whole]);
    let prefilter = Prefilter::new(move |object| object.field(&unknown).is_none());
    let options = ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() };
    let metadata = KubeListWatch::<Metadata<Pod>>::all(client.clone()).read_options(options);
    list(&metadata, first_list()).await.unwrap();
    let (events, ended) = watch(&metadata, watch_from("7")).await;
    assert_eq!((events.len(), ended.unwrap_err().kind()), (0, SourceErrorKind::EncodingChanged));
    list(&metadata, first_list()).await.unwrap_err();
    let accept = requests.last_header("accept").unwrap();
    assert!(accept.contains("PartialObjectMetadata") && !accept.contains("protobuf"), "{accept}");
    list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert!(requests.last_header("accept").unwrap().contains("protobuf"));
}
