//! Reconcile functions with the wrong result.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn main() {
    let _ = Controller::new::<Pod>("no-outcome").reconcile(|_request, _ctx| async move { Ok(()) });
    let _ = Controller::new::<Pod>("no-future").reconcile(|_request, _ctx| Ok(Outcome::Done));
}
