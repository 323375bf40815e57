//! The operator of the book's tutorial. It keeps a Deployment for each `Website`.

// ANCHOR: kind
use informer::k8s_openapi::api::apps::v1::Deployment;
use informer::kube_core::{Resource, ResourceExt};
use informer::prelude::*;
use informer::runtime::ShardGroup;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The desired state of a website.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus", schema = "disabled")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
pub struct WebsiteSpec {
    /// The container image.
    pub image: String,
    /// The wanted number of replicas.
    pub replicas: i32,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The number of available replicas.
    pub available_replicas: i32,
}
// ANCHOR_END: kind

// ANCHOR: reconcile
/// Builds the controller: it watches Websites and the Deployments that they own.
pub fn controller() -> Controller {
    Controller::new::<Website>("website").owns::<Deployment>().reconcile(reconcile)
}

async fn reconcile(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    // If the Website was deleted, the garbage collector deletes its Deployment.
    let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
    let deployment = ctx.client.apply(&deployment_for(&site)?).await?;

    let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
    let mut edited = site.edit();
    edited.status = Some(WebsiteStatus { available_replicas: available.unwrap_or(0) });
    ctx.client.status().update(&edited).await?; // sends no request if the status has not changed
    Ok(Outcome::Done)
}

fn deployment_for(site: &Website) -> Result<Deployment, ReconcileError> {
    let owner = site.controller_owner_ref(&()).ok_or("the Website has no uid")?;
    let labels = json!({"website": site.name_any()});
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": site.name_any(),
            "namespace": site.namespace(),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": site.spec.image}]},
            },
        },
    }))?)
}
// ANCHOR_END: reconcile

/// Builds the controller of one of several replicas, each of which reconciles its share of the Websites.
pub fn sharded_controller(group: ShardGroup) -> Controller {
    Controller::new::<Website>("website").owns::<Deployment>().sharded(group).reconcile(reconcile)
}
