//! An API server with RBAC for a test, on which the operator has only the permissions of its
//! manifests.

#![allow(dead_code, reason = "each test uses a part of this module")]

use std::time::Duration;

use informer::client::Client;
use informer::kube_core::Resource;
use informer::testing::{ApiServer, TestServer, User};
use serde::de::DeserializeOwned;

/// Starts a server with these CRDs of `config/crd` and with these roles of `config/rbac`.
pub async fn start(crds: &[&str], roles: &[&str]) -> TestServer {
    let server = TestServer::of(ApiServer::builder().rbac(true).build());
    let load = |path: &str| {
        server
            .server()
            .load_yaml(path)
            .unwrap_or_else(|error| panic!("load {path}: {error}"))
    };
    load("config/manager/namespace.yaml");
    load("config/rbac/service_account.yaml");
    for crd in crds {
        load(&format!("config/crd/{crd}.yaml"));
    }
    for role in roles {
        load(&role_manifest(role));
    }
    server
}

/// Returns the manifest of a role.
pub fn role_manifest(role: &str) -> String {
    format!("config/rbac/{role}.yaml")
}

/// Returns a client with the permissions of the operator's service account.
pub fn client(server: &TestServer) -> Client {
    server.client_as(User::new("system:serviceaccount:minimal-system:minimal"))
}

/// Reads an object until it satisfies a condition. In paused time, the wait takes no real time.
///
/// The object is read without a request, so that all requests of the server are those of the
/// operator.
pub async fn wait_for<K>(server: &TestServer, key: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let satisfied = async {
        loop {
            match server.get::<K>(key).await {
                Ok(object) if condition(&object) => return object,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let kind = K::kind(&());
    match tokio::time::timeout(Duration::from_secs(60), satisfied).await {
        Ok(object) => object,
        Err(_) => panic!("{kind} {key} did not reach the expected state within 60 s"),
    }
}
