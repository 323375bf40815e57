//! Finalizers and interceptors: closures without annotations, if the kind is known.

use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::runtime::{BoxError, CachedClient, Finalizers, Next, Operation};

fn finalizers() -> Finalizers<ConfigMap> {
    Finalizers::<ConfigMap>::new().register("example.com/bucket", |map| async move {
        println!("delete the bucket of {:?}", map.metadata.name);
        Ok::<_, BoxError>(map)
    })
}

fn intercepted(client: &CachedClient) -> CachedClient {
    client.intercept(|operation: Operation, next: Next| async move { next.run(operation).await })
}

fn main() {
    let _ = (finalizers, intercepted);
}
