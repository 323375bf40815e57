//! Closures of handlers with the wrong number or types of arguments.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn handlers(pods: &SharedInformer<Lazy<Pod>>) {
    let _ = pods.add_handler(on_event(|event: Event<Pod>| drop(event)));
    let _ = pods.add_handler(on_event(|_old, _new| ()));
}

fn main() {
    let _ = handlers;
}
