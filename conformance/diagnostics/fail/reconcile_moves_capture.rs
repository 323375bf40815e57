//! A reconcile function that moves a captured value: it can be called only once.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn main() {
    let region = String::from("eu-1");
    let _ = Controller::new::<Pod>("pods").reconcile(move |request, _ctx| async move {
        println!("{} in {region}", request.key);
        Ok(Outcome::Done)
    });
}
