//! An API server with RBAC for a test, on which the operator has only the permissions of its
//! manifests.

#![allow(dead_code, reason = "each test uses a part of this module")]

use informer::client::Client;
use informer::testing::{ApiServer, TestServer, User};

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
    server.client_as(User::new("system:serviceaccount:complete-system:complete"))
}
