//! The fixture of these tests: an embedded server, and a cache and a client that use it.

use std::time::Duration;

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use informer_runtime::{Cache, CacheBuilder, CachedClient};
use serde_json::{Value, json};

pub(crate) const SOON: Duration = Duration::from_secs(10);

/// An embedded API server. Clients call it without a socket, so tests run in paused time.
pub(crate) struct Server {
    pub(crate) api: ApiServer,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self { api: ApiServer::builder().build() }
    }

    pub(crate) fn api_client(&self) -> informer_client::Client {
        informer_client::Client::from_service(self.api.service(), "default")
    }

    pub(crate) fn cache(&self) -> CacheBuilder {
        Cache::builder(self.api_client())
    }

    pub(crate) fn client(&self) -> CachedClient {
        let cache = self.cache().build();
        cache.start();
        CachedClient::new(&cache)
    }

    pub(crate) fn create(&self, resource: &str, key: &str, rest: Value) -> Value {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let mut object = rest;
        object["metadata"]["name"] = json!(name);
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        self.api.create(&gvr(resource), namespace, object).expect("the object is valid")
    }

    pub(crate) fn pod(&self, key: &str) -> Value {
        self.create("pods", key, pod_spec())
    }

    pub(crate) fn labelled(&self, key: &str, label: &str) -> Value {
        let (name, value) = label.split_once('=').expect("a label");
        let mut pod = pod_spec();
        pod["metadata"] = json!({"labels": {name: value}});
        self.create("pods", key, pod)
    }

    pub(crate) fn get(&self, resource: &str, key: &str) -> Value {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.api.get(&gvr(resource), namespace, name).expect("the object exists")
    }
}

pub(crate) fn pod_spec() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]}})
}

pub(crate) fn gvr(resource: &str) -> Gvr {
    match resource {
        "deployments" => Gvr::new("apps", "v1", resource),
        _ => Gvr::new("", "v1", resource),
    }
}
