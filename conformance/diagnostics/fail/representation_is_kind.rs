//! A kind instead of its representation, as the object of a watch.

use informer::client::ResourceKind;
use informer::k8s_openapi::api::core::v1::Pod;
use informer::runtime::source::watch_of;

fn main() {
    let _ = watch_of::<Pod>(ResourceKind::of::<Pod>());
}
