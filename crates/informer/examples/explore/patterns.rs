//! Bug patterns of published operators.

use std::sync::Arc;
use std::time::Duration;

use informer::kube_core::ResourceExt;
use informer::prelude::*;
use informer::testing::{Explore, World};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::sample::{
    self, FINALIZER, Reconciler, Website, WebsiteStatus, deployment_for, install, website, with_finalizer,
    without_finalizer,
};

/// A bug pattern, and the exploration that finds it.
pub(crate) type Pattern = (&'static str, fn() -> Explore);

/// The patterns.
pub(crate) const PATTERNS: [Pattern; 3] = [
    ("stale read then delete", || stale_read_then_delete(false)),
    ("orphaned child after a crash between create and status", orphaned_child),
    ("finalizer removed before cleanup", || cleanup(false)),
];

/// The patterns without their bugs.
pub(crate) const REPAIRED: [Pattern; 2] = [
    ("live read before the delete", || stale_read_then_delete(true)),
    ("finalizer removed after cleanup", || cleanup(true)),
];

/// A controller that deletes the config map of a website if the website does not exist. In the cache, a
/// website may not exist yet.
pub(crate) fn stale_read_then_delete(live: bool) -> Explore {
    let program = move |client: Client| {
        let sites = sample::correct();
        let sites = Controller::new::<Website>("website").reconcile(move |request, ctx| sites(request, ctx));
        let maps = Controller::new::<ConfigMap>("cleanup").reconcile(
            move |request: Request, ctx: Context| async move {
                let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
                let Some(site) = map.labels().get("website") else { return Ok(Outcome::Done) };
                let site = format!("default/{site}");
                let exists = if live {
                    ctx.client.live().get::<Website>(&site).await?.is_some()
                } else {
                    ctx.client.get::<Website>(&site).await?.is_some()
                };
                if !exists {
                    ctx.client.delete::<ConfigMap>(&request.key).await?;
                }
                Ok(Outcome::Done)
            },
        );
        Manager::new(client).controller(sites).controller(maps)
    };
    Explore::program(program).setup(install).scenario(|world: World| async move {
        world.settled().await;
        world.create(&website("shop", 1)).await;
        world.sleep(Duration::from_secs(1)).await;
        let map =
            json!({"metadata": {"name": "data", "namespace": "default", "labels": {"website": "shop"}}});
        world.create(&serde_json::from_value::<ConfigMap>(map).expect("a config map")).await;
    })
}

/// A controller that finds its child by the name in the status. After a crash between the two writes, it
/// creates another child.
fn orphaned_child() -> Explore {
    fn reconciler() -> Reconciler {
        Arc::new(|request, ctx| {
            Box::pin(async move {
                let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
                if site.status.is_some() {
                    return Ok(Outcome::Done);
                }
                let mut child = deployment_for(&site)?;
                child.metadata.name = None;
                child.metadata.generate_name = Some(format!("{}-", site.name_any()));
                let child = ctx.client.create(&child).await?;
                let mut edited = site.edit();
                let status = WebsiteStatus { replicas: 1, deployment: Some(child.name_any()) };
                edited.status = Some(status);
                ctx.client.status().update(&edited).await?;
                Ok(Outcome::Done)
            })
        })
    }
    let program = |client: Client| {
        let reconciler = reconciler();
        let controller = Controller::new::<Website>("website").owns::<Deployment>();
        Manager::new(client).controller(controller.reconcile(move |request, ctx| reconciler(request, ctx)))
    };
    Explore::program(program).setup(install).scenario(|world: World| async move {
        world.create(&website("shop", 1)).await;
    })
}

/// A controller that keeps a config map in another namespace, which the garbage collector does not delete.
pub(crate) fn cleanup(first: bool) -> Explore {
    let program = move |client: Client| {
        let controller = Controller::new::<Website>("website");
        Manager::new(client).controller(controller.reconcile(
            move |request: Request, ctx: Context| async move {
                let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
                let record = format!("kube-public/{}", site.name_any());
                if site.metadata.deletion_timestamp.is_some() {
                    if !first {
                        without_finalizer(&site, &ctx).await?;
                    }
                    match ctx.client.delete::<ConfigMap>(&record).await {
                        Err(error) if !error.is_not_found() => return Err(error.into()),
                        _ => {}
                    }
                    return without_finalizer(&site, &ctx).await;
                }
                if !site.finalizers().iter().any(|name| name == FINALIZER) {
                    return with_finalizer(&site, &ctx).await;
                }
                let map = json!({"metadata": {"name": site.name_any(), "namespace": "kube-public"}});
                ctx.client.apply(&serde_json::from_value::<ConfigMap>(map)?).await?;
                Ok(Outcome::Done)
            },
        ))
    };
    Explore::program(program).setup(install).scenario(|world: World| async move {
        world.create(&website("shop", 1)).await;
        world.settled().await;
        world.delete::<Website>("default/shop").await;
        world.wait_until_deleted::<Website>("default/shop").await;
    })
}
