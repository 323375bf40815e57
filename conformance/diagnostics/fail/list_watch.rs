//! A client instead of a source.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn informer(client: Client) -> SharedInformer<Lazy<Pod>> {
    SharedInformer::new(client)
}

fn main() {
    let _ = informer;
}
