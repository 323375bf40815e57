//! The sample controller of this example. For each custom resource `Website` it creates a Deployment with the
//! same number of replicas, and writes the status. It also sets a finalizer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use informer::kube_core::{Resource, ResourceExt};
use informer::prelude::*;
use informer::runtime::Fetched;
use informer::testing::{Explore, TestServer, World, absent};
use informer::{CustomResource, Gvr};
use k8s_openapi::api::apps::v1::Deployment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The desired state of a website. The derive generates the custom resource `Website` from it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(schema = "disabled", crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
pub(crate) struct WebsiteSpec {
    /// The desired number of replicas of the website's Deployment.
    pub replicas: i32,
}

/// The observed state of a website, which the controller writes to the website's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WebsiteStatus {
    /// The number of replicas that the controller has set in the Deployment.
    pub replicas: i32,
    /// The name of the website's Deployment. The correct controller leaves it empty, because the Deployment
    /// has the name of the website; one of the bug patterns stores a generated name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
}

/// The finalizer that the controller sets on websites. It removes the finalizer when the website is deleted.
pub(crate) const FINALIZER: &str = "example.com/website";

/// The future that a reconcile function returns.
pub(crate) type Reconciled = BoxFuture<'static, Result<Outcome, ReconcileError>>;

/// A reconcile function with its state, so that a mutant can remember facts from earlier calls.
pub(crate) type Reconciler = Arc<dyn Fn(Request, Context) -> Reconciled + Send + Sync>;

/// Returns the reconcile function of the correct controller, which has no defect.
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

/// Adds the controller's finalizer to a website.
pub(crate) async fn with_finalizer(
    site: &Fetched<Website>,
    ctx: &Context,
) -> Result<Outcome, ReconcileError> {
    let mut edited = site.edit();
    edited.finalizers_mut().push(FINALIZER.to_owned());
    ctx.client.update(&edited).await?;
    Ok(Outcome::Done)
}

/// Removes the controller's finalizer from a website, so that the API server deletes it.
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

/// Sets the number of replicas in an existing Deployment to that of its website.
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

/// Writes the status of a website if it differs from the stored one. Without this condition, each write would
/// cause the next reconcile.
pub(crate) async fn write_status(site: &Fetched<Website>, ctx: &Context) -> Result<(), ReconcileError> {
    let status = WebsiteStatus { replicas: site.spec.replicas, deployment: None };
    if site.status.as_ref() != Some(&status) {
        let mut edited = site.edit();
        edited.status = Some(status);
        ctx.client.status().update(&edited).await?;
    }
    Ok(())
}

/// Returns the Deployment that a website must have. The website is its controller owner, so the garbage
/// collector deletes it with the website.
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

/// Returns a website in the namespace `default` whose Deployment must have this number of replicas.
pub(crate) fn website(name: &str, replicas: i32) -> Website {
    let mut site = Website::new(name, WebsiteSpec { replicas });
    site.metadata.namespace = Some("default".to_owned());
    site
}

/// Registers the CRD of websites on the server on which an exploration runs.
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

/// The scenario of the explorations: creates two websites, scales one, deletes the other, and waits until it
/// is deleted.
pub(crate) async fn scenario(world: World) {
    world.create(&website("shop", 2)).await;
    world.create(&website("blog", 1)).await;
    world.settled().await;
    world.edit::<Website>("default/shop", |site| site.spec.replicas = 3).await;
    world.delete::<Website>("default/blog").await;
    world.eventually("default/blog", absent::<Website>()).await;
}

/// Returns the exploration of a controller of websites. It calls `reconciler` at each start of a process, so
/// that a restarted process has lost the in-memory state of its reconcile function, as after a real crash.
pub(crate) fn explore(reconciler: fn() -> Reconciler) -> Explore {
    let program = move |client: Client| {
        let reconciler = reconciler();
        let controller = Controller::new::<Website>("website").owns::<Deployment>();
        Manager::new(client).controller(controller.reconcile(move |request, ctx| reconciler(request, ctx)))
    };
    Explore::program(program).setup(install).scenario(scenario)
}
