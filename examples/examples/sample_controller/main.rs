//! A controller of a custom resource that owns Deployments. See `README.md` in this folder.

use std::time::Duration;

use informer::k8s_openapi::api::apps::v1::Deployment;
use informer::k8s_openapi::api::events::v1::Event;
use informer::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use informer::kube_core::{Resource, ResourceExt};
use informer::runtime::{
    CachedClient, Context, Controller, Fetched, Finalization, ListOptions, Manager, Outcome, ReconcileError,
    Request, ctrl_c,
};
use informer_examples::{Error, PATIENCE, Result, connect, operator, user};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The desired state of a website.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(schema = "disabled", crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
pub struct WebsiteSpec {
    image: String,
    replicas: i32,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WebsiteStatus {
    replicas: i32,
}

/// The finalizer that delays the deletion of a website until resources outside of Kubernetes are cleaned up.
/// This example has no such resources and only prints a message.
const FINALIZER: &str = "example.com/website";

/// Reconciles one website. The request contains the name of the object but not the event, so the function
/// derives all changes from the current objects, and calling it again changes nothing.
async fn reconcile(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
    let Finalization::Active(site) = ctx.finalize(&site, FINALIZER, clean_up).await? else {
        return Ok(Outcome::Done);
    };
    let have = match ctx.get::<Deployment>(&request.key).await? {
        None => {
            println!("  {request}: a deployment of {} is created", site.spec.replicas);
            let made = ctx.client.create(&deployment_for(&site)?).await?;
            let note = format!("a deployment of {}", site.spec.replicas);
            ctx.recorder.normal(&site, "Created", "Reconciling", note);
            made
        }
        Some(have) => scaled(have, &site, &ctx).await?,
    };
    let replicas = have.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let status = WebsiteStatus { replicas };
    if site.status.as_ref() != Some(&status) {
        let mut edited = site.edit();
        edited.status = Some(status);
        ctx.client.status().update(&edited).await?;
    }
    Ok(Outcome::requeue_after(Duration::from_secs(600)))
}

async fn scaled(
    have: Fetched<Deployment>,
    site: &Website,
    ctx: &Context,
) -> Result<Fetched<Deployment>, ReconcileError> {
    if have.spec.replicas == Some(site.spec.replicas) {
        return Ok(have);
    }
    println!("  {}: scaled to {}", site.name_any(), site.spec.replicas);
    let mut edited = have.edit();
    edited.spec.replicas = Some(site.spec.replicas);
    Ok(ctx.client.update(&edited).await?)
}

/// Removes the resources of a deleted website outside of Kubernetes. After its success, the controller
/// removes the finalizer. It may be called again, so it is idempotent.
async fn clean_up(site: Fetched<Website>) -> Result<(), ReconcileError> {
    println!("  {}: cleaned up", site.name_any());
    Ok(())
}

fn deployment_for(site: &Website) -> Result<Deployment> {
    let owner = site.controller_owner_ref(&()).ok_or("a website that was read has a name and a uid")?;
    let labels = json!({"website": site.name_any()});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": site.name_any(), "namespace": site.namespace(), "ownerReferences": [owner]},
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

/// Runs the controller and a client that uses it.
#[tokio::main]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let user = user(&client);
    install(&user).await?;
    let manager = Manager::new(operator(&client).await?);
    let controller = Controller::new::<Website>("website").owns::<Deployment>().reconcile(reconcile);
    let stop = manager.handle();
    let running = tokio::spawn(manager.controller(controller).run_until(ctrl_c()));
    // This timeout is long, because the example waits until the garbage collector has deleted the Deployment.
    // The garbage collector of a real cluster discovers new kinds, such as Website, only every 30 s.
    let used = tokio::time::timeout(PATIENCE * 12, use_it(&user)).await;
    stop.stop();
    running.await??;
    used.map_err(|_| "the controller did not finish in time")?
}

/// Creates, scales and deletes a website, and waits for the effects of the controller.
async fn use_it(user: &CachedClient) -> Result {
    let live = user.live();
    let mut site =
        Website::new("sample", WebsiteSpec { image: "registry.example.com/web:1".into(), replicas: 2 });
    site.metadata.namespace = Some("default".to_owned());
    user.create(&site).await?;
    until(async || Ok(replicas(&live.get::<Deployment>("default/sample").await?) == Some(2))).await?;
    println!("created: a deployment of 2");

    until(async || took(user, 3).await).await?;
    until(async || Ok(replicas(&live.get::<Deployment>("default/sample").await?) == Some(3))).await?;
    println!("scaled: a deployment of 3");
    until(async || {
        let site = live.get::<Website>("default/sample").await?;
        let events = live.list::<Event>(&ListOptions::default().namespace("default")).await?;
        let ours = |event: &Event| event.reason.as_deref() == Some("Created");
        Ok(site.is_some_and(|site| site.status.is_some()) && events.iter().any(|event| ours(event)))
    })
    .await?;
    println!("reported: in the status, and by an event");

    user.delete::<Website>("default/sample").await?;
    until(async || Ok(live.get::<Website>("default/sample").await?.is_none())).await?;
    println!("deleted: the finalizer was removed");
    until(async || Ok(live.get::<Deployment>("default/sample").await?.is_none())).await?;
    println!("deleted: the deployment was deleted with its owner");
    user.delete::<CustomResourceDefinition>("websites.example.com").await?;
    Ok(())
}

fn replicas(deployment: &Option<Fetched<Deployment>>) -> Option<i32> {
    deployment.as_ref()?.spec.replicas
}

/// Sets the number of replicas of the website. Returns false if the update conflicts with a status update of
/// the controller.
async fn took(user: &CachedClient, replicas: i32) -> Result<bool> {
    let site = user.live().get::<Website>("default/sample").await?.ok_or("the website does not exist")?;
    let mut edited = site.edit();
    edited.spec.replicas = replicas;
    match user.update(&edited).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn until(condition: impl AsyncFn() -> Result<bool>) -> Result {
    while !condition().await? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Installs the CustomResourceDefinition of the website and waits until the server serves the kind.
async fn install(user: &CachedClient) -> Result {
    let crd: CustomResourceDefinition = serde_norway::from_str(include_str!("crd.yaml"))?;
    match user.create(&crd).await {
        Ok(_) => {}
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(Error::from(error)),
    }
    let served = async || {
        let crd = user.live().get::<CustomResourceDefinition>("websites.example.com").await?;
        let conditions = crd.and_then(|crd| crd.status.clone()?.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True"))
    };
    until(served).await
}
