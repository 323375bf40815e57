//! Bug patterns that published operators have had. For each pattern, a function returns the exploration of a
//! small controller with that bug.

use std::sync::Arc;
use std::time::Duration;

use informer::kube_core::{Resource, ResourceExt};
use informer::prelude::*;
use informer::testing::{Explore, World, absent};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::sample::{
    self, FINALIZER, Reconciler, Website, WebsiteStatus, deployment_for, install, website, with_finalizer,
    without_finalizer, write_status,
};

/// A bug pattern: its description, and a function that returns the exploration of a controller with this bug.
pub(crate) type Pattern = (&'static str, fn() -> Explore);

/// The bug patterns. The exploration of each must find a fault script under which a check fails.
pub(crate) const PATTERNS: [Pattern; 6] = [
    ("stale read then delete", || stale_read_then_delete(false)),
    ("orphaned child after a crash between create and status", orphaned_child),
    ("finalizer removed before cleanup", || cleanup(false)),
    ("children deleted because of a stale list after a restart", || delete_after_restart(false)),
    ("new default for new objects only", || new_default(false)),
    ("migration marked before it is complete", || migration(false)),
];

/// Repaired versions of five of the bug patterns. Their explorations must find no failure.
pub(crate) const REPAIRED: [Pattern; 5] = [
    ("live read before the delete", || stale_read_then_delete(true)),
    ("finalizer removed after cleanup", || cleanup(true)),
    ("live read after a restart", || delete_after_restart(true)),
    ("new default applied to all objects", || new_default(true)),
    ("migration marked when it is complete", || migration(true)),
];

/// Returns true if the website is on the server with the same uid. After a restart, the cache may be older
/// than before, and contain a website that was deleted or replaced.
async fn is_current(site: &Website, ctx: &Context) -> Result<bool, ReconcileError> {
    let key = format!("default/{}", site.name_any());
    let now = ctx.client.live().get::<Website>(&key).await?;
    Ok(now.is_some_and(|now| now.uid() == site.uid()))
}

/// Deletes a ConfigMap, unless it does not exist.
async fn delete_map(key: &str, ctx: &Context) -> Result<(), ReconcileError> {
    match ctx.client.delete::<ConfigMap>(key).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the exploration of a controller that deletes a ConfigMap if the website to which it belongs does
/// not exist. If `live` is true, the controller reads the website from the API server. If `live` is false, it
/// has the bug: it reads the website from the cache, which may not contain a new website yet, and deletes a
/// ConfigMap that is in use.
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
        world.advance_time(Duration::from_secs(1)).await;
        let map =
            json!({"metadata": {"name": "data", "namespace": "default", "labels": {"website": "shop"}}});
        world.create(&serde_json::from_value::<ConfigMap>(map).expect("a valid ConfigMap")).await;
    })
}

/// Returns the exploration of a controller that creates a Deployment with a generated name, and then stores
/// this name in the website's status, by which it recognizes that the Deployment exists. After a crash
/// between the two writes, it does not find the Deployment and creates another one.
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

/// Returns the exploration of a controller that creates a ConfigMap in another namespace for each website,
/// and deletes it with the website. The garbage collector does not delete objects across namespaces. If
/// `first` is true, the controller deletes the ConfigMap before it removes the website's finalizer. If
/// `first` is false, it has the bug: it removes the finalizer before, so a crash between the two leaves the
/// ConfigMap behind.
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
                    delete_map(&record, &ctx).await?;
                    return without_finalizer(&site, &ctx).await;
                }
                if !site.finalizers().iter().any(|name| name == FINALIZER) {
                    return with_finalizer(&site, &ctx).await;
                }
                if !is_current(&site, &ctx).await? {
                    return Ok(Outcome::Done);
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
        world.eventually("default/shop", absent::<Website>()).await;
    })
}

/// Returns the exploration of a controller that creates a ConfigMap for each website, and deletes it with the
/// website. After a restart, a stale list can contain a deleted website whose name is used again. If `live`
/// is false, the controller then deletes the ConfigMap of the new website, with the changes of its users.
pub(crate) fn delete_after_restart(live: bool) -> Explore {
    let program = move |client: Client| {
        let controller = Controller::new::<Website>("website");
        Manager::new(client).controller(controller.reconcile(
            move |request: Request, ctx: Context| async move {
                let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
                if site.metadata.deletion_timestamp.is_some() {
                    if live && !is_current(&site, &ctx).await? {
                        return Ok(Outcome::Done);
                    }
                    delete_map(request.key.as_str(), &ctx).await?;
                    return without_finalizer(&site, &ctx).await;
                }
                if !site.finalizers().iter().any(|name| name == FINALIZER) {
                    return with_finalizer(&site, &ctx).await;
                }
                if ctx.client.live().get::<ConfigMap>(&request.key).await?.is_none() {
                    let map = json!({"metadata": {"name": site.name_any(), "namespace": "default"}});
                    ctx.client.create(&serde_json::from_value::<ConfigMap>(map)?).await?;
                }
                write_status(&site, &ctx).await?;
                Ok(Outcome::Done)
            },
        ))
    };
    Explore::program(program).setup(install).scenario(|world: World| async move {
        world.create(&website("shop", 1)).await;
        world.settled().await;
        world.delete::<Website>("default/shop").await;
        world.eventually("default/shop", absent::<Website>()).await;
        world.create(&website("shop", 1)).await;
        world.settled().await;
        world.eventually("default/shop", |_: &ConfigMap| true).await;
        let visits = |map: &mut ConfigMap| map.data = Some([("visits".to_owned(), "7".to_owned())].into());
        world.edit("default/shop", visits).await;
        world.edit::<Website>("default/shop", |site| site.spec.replicas = 2).await;
    })
}

/// Returns the exploration of a controller that writes a default theme into the ConfigMap of each website. It
/// is restarted with another default. If `applied` is false, the controller writes a ConfigMap only when it
/// creates it, so that existing websites keep the former default.
pub(crate) fn new_default(applied: bool) -> Explore {
    let program = move |theme: &'static str| {
        move |client: Client| {
            let controller = Controller::new::<Website>("website");
            Manager::new(client).controller(controller.reconcile(
                move |request: Request, ctx: Context| async move {
                    let Some(site) = ctx.get::<Website>(&request.key).await? else {
                        return Ok(Outcome::Done);
                    };
                    if applied || ctx.client.get::<ConfigMap>(&request.key).await?.is_none() {
                        let map = settings(&site, &site.name_any(), theme)?;
                        ctx.client.apply(&map).await?;
                    }
                    Ok(Outcome::Done)
                },
            ))
        }
    };
    let scenario = |world: World| async move { world.create(&website("shop", 1)).await };
    Explore::program(program("light")).restart_with(program("dark")).setup(install).scenario(scenario)
}

/// Returns the exploration of a controller whose second version stores the settings of a website under
/// another name, and deletes the former ConfigMap once. If `marked_last` is false, it writes into the status
/// that this is done before it deletes the ConfigMap, so that a crash between the two leaves it behind.
pub(crate) fn migration(marked_last: bool) -> Explore {
    let program = move |renames: bool| {
        move |client: Client| {
            let controller = Controller::new::<Website>("website");
            Manager::new(client).controller(controller.reconcile(
                move |request: Request, ctx: Context| async move {
                    let Some(site) = ctx.get::<Website>(&request.key).await? else {
                        return Ok(Outcome::Done);
                    };
                    let name = site.name_any();
                    let name = if renames { format!("{name}-settings") } else { name };
                    ctx.client.apply(&settings(&site, &name, "light")?).await?;
                    if renames && site.status.is_none() {
                        if marked_last {
                            delete_map(request.key.as_str(), &ctx).await?;
                            write_status(&site, &ctx).await?;
                        } else {
                            write_status(&site, &ctx).await?;
                            delete_map(request.key.as_str(), &ctx).await?;
                        }
                    }
                    Ok(Outcome::Done)
                },
            ))
        }
    };
    let scenario = |world: World| async move { world.create(&website("shop", 1)).await };
    Explore::program(program(false)).restart_with(program(true)).setup(install).scenario(scenario)
}

fn settings(site: &Website, name: &str, theme: &str) -> Result<ConfigMap, ReconcileError> {
    let owner = site.controller_owner_ref(&()).ok_or("the website has no uid")?;
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "data": {"theme": theme},
    }))?)
}
