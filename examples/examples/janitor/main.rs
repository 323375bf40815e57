//! A controller that deletes expired objects and caches only their metadata. See `README.md` in this folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::client::Metadata;
use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::runtime::predicate::selects;
use informer::runtime::source::watch_metadata;
use informer::runtime::{
    Controller, ControllerOptions, DeleteOptions, ListOptions, Manager, Outcome, Propagation, ResourceKind,
};
use informer::{Gvr, Object};
use informer_examples::{PATIENCE, Result, connect, operator, user};
use serde_json::json;

/// The label that marks an object as expired. The janitor deletes objects with this label.
const EXPIRED: &str = "janitor.example.com/expired";

/// The label of all objects that this example creates.
const MADE: &str = "janitor.example.com/made";

/// One config map in this number of created config maps is marked as expired.
const EVERY: usize = 10;

/// Runs the janitor until it has deleted all expired objects.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let user = user(&client);
    let objects = match cluster.server() {
        Some(_) => std::env::var("JANITOR_OBJECTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000),
        None => 100,
    };
    let config_maps = (0..objects).map(|number| {
        let labels = if number % EVERY == 0 { json!({MADE: "", EXPIRED: "true"}) } else { json!({MADE: ""}) };
        json!({
            "metadata": {"name": format!("janitor-{number}"), "namespace": "default", "labels": labels},
            "data": {"text": "a body that the janitor never reads ".repeat(20)},
        })
    });
    match cluster.server() {
        Some(server) => {
            server.load(&Gvr::new("", "v1", "configmaps"), config_maps)?;
        }
        None => {
            for map in config_maps {
                let map: ConfigMap = serde_json::from_value(map)?;
                user.create(&map).await?;
            }
        }
    }
    let marked = objects.div_ceil(EVERY);
    let manager = Manager::new(operator(&client).await?);
    let services = manager.handle().services().clone();

    let deleted = Arc::new(AtomicUsize::new(0));
    let expired = selects::<Metadata<ConfigMap>>(format!("{EXPIRED}=true").parse()?);
    let controller = Controller::builder()
        .named("janitor")
        .for_with(watch_metadata::<ConfigMap>().filter(expired))
        .with_options(ControllerOptions::new().workers(8))
        .reconcile_with(Arc::clone(&deleted), |request, ctx, deleted| async move {
            let maps = ctx.cache.informer_of::<Metadata<ConfigMap>>(ResourceKind::of::<ConfigMap>());
            let Some(map) = maps.get(&request.key)? else { return Ok(Outcome::Done) };
            // The uid is a precondition of the deletion, so that a new object with the same name is not
            // deleted.
            let this = DeleteOptions::default().uid(map.uid()).propagation(Propagation::Background);
            ctx.client.delete_with::<ConfigMap>(&request.key, &this).await?;
            deleted.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::Done)
        });
    let stop = manager.handle();
    let running = tokio::spawn(manager.controller(controller).run_until(std::future::pending::<()>()));
    let maps = services.cache.informer_of::<Metadata<ConfigMap>>(ResourceKind::of::<ConfigMap>());
    let all_expired = ListOptions::default().labels(format!("{EXPIRED}=true").parse()?);
    let done = async {
        while deleted.load(Ordering::Relaxed) < marked || !maps.select(&all_expired)?.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Result::Ok(())
    };
    let in_time = tokio::time::timeout(PATIENCE * 12, done).await;
    let state = services.cache.states().into_iter().next().ok_or("the janitor has an informer")?;
    println!("{} of {objects} config maps deleted", deleted.load(Ordering::Relaxed));
    println!("the cache holds {} objects: only metadata", state.objects);
    stop.stop();
    running.await??;
    let ours = ListOptions::default().namespace("default").labels(MADE.parse()?);
    user.delete_all::<ConfigMap>(&ours, &DeleteOptions::default()).await?;
    in_time.map_err(|_| "the janitor did not finish in time")?
}
