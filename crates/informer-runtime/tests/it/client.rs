//! The client, as its users see it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use crate::fixture::{SOON, Server};

#[tokio::test(start_paused = true)]
async fn unknown_and_pruned_fields_survive_a_read_modify_write() {
    let server = Server::start();
    let container = json!({"name": "main", "image": "a:1", "newerThanTheType": {"kept": true}});
    server.create(
        "deployments",
        "default/web",
        json!({
            "metadata": {"managedFields": [{"manager": "kubectl", "operation": "Update"}]},
            "spec": {
                "replicas": 1,
                "newerField": [1, 2],
                "template": {"spec": {"containers": [container, {"name": "side", "image": "b:1"}]}},
            },
        }),
    );
    let client = server.client();
    let web = client.get::<Deployment>("default/web").await.unwrap().unwrap();
    let mut edited = web.edit();
    let spec = &mut edited.spec;
    spec.replicas = Some(3);
    spec.template.spec.as_mut().unwrap().containers[0].image = Some("a:2".to_owned());
    client.update(&edited).await.unwrap();
    let stored = server.get("deployments", "default/web");
    assert_eq!(stored["spec"]["replicas"], 3);
    let containers = &stored["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "a:2");
    assert_eq!(containers[0]["newerThanTheType"], json!({"kept": true}), "{stored}");
    assert_eq!(stored["spec"]["newerField"], json!([1, 2]));
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
