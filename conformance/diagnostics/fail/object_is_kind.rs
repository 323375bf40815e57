//! A kind instead of its representation, as the object of an informer.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn print(pods: &SharedInformer<Pod>) {
    let _ = pods;
}

fn main() {
    let _ = print;
}
