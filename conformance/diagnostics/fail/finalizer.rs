//! A finalizer that does not return the object.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::runtime::{BoxError, Finalizers};

fn main() {
    let _ = Finalizers::<Pod>::new().register("example.com/volume", |_pod| async { Ok::<_, BoxError>(()) });
}
