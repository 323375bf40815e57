//! The controller of `docs/side-by-side.md`. It uses the cluster of the kubeconfig, and runs until it is
//! interrupted.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use informer::client::Client;
use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::kube_core::Resource;
use informer::runtime::{Context, Controller, Manager, Outcome, ReconcileError, Request, ctrl_c};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, schema = "disabled")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
struct WebsiteSpec {
    greeting: String,
}

async fn reconcile(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
    let mut page = ConfigMap {
        data: Some(BTreeMap::from([("index.html".to_owned(), site.spec.greeting.clone())])),
        ..ConfigMap::default()
    };
    page.metadata.name = site.metadata.name.clone();
    page.metadata.namespace = site.metadata.namespace.clone();
    page.metadata.owner_references = site.controller_owner_ref(&()).map(|owner| vec![owner]);
    ctx.client.apply(&page).await?;
    Ok(Outcome::requeue_after(Duration::from_secs(60)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let controller = Controller::new::<Website>("website").owns::<ConfigMap>().reconcile(reconcile);
    Ok(Manager::new(Client::try_default().await?).controller(controller).run_until(ctrl_c()).await?)
}
