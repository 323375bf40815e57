//! An operator of selected namespaces, whose cache contains no other namespace.
//! See `README.md` in this folder.

use std::collections::BTreeMap;
use std::time::Duration;

use informer::client::Metadata;
use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::handler::map;
use informer::runtime::source::watch_metadata;
use informer::runtime::{
    Cache, CachedClient, Context, Controller, ListOptions, Manager, Outcome, ReconcileError, Request,
    predicate,
};
use informer::{Object, ObjectKey};
use informer_examples::{Error, PATIENCE, Result, connect, operator, user};

const NAMESPACES: [&str; 2] = ["example-blue", "example-green"];
const INVENTORY: &str = "inventory";
/// The name of a ConfigMap that kube-controller-manager creates in each namespace. The operator does not
/// count it, because the embedded server does not create it.
const ROOT_CA: &str = "kube-root-ca.crt";

fn is_counted(name: &str) -> bool {
    ![INVENTORY, ROOT_CA].contains(&name)
}

/// Reconciles the ConfigMap `inventory` of a namespace: counts the other ConfigMaps of the namespace in the
/// cache, and writes the number to the inventory.
async fn count(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    let namespace = request.namespace().unwrap_or_default();
    let options = ListOptions::default().namespace(namespace);
    let maps =
        ctx.cache.informer_of::<Metadata<ConfigMap>>(informer::client::ResourceKind::of::<ConfigMap>());
    let others = maps.select(&options)?.iter().filter(|map| is_counted(map.key().name())).count();
    let data = Some(BTreeMap::from([("count".to_owned(), others.to_string())]));
    match ctx.client.live().get::<ConfigMap>(&request.key).await? {
        Some(have) if have.data == data => {}
        Some(have) => {
            let mut edited = have.edit();
            edited.data = data;
            ctx.client.update(&edited).await?;
        }
        None => {
            let mut inventory = ConfigMap { data, ..ConfigMap::default() };
            inventory.metadata.name = Some(INVENTORY.to_owned());
            inventory.metadata.namespace = Some(namespace.to_owned());
            ctx.client.create(&inventory).await?;
        }
    }
    Ok(Outcome::Done)
}

/// Runs the operator until all inventories are written.
#[tokio::main]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let user = user(&client);
    set_up(&user).await?;
    let cache = Cache::builder(operator(&client).await?).namespaces(NAMESPACES).build();
    let manager = Manager::of(CachedClient::new(&cache));

    // Every change of a config map enqueues the inventory of its namespace, so that there is one request for
    // each namespace.
    let inventory = map(|map: &Metadata<ConfigMap>| {
        ObjectKey::new(map.key().namespace().unwrap_or_default(), INVENTORY).ok().map(Request::new)
    });
    let news = predicate::object(|map: &Metadata<ConfigMap>| is_counted(map.key().name()));
    let controller = Controller::builder()
        .named("inventory")
        .watches_with(watch_metadata::<ConfigMap>().filter(news), inventory)
        .reconcile(count);
    let stop = manager.handle();
    let running = tokio::spawn(manager.controller(controller).run_until(std::future::pending::<()>()));
    let counted = tokio::time::timeout(PATIENCE * 3, counted(&user)).await;
    stop.stop();
    running.await??;
    tear_down(&user).await?;
    counted.map_err(|_| "the operator did not count in time")?
}

async fn counted(user: &CachedClient) -> Result {
    has(user, NAMESPACES.into_iter().zip(["2", "1"])).await?;
    create(user, "example-blue/e").await?;
    has(user, [("example-blue", "3")]).await?;
    let elsewhere = user.live().get::<ConfigMap>(&format!("example-red/{INVENTORY}")).await?;
    println!("example-red is {}", if elsewhere.is_none() { "not watched" } else { "watched" });
    Ok(())
}

/// Waits until the inventories contain the expected counts.
async fn has(user: &CachedClient, counts: impl IntoIterator<Item = (&str, &str)>) -> Result {
    for (namespace, wanted) in counts {
        loop {
            let map = user.live().get::<ConfigMap>(&format!("{namespace}/{INVENTORY}")).await?;
            let count = map.as_ref().and_then(|map| map.data.as_ref()?.get("count").cloned());
            if count.as_deref() == Some(wanted) {
                println!("{namespace} has {wanted} config maps");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn set_up(user: &CachedClient) -> Result {
    for name in NAMESPACES.into_iter().chain(["example-red"]) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match user.create(&namespace).await {
            Err(error) if !error.is_already_exists() => return Err(Error::from(error)),
            _ => {}
        }
    }
    for key in ["example-blue/a", "example-blue/b", "example-green/c", "example-red/d"] {
        create(user, key).await?;
    }
    Ok(())
}

async fn create(user: &CachedClient, key: &str) -> Result {
    let (namespace, name) = key.split_once('/').ok_or("a key")?;
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some(namespace.to_owned());
    map.metadata.name = Some(name.to_owned());
    user.create(&map).await?;
    Ok(())
}

async fn tear_down(user: &CachedClient) -> Result {
    for name in NAMESPACES.into_iter().chain(["example-red"]) {
        user.delete::<Namespace>(name).await?;
    }
    Ok(())
}
