//! A reconcile function whose future keeps a value that is not `Send` at an await.

use std::rc::Rc;

use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

fn main() {
    let _ = Controller::new::<Pod>("pods").reconcile(|request, ctx| async move {
        let name = Rc::new(request.name().to_owned());
        let pod = ctx.get::<Pod>(&request.key).await?;
        println!("{name}: {}", pod.is_some());
        Ok(Outcome::Done)
    });
}
