//! A type that does not implement `Reconciler`.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer_diagnostics::Unrelated;

fn main() {
    let _ = Controller::new::<Pod>("pods").reconciler(Unrelated);
}
