//! Predicates that are not a function of a trigger.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer::runtime::source::watch;

fn main() {
    let _ = watch::<Pod>().filter("metadata.name=web");
    let _ = watch::<Pod>().filter(|pod: &Lazy<Pod>| pod.key().name() == "web");
}
