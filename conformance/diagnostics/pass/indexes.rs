//! Index functions. A closure of `index_fn` needs no types; one of `index` names the type of its object.

use informer::cache::store::borrowed;
use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer::runtime::typed;

fn index(pods: SharedInformer<Lazy<Pod>>) -> SharedInformer<Lazy<Pod>> {
    let images = typed(|pod: &Pod| {
        pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|each| each.image.clone()).collect()
    });
    pods.index("node", field("spec.nodeName"))
        .index("app", label("app"))
        .index("owner", owner_uid())
        .index("image", images)
        .index_fn("namespace", |pod| pod.key().namespace().map(str::to_owned))
        .index_fn("labels", |pod| pod.labels().iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>())
        .index("name", |pod: &Lazy<Pod>| Some(pod.key().name().to_owned()))
        .index(
            "zone",
            borrowed(|pod: &Lazy<Pod>| pod.labels().get("zone").map(Into::into).into_iter().collect()),
        )
}

fn main() {
    let _ = index;
}
