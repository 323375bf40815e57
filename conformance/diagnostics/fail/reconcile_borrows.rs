//! A reconcile function that borrows a local variable.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn main() {
    let region = String::from("eu-1");
    let _ = Controller::new::<Pod>("pods").reconcile(|request, _ctx| {
        println!("{} in {region}", request.key);
        async { Ok(Outcome::Done) }
    });
}
