//! Handlers of an informer that are not wrapped, or do not handle events.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer_diagnostics::Unrelated;

fn handlers(pods: &SharedInformer<Lazy<Pod>>) {
    let _ = pods.add_handler(|event: Event<Lazy<Pod>>| println!("{event}"));
    let _ = pods.add_handler(Unrelated);
}

fn main() {
    let _ = handlers;
}
