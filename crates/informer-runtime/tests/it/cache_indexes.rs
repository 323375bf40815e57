//! Tests of indexes on kinds for which a cache has one informer per namespace.

use informer_store::field;
use k8s_openapi::api::core::v1::Pod;

use crate::fixture::{SOON, Server};

#[tokio::test(start_paused = true)]
async fn index_name_taken_in_one_namespace_is_added_to_none() {
    let server = Server::start();
    for key in ["a/one", "b/two", "c/three"] {
        server.pod(key);
    }
    let cache = server.cache().namespaces(["a", "b", "c"]).build();
    cache.start();
    let pods = cache.informer::<Pod>();
    pods.wait_for_sync(SOON).await.unwrap();
    let of_b = pods.informer_for(Some("b")).unwrap();
    of_b.indexer().add_index("name", field("metadata.uid")).unwrap();
    let error = pods.add_index("name", field("metadata.name")).unwrap_err();
    assert_eq!(error.names().collect::<Vec<_>>(), ["name"]);
    for part in pods.scoped_informers() {
        let indexed = part.informer.by_index("name", "one").is_ok();
        assert_eq!(indexed, std::ptr::eq(&part.informer, of_b), "{}", part.scope);
    }
    pods.add_index("node", field("metadata.name")).unwrap();
    assert_eq!(pods.by_index("node", "three").unwrap().len(), 1);
}
