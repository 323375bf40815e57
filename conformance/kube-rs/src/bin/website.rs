//! The controller of `docs/side-by-side.md` with kube-rs. This file is compiled, which proves that the code
//! in the document compiles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    greeting: String,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("the website has no {0}")]
    Missing(&'static str),
}

async fn reconcile(site: Arc<Website>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = site.namespace().ok_or(Error::Missing("namespace"))?;
    let owner = site.controller_owner_ref(&()).ok_or(Error::Missing("uid"))?;
    let page = ConfigMap {
        metadata: ObjectMeta {
            name: Some(site.name_any()),
            namespace: Some(namespace.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("index.html".to_owned(), site.spec.greeting.clone())])),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(Client::clone(&client), &namespace);
    api.patch(&site.name_any(), &PatchParams::apply("website"), &Patch::Apply(&page)).await?;
    Ok(Action::requeue(Duration::from_secs(60)))
}

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    Controller::new(Api::<Website>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(client))
        .for_each(|result| async move { if let Err(error) = result { eprintln!("{error}"); } })
        .await;
    Ok(())
}
