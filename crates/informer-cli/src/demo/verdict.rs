//! Compares the objects on the demo server with the caches, handlers and reconcilers at the end of the demo.
//! A plain HTTP client reads the objects, so that an error of the project's own client cannot hide a
//! difference.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use informer::Object;
use informer::cache::SharedInformer;
use informer::client::Lazy;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::handlers::View;
use super::reconcile::{Usage, usage};
use crate::failure::Failure;

/// The resourceVersions of all pods on the server, by key. They are cheap to compare with the cache, so the
/// demo compares them repeatedly until the cache is up to date.
#[derive(Debug)]
pub(crate) struct Versions(BTreeMap<String, String>);

impl Versions {
    pub(crate) async fn read(url: &str) -> Result<Self, Failure> {
        let mut versions = BTreeMap::new();
        each_object(url, "pods", |pod| {
            let version = pod["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            versions.insert(key(&pod), version.to_owned());
        })
        .await?;
        Ok(Self(versions))
    }

    pub(crate) fn agree(&self, pods: &SharedInformer<Lazy<Pod>>) -> bool {
        let snapshot = pods.snapshot();
        let held = |key: &str, version: &str| {
            snapshot.get(key).is_some_and(|held| *held.resource_version() == *version)
        };
        snapshot.len() == self.0.len() && self.0.iter().all(|(key, version)| held(key, version))
    }
}

/// The objects of one resource on the demo server. A plain HTTP client reads them, not the client of this
/// project, whose errors the comparison must find.
#[derive(Debug)]
pub(crate) struct Truth {
    objects: BTreeMap<String, Value>,
}

/// Messages about differences between the server and the client; empty if there are none. At most
/// [`MAX_DIFFERENCES`] messages are reported.
pub(crate) type Differences = Vec<String>;

const MAX_DIFFERENCES: usize = 10;
/// The number of objects in one page of a list. Reading in pages limits the memory that the comparison needs.
const PAGE: usize = 500;

impl Truth {
    pub(crate) async fn read(url: &str, resource: &str) -> Result<Self, Failure> {
        let mut objects = BTreeMap::new();
        each_object(url, resource, |mut object| {
            strip(&mut object);
            objects.insert(key(&object), object);
        })
        .await?;
        Ok(Self { objects })
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Compares an informer's cache with the objects on the demo server: keys, uids, resourceVersions and
    /// complete objects. Adds a message to `differences` for each difference.
    pub(crate) fn compare_cache<K: Send + Sync + 'static>(
        &self,
        informer: &SharedInformer<Lazy<K>>,
        differences: &mut Differences,
    ) {
        let snapshot = informer.snapshot();
        for (key, truth) in &self.objects {
            let Some(held) = snapshot.get(key.as_str()) else {
                note(differences, || format!("{key} is not in the cache"));
                continue;
            };
            match held.json().map(|json| serde_json::from_str::<Value>(&json)) {
                Ok(Ok(mut value)) => {
                    strip(&mut value);
                    if value != *truth {
                        note(differences, || {
                            format!("{key} differs: the cache has version {}", held.resource_version())
                        });
                    }
                }
                Ok(Err(error)) => note(differences, || format!("{key} is not JSON in the cache: {error}")),
                Err(error) => note(differences, || format!("{key} cannot be read from the cache: {error}")),
            }
        }
        for key in snapshot.keys().filter(|key| !self.objects.contains_key(key.as_str())) {
            note(differences, || format!("{key} is in the cache, not on the server"));
        }
    }

    pub(crate) fn compare_view(&self, name: &str, view: &View, differences: &mut Differences) {
        view.read(|seen| {
            if seen.illegal > 0 {
                note(differences, || {
                    format!("handler {name} received {} events that contradict earlier ones", seen.illegal)
                });
            }
            for (key, truth) in &self.objects {
                let version = truth["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                if seen.objects.get(key.as_str()).is_none_or(|held| *held != version) {
                    note(differences, || {
                        format!("handler {name} did not receive {key} at resourceVersion {version}")
                    });
                }
            }
            if seen.objects.len() != self.objects.len() {
                let (knows, are) = (seen.objects.len(), self.objects.len());
                note(differences, || format!("handler {name} has {knows} pods, the server has {are}"));
            }
        });
    }

    pub(crate) fn compare_usage(&self, found: &HashMap<Box<str>, Usage>, differences: &mut Differences) {
        let mut owned: HashMap<&str, Vec<&Value>> = HashMap::new();
        for pod in self.objects.values() {
            if let Some(uid) = pod["metadata"]["ownerReferences"][0]["uid"].as_str() {
                owned.entry(uid).or_default().push(pod);
            }
        }
        for (owner, pods) in &owned {
            let expected = usage(
                pods.iter().map(|pod| (pod["status"]["phase"].as_str(), pod["spec"]["nodeName"].as_str())),
            );
            if found.get(*owner) != Some(&expected) {
                note(differences, || format!("the reconciler's result for owner {owner} is out of date"));
            }
        }
        if found.len() != owned.len() {
            note(differences, || {
                format!("the reconciler has {} owners, the server has {}", found.len(), owned.len())
            });
        }
    }
}

fn note(differences: &mut Differences, text: impl FnOnce() -> String) {
    if differences.len() < MAX_DIFFERENCES {
        differences.push(text());
    }
}

#[derive(serde::Deserialize)]
struct Page {
    metadata: PageMetadata,
    items: Vec<Value>,
}

#[derive(serde::Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: String,
}

/// Lists a resource of the demo server in pages, and calls `take` for each object.
async fn each_object(url: &str, resource: &str, mut take: impl FnMut(Value)) -> Result<(), Failure> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut token = String::new();
    loop {
        let page = page(&client, url, resource, &token).await?;
        page.items.into_iter().for_each(&mut take);
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(());
        }
    }
}

async fn page(
    client: &Client<HttpConnector, Empty<Bytes>>,
    url: &str,
    resource: &str,
    token: &str,
) -> Result<Page, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read the {resource} of {url} for the comparison: {error}"))
    };
    let mut uri = format!("{url}/api/v1/{resource}?limit={PAGE}");
    if !token.is_empty() {
        uri.push_str("&continue=");
        uri.push_str(token);
    }
    let uri = uri.parse::<http::Uri>().map_err(|error| failed(&error))?;
    let response = client.get(uri).await.map_err(|error| failed(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
    if status.is_success() {
        serde_json::from_slice(&body).map_err(|error| failed(&error))
    } else {
        Err(failed(&format!("status {status}")))
    }
}

fn key(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Removes the fields in which an object on the server and the cached object differ by design:
/// `managedFields`, which informers remove by default, and `apiVersion` and `kind`, which items of a list
/// lack.
fn strip(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("kind");
        object.remove("apiVersion");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
}

#[cfg(test)]
mod tests;
