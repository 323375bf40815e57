//! The Shop controller under faults: crashes, conflicts, lost responses and stale reads.

use complete::api::shop::{Shop, ShopSpec};
use complete::controllers;
use informer::prelude::*;
use informer::testing::{Explore, TestServer, User, World};

const KEY: &str = "shop";

/// Loads the CRD and the role of the operator.
fn install(server: &TestServer) {
    for path in [
        "config/manager/namespace.yaml",
        "config/rbac/service_account.yaml",
        "config/crd/shops.yaml",
        "config/rbac/shop_role.yaml",
    ] {
        let loaded = server.server().load_yaml(path);
        loaded.unwrap_or_else(|error| panic!("load {path}: {error}"));
    }
}

fn shop() -> Shop {
    let spec = ShopSpec {
        image: "registry.example.com/shop:1".to_owned(),
        replicas: 2,
        namespace: "default".to_owned(),
    };
    Shop::new("shop", spec)
}

fn program(client: Client) -> Manager {
    Manager::new(client).controller(controllers::shop::controller())
}

/// Creates and scales an object. Add the changes that your users make.
async fn scenario(world: World) {
    world.create(&shop()).await;
    world.settled().await;
    let scale = |object: &mut Shop| object.spec.replicas = 3;
    world.edit(KEY, scale).await;
}

#[test]
fn controller_converges_under_faults() {
    let user = User::new("system:serviceaccount:complete-system:complete");
    Explore::program(program)
        .server(|builder| builder.rbac(true))
        .setup(install)
        .user(user)
        .scenario(scenario)
        .seeds(20)
        .run();
}
