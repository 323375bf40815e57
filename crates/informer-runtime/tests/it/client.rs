//! The client, as its users see it.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use crate::fixture::{SOON, Server};
use crate::old_types::OldDeployment;

#[tokio::test(start_paused = true)]
async fn unknown_and_pruned_fields_survive_a_read_modify_write() {
    let server = Server::start();
    let resources = json!({"requests": {"cpu": "1"}});
    let main = json!({"name": "main", "image": "a:1", "resources": resources, "command": ["run"]});
    let spec = json!({
        "replicas": 1,
        "minReadySeconds": 5,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [main, {"name": "side", "image": "b:1"}]}},
    });
    let owned = json!([{"manager": "kubectl", "operation": "Update"}]);
    server.create("deployments", "default/web", json!({"metadata": {"managedFields": owned}, "spec": spec}));
    let client = server.client();
    let web = client.get::<OldDeployment>("default/web").await.unwrap().unwrap();
    let mut edited = web.edit();
    edited.spec.replicas = 3;
    edited.spec.template.spec.containers.remove(1);
    edited.spec.template.spec.containers[0].image = "a:2".to_owned();
    client.update(&edited).await.unwrap();
    let stored = server.get("deployments", "default/web");
    let wanted = json!([{"name": "main", "image": "a:2", "resources": resources, "command": ["run"]}]);
    assert_eq!(stored["spec"]["template"]["spec"]["containers"], wanted, "{stored}");
    assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["minReadySeconds"]), (&json!(3), &json!(5)));
    assert!(stored["metadata"]["managedFields"].is_array(), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_of_what_was_read_is_refused_and_names_the_alternative() {
    let server = Server::start();
    server.pod("default/web-0");
    let client = server.client();
    let pod = client.get::<Pod>("default/web-0").await.unwrap().unwrap();
    let error = client.replace(&**pod.view()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("replace pods default/web-0: this is a view of an object that was read"),
        "{error}"
    );
    assert!(error.contains("`update`") && error.contains("`apply`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_created_comes_into_the_cache_and_goes_from_it() {
    let server = Server::start();
    let client = server.client();
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "default"}})).unwrap();
    let created = client.create(&map).await.unwrap();
    assert!(created.metadata.uid.is_some());
    let maps = client.cache().informer::<ConfigMap>();
    maps.wait_for_sync(SOON).await.unwrap();
    assert!(client.get::<ConfigMap>("default/m").await.unwrap().is_some());
    assert!(client.create(&map).await.unwrap_err().is_already_exists());
    client.delete::<ConfigMap>("default/m").await.unwrap();
    maps.parts()[0].informer.wait_until(|maps| maps.is_empty()).await.unwrap();
    assert!(client.delete::<ConfigMap>("default/m").await.unwrap_err().is_not_found());
}
