//! A generic function without the bound `KubeObject`.

use informer::prelude::*;

fn controller<K>(name: &str) -> informer::runtime::ControllerBuilder {
    Controller::new::<K>(name)
}

fn main() {
    let _ = controller::<informer_diagnostics::Website>;
}
