//! The sample controller: a website owns a deployment, and has a status and a finalizer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use informer::kube_core::{Resource, ResourceExt};
use informer::prelude::*;
use informer::runtime::Fetched;
use informer::testing::{Explore, TestServer, World};
use informer::{CustomResource, Gvr};
use k8s_openapi::api::apps::v1::Deployment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The desired state of a website.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(schema = "disabled", crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
pub(crate) struct WebsiteSpec {
    /// The number of replicas.
    pub replicas: i32,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WebsiteStatus {
    /// The number of replicas that the deployment has.
    pub replicas: i32,
    /// The name of the deployment, if the controller stores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
}

/// The finalizer of the controller.
pub(crate) const FINALIZER: &str = "example.com/website";

/// The result of a reconcile function.
pub(crate) type Reconciled = BoxFuture<'static, Result<Outcome, ReconcileError>>;

/// A reconcile function with its state.
pub(crate) type Reconciler = Arc<dyn Fn(Request, Context) -> Reconciled + Send + Sync>;

/// Returns the correct reconcile function.
pub(crate) fn correct() -> Reconciler {
    Arc::new(|request, ctx| Box::pin(reconcile(request, ctx)))
}

pub(crate) async fn reconcile(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
    if site.metadata.deletion_timestamp.is_some() {
        return without_finalizer(&site, &ctx).await;
    }
    if !site.finalizers().iter().any(|name| name == FINALIZER) {
        return with_finalizer(&site, &ctx).await;
    }
    match ctx.get::<Deployment>(&request.key).await? {
        None => drop(ctx.client.create(&deployment_for(&site)?).await?),
        Some(have) => scale(&have, &site, &ctx).await?,
    }
    write_status(&site, &ctx).await?;
    Ok(Outcome::requeue_after(Duration::from_secs(600)))
}

/// Adds the finalizer.
pub(crate) async fn with_finalizer(
    site: &Fetched<Website>,
    ctx: &Context,
) -> Result<Outcome, ReconcileError> {
    let mut edited = site.edit();
    edited.finalizers_mut().push(FINALIZER.to_owned());
    ctx.client.update(&edited).await?;
    Ok(Outcome::Done)
}

/// Removes the finalizer.
pub(crate) async fn without_finalizer(
    site: &Fetched<Website>,
    ctx: &Context,
) -> Result<Outcome, ReconcileError> {
    let mut edited = site.edit();
    edited.finalizers_mut().retain(|name| name != FINALIZER);
    if edited.is_changed() {
        ctx.client.update(&edited).await?;
    }
    Ok(Outcome::Done)
}

/// Sets the replicas of the deployment to those of the website.
pub(crate) async fn scale(
    have: &Fetched<Deployment>,
    site: &Website,
    ctx: &Context,
) -> Result<(), ReconcileError> {
    let mut edited = have.edit();
    edited.spec.replicas = Some(site.spec.replicas);
    if edited.is_changed() {
        ctx.client.update(&edited).await?;
    }
    Ok(())
}

/// Writes the status, if it has changed.
pub(crate) async fn write_status(site: &Fetched<Website>, ctx: &Context) -> Result<(), ReconcileError> {
    let status = WebsiteStatus { replicas: site.spec.replicas, deployment: None };
    if site.status.as_ref() != Some(&status) {
        let mut edited = site.edit();
        edited.status = Some(status);
        ctx.client.status().update(&edited).await?;
    }
    Ok(())
}

/// Returns the deployment of a website.
pub(crate) fn deployment_for(site: &Website) -> Result<Deployment, ReconcileError> {
    let owner = site.controller_owner_ref(&()).ok_or("the website has no uid")?;
    let labels = json!({"website": site.name_any()});
    let container = json!({"name": "web", "image": "registry.example.com/web:1"});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": site.name_any(), "namespace": site.namespace(), "ownerReferences": [owner]},
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }))?)
}

/// Returns a website in the namespace `default`.
pub(crate) fn website(name: &str, replicas: i32) -> Website {
    let mut site = Website::new(name, WebsiteSpec { replicas });
    site.metadata.namespace = Some("default".to_owned());
    site
}

/// Registers the CRD of websites.
pub(crate) fn install(server: &TestServer) {
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let created = server.server().create(&crds, "", crd());
    created.unwrap_or_else(|error| panic!("{error}"));
}

fn crd() -> Value {
    json!({
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "websites", "singular": "website", "kind": "Website"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Creates two websites, scales one and deletes the other.
pub(crate) async fn scenario(world: World) {
    world.create(&website("shop", 2)).await;
    world.create(&website("blog", 1)).await;
    world.settled().await;
    world.edit::<Website>("default/shop", |site| site.spec.replicas = 3).await;
    world.delete::<Website>("default/blog").await;
    world.wait_until_deleted::<Website>("default/blog").await;
}

/// Explores a controller of websites.
pub(crate) fn explore(reconciler: fn() -> Reconciler) -> Explore {
    let program = move |client: Client| {
        let reconciler = reconciler();
        let controller = Controller::new::<Website>("website").owns::<Deployment>();
        Manager::new(client).controller(controller.reconcile(move |request, ctx| reconciler(request, ctx)))
    };
    Explore::program(program).setup(install).scenario(scenario)
}
