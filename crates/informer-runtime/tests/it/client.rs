use std::sync::Arc;

use informer_apiserver::Verb;
use informer_client::Typed;
use informer_runtime::{
    CachedClient, DeleteOptions, FieldValidation, ListOptions, MissingInformer, Next, Operation,
    OperationResult, Patch, ReadError, ResourceKind, WriteError,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use kube_core::DynamicObject;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixture::{SOON, Server};
use crate::old_types::OldDeployment;

pub(crate) fn deployable() -> Value {
    let containers = json!([{"name": "main", "image": "a:1"}]);
    json!({"spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
    }})
}

#[tokio::test(start_paused = true)]
async fn unknown_and_pruned_fields_survive_a_read_modify_write() {
    let server = crate::newer_server::newer();
    let resources = json!({"requests": {"cpu": "1"}});
    let main =
        json!({"name": "main", "image": "a:1", "resources": resources, "command": ["run"], "shells": ["sh"]});
    let spec = json!({
        "replicas": 1,
        "minReadySeconds": 5,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [main, {"name": "s", "image": "b"}]}},
    });
    let owned = json!([{
        "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:minReadySeconds": {}}},
    }]);
    server.create("deployments", "default/web", json!({"metadata": {"managedFields": owned}, "spec": spec}));
    let client = server.client();
    let web = client.get::<OldDeployment>("default/web").await.unwrap().unwrap();
    let mut edited = web.edit();
    edited.spec.replicas = 3;
    edited.spec.template.spec.containers.remove(1);
    edited.spec.template.spec.containers[0].image = "a:2".to_owned();
    client.update(&edited).await.unwrap();
    let stored = server.get("deployments", "default/web");
    let made = &stored["spec"]["template"]["spec"]["containers"];
    assert_eq!((made[1].is_null(), &made[0]["image"]), (true, &json!("a:2")), "{stored}");
    assert_eq!((&made[0]["resources"], &made[0]["command"]), (&resources, &json!(["run"])), "{stored}");
    assert_eq!(made[0]["shells"], json!(["sh"]), "the client's schema table does not contain it: {stored}");
    assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["minReadySeconds"]), (&json!(3), &json!(5)));
    assert!(stored["metadata"]["managedFields"].is_array(), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn replacing_a_read_object_is_rejected_with_alternatives() {
    let server = Server::start();
    server.pod("default/web-0");
    let client = server.client();
    let pod = client.get::<Pod>("default/web-0").await.unwrap().unwrap();
    let error = client.replace(&**pod.view()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("replace pods default/web-0: the object was read and may lack fields"),
        "{error}"
    );
    assert!(error.contains("`update`") && error.contains("`apply`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn created_object_appears_in_the_cache_and_deleted_one_disappears() {
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
    maps.scoped_informers()[0].informer.wait_until(|maps| maps.is_empty()).await.unwrap();
    assert!(client.delete::<ConfigMap>("default/m").await.unwrap_err().is_not_found());
}

pub(crate) fn config_map(key: &str, color: &str) -> ConfigMap {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let mut map = json!({"metadata": {"name": name}, "data": {"color": color}});
    if !namespace.is_empty() {
        map["metadata"]["namespace"] = json!(namespace);
    }
    serde_json::from_value(map).expect("the fields are those of a config map")
}

pub(crate) fn color(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("color")).map_or("", String::as_str)
}

/// Returns the verb, the subresource and the query of the last write request that the server has received.
fn last_write(server: &Server) -> (Verb, String, String) {
    let writes = |request: &informer_apiserver::RequestRecord| {
        !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Other)
    };
    let request = server.api.requests().into_iter().rfind(writes).expect("a write");
    (request.verb, request.subresource.unwrap_or_default(), request.query)
}

#[tokio::test(start_paused = true)]
async fn update_of_object_changed_meanwhile_is_a_conflict() {
    let server = Server::start();
    let client = server.client();
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    let (mut first, mut second) = (map.edit(), map.edit());
    first.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
    second.data.get_or_insert_default().insert("color".to_owned(), "green".to_owned());
    let blue = client.update(&first).await.unwrap();
    assert!(client.update(&second).await.unwrap_err().is_conflict());
    let mut third = blue.edit();
    third.data = None;
    assert_eq!(
        color(&client.update(&third).await.unwrap()),
        "",
        "the returned object can be changed and sent again"
    );
}

#[tokio::test(start_paused = true)]
async fn update_of_recreated_object_is_a_conflict() {
    let server = Server::start();
    let client = server.client();
    let mut edited = client.create(&config_map("default/m", "red")).await.unwrap().edit();
    client.delete::<ConfigMap>("default/m").await.unwrap();
    client.create(&config_map("default/m", "other")).await.unwrap();
    edited.data = None;
    assert!(client.update(&edited).await.unwrap_err().is_conflict());
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "other");
}

#[tokio::test(start_paused = true)]
async fn unchanged_object_is_not_sent_and_identity_is_immutable() {
    let server = Server::start();
    let client = server.client();
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    let same = client.update(&map.edit()).await.unwrap();
    assert_eq!(same.metadata.resource_version, map.metadata.resource_version);
    assert_eq!(server.api.count_requests(Verb::Patch, "configmaps"), 0);
    let mut renamed = map.edit();
    renamed.metadata.name = Some("other".to_owned());
    let error = client.update(&renamed).await.unwrap_err();
    assert!(matches!(error, WriteError::OtherObject { field: "metadata.name", .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn update_of_a_list_reads_the_whole_object_for_incomplete_views() {
    let server = Server::start();
    let main = json!({"name": "main", "image": "a:1", "command": ["run"]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [main]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    server.create("deployments", "default/web", json!({"spec": spec}));
    let kind = ResourceKind::of::<OldDeployment>();
    let cache = server.cache().pin_representation::<Typed<OldDeployment>>(&kind).build();
    cache.start();
    let client = CachedClient::new(&cache);
    let mut edited = client.get::<OldDeployment>("default/web").await.unwrap().unwrap().edit();
    edited.spec.replicas = 2;
    let scaled = client.update(&edited).await.unwrap();
    assert_eq!(server.api.count_requests(Verb::Get, "deployments"), 0, "no list is touched");
    let version = scaled.metadata.resource_version.clone().unwrap();
    let held = || cache.existing_informer::<Typed<OldDeployment>>(kind.gvk()).unwrap();
    held().scoped_informers()[0]
        .informer
        .wait_until(|held| held.resource_version() == version.as_str())
        .await
        .unwrap();
    let mut edited = client.get::<OldDeployment>("default/web").await.unwrap().unwrap().edit();
    edited.spec.template.spec.containers[0].image = "a:2".to_owned();
    client.update(&edited).await.unwrap();
    assert_eq!(server.api.count_requests(Verb::Get, "deployments"), 1);
    let stored = server.get("deployments", "default/web");
    let container = &stored["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["command"]), (&json!("a:2"), &json!(["run"])));
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_updates_are_separate() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    let client = server.client();
    let web = client.get::<Deployment>("default/web").await.unwrap().unwrap();
    let mut edited = web.edit();
    edited.spec.replicas = Some(5);
    edited.status.get_or_insert_default().observed_generation = Some(7);
    let written = client.status().update(&edited).await.unwrap();
    assert_eq!(last_write(&server).1, "status");
    let stored = server.get("deployments", "default/web");
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["status"]["observedGeneration"]),
        (&json!(1), &json!(7))
    );
    let mut edited = written.edit();
    edited.spec.replicas = Some(3);
    edited.status.get_or_insert_default().observed_generation = Some(9);
    client.update(&edited).await.unwrap();
    let stored = server.get("deployments", "default/web");
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["status"]["observedGeneration"]),
        (&json!(3), &json!(7))
    );
    let merged = Patch::merge(json!({"status": {"observedGeneration": 8}}));
    client.status().patch::<Deployment>("default/web", &merged).await.unwrap();
    assert_eq!(server.get("deployments", "default/web")["status"]["observedGeneration"], 8);
}

#[tokio::test(start_paused = true)]
async fn scale_eviction_and_token_subresources_work() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    server.pod("default/web-0");
    let client = server.client();
    let scale = client.subresource("scale");
    let mut read: Scale = scale.read::<Deployment, _>("default/web").await.unwrap();
    read.spec.get_or_insert_default().replicas = Some(4);
    scale.replace::<Deployment, _>("default/web", &read).await.unwrap();
    assert_eq!(server.get("deployments", "default/web")["spec"]["replicas"], 4);
    let _: Scale =
        scale.merge::<Deployment, _>("default/web", json!({"spec": {"replicas": 2}})).await.unwrap();
    assert_eq!(client.get::<Deployment>("default/web").await.unwrap().unwrap().spec.replicas, Some(2));
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "default"}, "deleteOptions": {"gracePeriodSeconds": 0},
    });
    let _: Value = client.subresource("eviction").create::<Pod, _>("default/web-0", &eviction).await.unwrap();
    assert!(client.get::<Pod>("default/web-0").await.unwrap().is_none());
    server.create("serviceaccounts", "default/robot", json!({}));
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let made: Value =
        client.subresource("token").create::<ServiceAccount, _>("default/robot", &request).await.unwrap();
    assert!(made["status"]["token"].as_str().is_some_and(|token| !token.is_empty()), "{made}");
    let error = client.subresource("nonsense").read::<Pod, Value>("default/web-0").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn field_owner_and_validation_are_sent_with_every_write() {
    let server = Server::start();
    let client = server.client().field_owner("first").field_validation(FieldValidation::Strict);
    client.create(&config_map("default/m", "red")).await.unwrap();
    assert_eq!(last_write(&server).2, "fieldManager=first&fieldValidation=Strict");
    let second = client.field_owner("second").field_validation(FieldValidation::Ignore);
    second.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"a": "1"}}))).await.unwrap();
    assert_eq!(last_write(&server).2, "fieldManager=second&fieldValidation=Ignore");
    let unknown = client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"unknown": 1}))).await;
    assert!(unknown.is_err(), "strictly");
    let options = "fieldManager=first&fieldValidation=Strict";
    let mut edited = client.live().get::<ConfigMap>("default/m").await.unwrap().unwrap().edit();
    edited.data.get_or_insert_default().insert("b".to_owned(), "2".to_owned());
    client.update(&edited).await.unwrap();
    assert_eq!(last_write(&server).2, options, "update");
    client.replace(&config_map("default/m", "blue")).await.unwrap();
    assert_eq!(last_write(&server).2, options, "replace");
    client.force().apply(&config_map("default/m", "green")).await.unwrap();
    assert_eq!(
        last_write(&server).2,
        "fieldManager=first&force=true",
        "an apply is always validated strictly"
    );
    server.pod("default/web-0");
    let patch = Patch::merge(json!({"status": {"phase": "Running"}}));
    client.status().patch::<Pod>("default/web-0", &patch).await.unwrap();
    assert_eq!(last_write(&server).1, "status");
    assert_eq!(last_write(&server).2, options, "patch of a subresource");
    client.delete::<ConfigMap>("default/m").await.unwrap();
    assert_eq!(last_write(&server).2, "", "a deletion writes no fields");
}

#[tokio::test(start_paused = true)]
async fn namespaced_client_defaults_and_enforces_its_namespace() {
    let server = Server::start();
    let client = server.client().in_namespace("a");
    let created = client.create(&config_map("m", "red")).await.unwrap();
    assert_eq!(created.metadata.namespace.as_deref(), Some("a"));
    assert!(client.get::<ConfigMap>("m").await.unwrap().is_some());
    assert!(client.live().get::<ConfigMap>("m").await.unwrap().is_some());
    server.create("configmaps", "b/m", json!({}));
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    let refused = [
        client.create(&config_map("b/other", "red")).await.unwrap_err().to_string(),
        client.delete::<ConfigMap>("b/m").await.unwrap_err().to_string(),
        client.get::<ConfigMap>("b/m").await.unwrap_err().to_string(),
        client.list::<ConfigMap>(&ListOptions::default().namespace("b")).await.unwrap_err().to_string(),
    ];
    for error in refused {
        assert!(
            error.ends_with(
                "namespace \"b\" differs from the namespace of the client, \"a\"; use another client"
            ),
            "{error}"
        );
    }
    server.create("nodes", "n1", json!({}));
    let patch = Patch::merge(json!({"metadata": {"labels": {"x": "y"}}}));
    assert!(client.patch::<Node>("n1", &patch).await.unwrap().metadata.namespace.is_none());
}

#[tokio::test(start_paused = true)]
async fn uncached_kinds_and_dynamic_objects_are_read_live() {
    let server = Server::start();
    server.create("secrets", "default/s", json!({"data": {"k": "dg=="}}));
    let cache = server.cache().build();
    cache.start();
    let client = CachedClient::builder(&cache).uncached::<Secret>().build();
    assert!(client.get::<Secret>("default/s").await.unwrap().is_some());
    assert!(client.get::<Secret>("default/none").await.unwrap().is_none());
    assert_eq!(client.list::<Secret>(&ListOptions::default()).await.unwrap().len(), 1);
    let kind = ResourceKind::of::<Secret>();
    let secret = client.dynamic(&kind).get("default/s").await.unwrap().unwrap();
    assert_eq!(secret.data["data"]["k"], "dg==");
    assert!(cache.states().is_empty(), "no informer was created");
    let cached = CachedClient::builder(&cache).cache_dynamic(true).build().dynamic(&kind);
    assert_eq!(cached.list(&ListOptions::default()).await.unwrap().len(), 1);
    assert_eq!(cache.states().len(), 1);
    let refusing = server.cache().missing_informer(MissingInformer::Refuse).build();
    refusing.start();
    let error = CachedClient::new(&refusing).get::<Secret>("default/s").await.unwrap_err();
    assert!(matches!(error, ReadError::NotCached { .. }), "the error of the cache is returned: {error}");
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_are_written_and_cached_ones_cannot_be_replaced() {
    let server = Server::start();
    let cache = server.cache().build();
    cache.start();
    let maps =
        CachedClient::builder(&cache).cache_dynamic(true).build().dynamic(ResourceKind::of::<ConfigMap>());
    let object = json!({"metadata": {"name": "m", "namespace": "default"}, "data": {"a": "1"}});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = maps.create(&object).await.unwrap();
    assert_eq!(created.types.as_ref().unwrap().kind, "ConfigMap");
    let cached = maps.get("default/m").await.unwrap().unwrap();
    let error = maps.replace(&cached).await.unwrap_err();
    assert!(matches!(error, WriteError::View { .. }), "{error}");
    let patched = maps.patch("default/m", &Patch::merge(json!({"data": {"b": "2"}}))).await.unwrap();
    assert_eq!(patched.data["data"], json!({"a": "1", "b": "2"}));
    let types = patched.types.as_ref().unwrap();
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
    maps.delete("default/m", &DeleteOptions::default()).await.unwrap();
    assert!(maps.get("default/m").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn live_lists_are_paged_or_complete() {
    let server = Server::start();
    for number in 0..5 {
        server.pod(&format!("default/web-{number}"));
    }
    let live = server.client().live();
    let two = ListOptions::default().limit(2);
    let first = live.page::<Pod>(&two, None).await.unwrap();
    assert_eq!(first.items.len(), 2);
    let token = first.continue_token.as_deref();
    let second = live.page::<Pod>(&two, token).await.unwrap();
    assert_eq!(second.items.len(), 2);
    let third = live.page::<Pod>(&two, second.continue_token.as_deref()).await.unwrap();
    assert_eq!((third.items.len(), third.continue_token), (1, None));
    assert_eq!(live.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 5);
    assert_eq!(live.list::<Pod>(&two).await.unwrap().len(), 2);
    let one = ListOptions::default().fields("metadata.name=web-3".parse().unwrap());
    assert_eq!(live.list::<Pod>(&one).await.unwrap().len(), 1);
    for number in 0..501 {
        server.pod(&format!("many/web-{number}"));
    }
    let many = ListOptions::default().namespace("many");
    assert_eq!(live.list::<Pod>(&many).await.unwrap().len(), 501, "more than a page of 500");
    server.pod("default/web-5");
    server.api.compact();
    let expired = live.page::<Pod>(&two, token).await.unwrap_err();
    assert!(expired.to_string().contains("continue parameter is too old"), "{expired}");
}

#[tokio::test(start_paused = true)]
async fn deletion_preconditions_are_enforced() {
    let server = Server::start();
    let client = server.client();
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    let other = DeleteOptions::default().uid("another");
    assert!(client.delete_with::<ConfigMap>("default/m", &other).await.unwrap_err().is_conflict());
    let of_read = DeleteOptions::of(&**map.view());
    client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": null}))).await.unwrap();
    assert!(client.delete_with::<ConfigMap>("default/m", &of_read).await.unwrap_err().is_conflict());
    let now = client.get::<ConfigMap>("default/m").await.unwrap().unwrap();
    client.delete_with::<ConfigMap>("default/m", &DeleteOptions::of(&**now.view())).await.unwrap();
    assert!(client.get::<ConfigMap>("default/m").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn delete_all_deletes_selected_objects() {
    let server = Server::start();
    let client = server.client();
    for (key, label) in
        [("default/a", "app=web"), ("default/b", "app=web"), ("default/c", "app=api"), ("other/d", "app=web")]
    {
        let (name, value) = label.split_once('=').unwrap();
        server.create("configmaps", key, json!({"metadata": {"labels": {name: value}}}));
    }
    let web = ListOptions::default().namespace("default").labels("app=web".parse().unwrap());
    client.delete_all::<ConfigMap>(&web, &DeleteOptions::default()).await.unwrap();
    let left = client.live().list::<ConfigMap>(&ListOptions::default()).await.unwrap();
    let mut left: Vec<String> = left.iter().filter_map(|map| map.metadata.name.clone()).collect();
    left.sort_unstable();
    assert_eq!(left, ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn create_or_update_creates_updates_and_leaves_unchanged() {
    let server = Server::start();
    let client = server.client();
    let paint = |wanted: &'static str| {
        move |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("color".to_owned(), wanted.to_owned());
            Ok(())
        }
    };
    let fresh = || config_map("default/m", "");
    let (_, result) = client.create_or_update(fresh(), paint("red")).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    let (map, result) = client.create_or_update(fresh(), paint("blue")).await.unwrap();
    assert_eq!((result, color(&map)), (OperationResult::Updated, "blue"));
    let requests = server.api.requests().len();
    let (_, result) = client.create_or_update(fresh(), paint("blue")).await.unwrap();
    assert_eq!((result, server.api.requests().len()), (OperationResult::Unchanged, requests));
    let error = client
        .create_or_update(fresh(), |map| {
            map.metadata.name = Some("other".to_owned());
            Ok(())
        })
        .await;
    assert!(matches!(error.unwrap_err(), WriteError::OtherObject { field: "metadata.name", .. }));
    let error = client.create_or_update(fresh(), |_| Err("no paint".into())).await.unwrap_err();
    assert!(matches!(error, WriteError::Stopped { .. }), "{error}");
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "blue");
}

#[tokio::test(start_paused = true)]
async fn create_or_patch_patches_status_separately() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    let client = server.client();
    let web = || {
        Deployment::deserialize(json!({
            "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {}, "template": {}},
        }))
        .unwrap()
    };
    let change = |replicas: i32, observed: i64| {
        move |web: &mut Deployment| {
            web.spec.replicas = Some(replicas);
            web.status.get_or_insert_default().observed_generation = Some(observed);
            Ok(())
        }
    };
    let (_, result) = client.create_or_patch(web(), change(2, 5)).await.unwrap();
    assert_eq!(result, OperationResult::UpdatedStatus);
    let (_, result) = client.create_or_patch(web(), change(2, 6)).await.unwrap();
    assert_eq!(result, OperationResult::UpdatedStatusOnly);
    let (_, result) = client.create_or_patch(web(), change(3, 6)).await.unwrap();
    assert_eq!(result, OperationResult::Updated);
    let (web, result) = client.create_or_patch(web(), change(3, 6)).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    assert_eq!((web.spec.replicas, web.status.as_ref().unwrap().observed_generation), (Some(3), Some(6)));
}

#[tokio::test(start_paused = true)]
async fn errors_and_debug_output_do_not_contain_object_data() {
    let server = Server::start();
    let client = server.client();
    let secret: Secret = serde_json::from_value(
        json!({"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "hush"}}),
    )
    .unwrap();
    let created = client.create(&secret).await.unwrap();
    let operation = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&operation);
    let watched = client.intercept(move |operation: Operation, next: Next| {
        *log.lock() = format!("{operation:?}");
        next.run(operation)
    });
    watched.create(&secret).await.unwrap_err();
    let patch = format!("{:?}", Patch::merge(json!({"data": "hush"})));
    let shown = [format!("{created:?}"), format!("{:?}", created.edit()), operation.lock().clone(), patch];
    for text in &shown {
        assert!(!text.contains("hush") && !text.contains("aHVzaA"), "{text}");
    }
    assert_eq!(shown[2], "Operation(create secrets default/s)");
}
