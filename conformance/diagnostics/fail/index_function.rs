//! Index functions that are a path, or return something else than strings.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn index(pods: SharedInformer<Lazy<Pod>>) {
    let pods = pods.index("path", "spec.nodeName");
    let pods = pods.index("one", |pod: &Lazy<Pod>| pod.key().name().to_owned());
    let _ = pods.index("number", |_: &Lazy<Pod>| Some(1));
}

fn main() {
    let _ = index;
}
