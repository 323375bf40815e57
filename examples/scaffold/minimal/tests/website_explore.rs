//! The Website controller under faults: crashes, conflicts, lost responses and stale reads.

use informer::prelude::*;
use informer::testing::{Explore, TestServer, User, World};
use minimal::api::website::{Website, WebsiteSpec};
use minimal::controllers;

const KEY: &str = "default/shop";

/// Loads the CRD and the role of the operator.
fn install(server: &TestServer) {
    for path in [
        "config/manager/namespace.yaml",
        "config/rbac/service_account.yaml",
        "config/crd/websites.yaml",
        "config/rbac/website_role.yaml",
    ] {
        let loaded = server.server().load_yaml(path);
        loaded.unwrap_or_else(|error| panic!("load {path}: {error}"));
    }
}

fn shop() -> Website {
    let spec = WebsiteSpec {
        image: "registry.example.com/shop:1".to_owned(),
        replicas: 2,
    };
    let mut object = Website::new("shop", spec);
    object.metadata.namespace = Some("default".to_owned());
    object
}

fn program(client: Client) -> Manager {
    Manager::new(client).controller(controllers::website::controller())
}

/// Creates and scales an object. Add the changes that your users make.
async fn scenario(world: World) {
    world.create(&shop()).await;
    world.settled().await;
    let scale = |object: &mut Website| object.spec.replicas = 3;
    world.edit(KEY, scale).await;
}

#[test]
fn controller_converges_under_faults() {
    let user = User::new("system:serviceaccount:minimal-system:minimal");
    Explore::program(program)
        .server(|builder| builder.rbac(true))
        .setup(install)
        .user(user)
        .scenario(scenario)
        .seeds(20)
        .run();
}
