//! Reconcile functions with the wrong arguments.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

async fn without_context(_: Request) -> Result<Outcome, ReconcileError> {
    Ok(Outcome::Done)
}

fn main() {
    let _ = Controller::new::<Pod>("function").reconcile(without_context);
    let _ = Controller::new::<Pod>("closure").reconcile(|_request| async move { Ok(Outcome::Done) });
    let _ = Controller::new::<Pod>("state").reconcile_with(1, |_, _| async move { Ok(Outcome::Done) });
}
