//! Values that a manager cannot run.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer::runtime::Runnable;
use informer_diagnostics::Unrelated;

fn manager(client: Client) -> Box<dyn Runnable> {
    let _ = Manager::new(client).controller(Controller::new::<Pod>("pods")).add(async { Ok(()) });
    Box::new(Unrelated)
}

fn main() {
    let _ = manager;
}
