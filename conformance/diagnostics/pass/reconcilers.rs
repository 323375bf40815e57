//! Reconcile functions: closures without annotations, functions, and a state.

use std::sync::Arc;
use std::time::Duration;

use informer::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use informer::prelude::*;
use informer::runtime::Reconciler;
use informer_diagnostics::Website;

struct State {
    region: String,
}

async fn function(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    let found = ctx.get::<ConfigMap>(&request.key).await?;
    Ok(found.map_or(Outcome::Done, |_| Outcome::requeue_after(Duration::from_secs(60))))
}

async fn with_state(request: Request, _: Context, state: Arc<State>) -> Result<Outcome, ReconcileError> {
    println!("{} in {}", request.key, state.region);
    Ok(Outcome::Done)
}

struct Implementation;

impl Reconciler for Implementation {
    async fn reconcile(&self, request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
        function(request, ctx).await
    }
}

fn controllers() -> Vec<Controller> {
    let state = || State { region: "eu-1".to_owned() };
    let region = Arc::new(String::from("eu-1"));
    vec![
        Controller::new::<Website>("closure").owns::<Secret>().reconcile(|request, ctx| async move {
            let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
            println!("{}", site.spec.image);
            Ok(Outcome::Done)
        }),
        Controller::new::<ConfigMap>("capture").reconcile(move |request, _| {
            let region = Arc::clone(&region);
            async move {
                println!("{} in {region}", request.key);
                Ok(Outcome::Done)
            }
        }),
        Controller::new::<ConfigMap>("function").reconcile(function),
        Controller::new::<ConfigMap>("state").reconcile_with(state(), with_state),
        Controller::new::<ConfigMap>("state-closure").reconcile_with(
            state(),
            |request, _, state| async move {
                println!("{} in {}", request.key, state.region);
                Ok(Outcome::Done)
            },
        ),
        Controller::new::<ConfigMap>("type").reconciler(Implementation),
    ]
}

fn main() {
    let _ = controllers;
}
