//! Tests with a server that is newer than the client's built-in schema. The server's objects have fields that
//! the client cannot decode from protobuf, so it must read these objects as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_apiserver::{ApiServer, ExtraField, Verb};
use informer_client::{Call, Lazy, Packed, PatchFormat, ResourceKind, Typed};
use informer_core::Object;
use informer_runtime::{
    CachedClient, ClientMetrics, InformerOptions, KubeObject, ListOptions, Next, Operation, OperationResult,
};
use informer_store::field;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Service};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::{SOON, Server};

/// Fields that the simulated newer server has, and that the client's built-in protobuf schema does not know.
pub(crate) const EXTRA: [ExtraField; 12] = [
    ExtraField::new("core.v1.Container", "shells", 200, "[]string"),
    ExtraField::new("core.v1.Container", "sandbox", 201, "*core.v1.SecretReference"),
    ExtraField::new("core.v1.EnvVar", "masked", 202, "*bool"),
    ExtraField::new("core.v1.PodSpec", "priorityBand", 203, "*string"),
    ExtraField::new("core.v1.VolumeMount", "options", 204, "{}string"),
    ExtraField::new("core.v1.ServicePort", "weight", 205, "*int32"),
    ExtraField::new("core.v1.ConfigMap", "audience", 206, "*string"),
    ExtraField::new("meta.v1.ObjectMeta", "lineage", 207, "[]core.v1.EnvVar"),
    ExtraField::new("meta.v1.OwnerReference", "weight", 208, "*int32"),
    ExtraField::new("apps.v1.DeploymentCondition", "observedBy", 209, "*string"),
    ExtraField::new("core.v1.ServiceStatus", "band", 210, "*string"),
    ExtraField::new("core.v1.ContainerPort", "zone", 211, "*string"),
];

pub(crate) fn newer() -> Server {
    Server { api: ApiServer::builder().extra_fields(&EXTRA).expect("the table has no such fields").build() }
}

/// The way in which the client of a test reads objects: from a cache in one of the representations, through
/// an interceptor, from a cache with a transform, or from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    Lazy,
    Typed,
    Packed,
    Intercepted,
    /// The client reads from a cache with a transform that decodes each object from its JSON again.
    Transformed,
    Server,
}

pub(crate) const ALL_READS: [Reads; 6] =
    [Reads::Lazy, Reads::Typed, Reads::Packed, Reads::Intercepted, Reads::Transformed, Reads::Server];

pub(crate) fn client<K: KubeObject>(server: &Server, reads: Reads) -> CachedClient {
    let kind = ResourceKind::of::<K>();
    let cache = match reads {
        Reads::Typed => server.cache().pin_representation::<Typed<K>>(&kind).build(),
        Reads::Packed => server.cache().pin_representation::<Packed<K>>(&kind).build(),
        Reads::Transformed => {
            let remade = |object: Arc<Lazy<K>>| Ok(Arc::new(Lazy::from_json(&object.json()?)?));
            server.cache().kind_of(&kind, InformerOptions::default().transform(remade)).build()
        }
        Reads::Lazy | Reads::Intercepted | Reads::Server => server.cache().build(),
    };
    cache.start();
    let client = match reads {
        Reads::Server => CachedClient::builder(&cache).uncached::<K>().build(),
        _ => CachedClient::new(&cache),
    };
    match reads {
        Reads::Intercepted => client.intercept(|operation: Operation, next: Next| next.run(operation)),
        _ => client,
    }
}

fn deployment() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": "a:1", "shells": ["sh", name], "sandbox": {"name": name},
            "env": [{"name": "A", "value": "1", "masked": true}, {"name": "B", "value": "2", "masked": false}],
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "options": {"x": "a"}}, {"name": "v", "mountPath": "/b", "options": {"x": "b"}},
            ],
        })
    };
    let pod = json!({
        "priorityBand": "high", "containers": [container("main"), container("side")],
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    json!({
        "metadata": {"lineage": [{"name": "x", "value": "1", "masked": true}]},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
        "status": {"conditions": [
            {"type": "Available", "status": "True", "observedBy": "a"}, {"type": "Progressing", "status": "True", "observedBy": "b"},
        ]},
    })
}

/// Creates an object with the fields of a newer server through the API, and then writes its status.
pub(crate) async fn create<K: KubeObject>(server: &Server, key: &str, mut object: Value) {
    let (namespace, name) = key.split_once('/').expect("a key with a namespace");
    object["metadata"]["name"] = json!(name);
    let (api, kind) = (server.api_client(), ResourceKind::of::<K>());
    let made = Call::create(&kind, Some(namespace)).body(object.to_string());
    api.call(made).await.expect("the object is valid");
    let status = json!({"status": object["status"]});
    let key = key.parse().expect("a key");
    let written = Call::patch(&kind, &key, PatchFormat::Merge).subresource("status").body(status.to_string());
    api.call(written).await.expect("the status is valid");
}

/// Replaces an object, or a subresource of it, through the API with JSON. The tests compare the result with
/// that of the client under test.
pub(crate) async fn replace<K: KubeObject>(
    server: &Server,
    key: &str,
    subresource: Option<&str>,
    object: &Value,
) {
    let mut call =
        Call::replace(&ResourceKind::of::<K>(), &key.parse().expect("a key")).body(object.to_string());
    if let Some(subresource) = subresource {
        call = call.subresource(subresource);
    }
    server.api_client().call(call).await.expect("the object is valid");
}

/// Returns the stored object without metadata that differs between two writes of the same change, such as the
/// resourceVersion and the uid.
pub(crate) fn stored(server: &Server, resource: &str, key: &str) -> Value {
    let mut object = server.get(resource, key);
    let metadata = object["metadata"].as_object_mut().expect("it has metadata");
    for name in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
        metadata.remove(name);
    }
    object
}

fn containers(deployment: &mut Deployment) -> &mut Vec<Container> {
    &mut deployment.spec.template.spec.as_mut().expect("it has a template").containers
}

#[tokio::test(start_paused = true)]
async fn update_of_a_list_keeps_fields_that_a_newer_server_has_stored() {
    for reads in ALL_READS {
        let server = newer();
        create::<Deployment>(&server, "default/web", deployment()).await;
        let mut expected = stored(&server, "deployments", "default/web");
        let spec = &mut expected["spec"]["template"]["spec"];
        spec["containers"][0]["image"] = json!("a:2");
        spec["containers"][1]["env"].as_array_mut().unwrap().remove(0);
        spec["containers"][1]["volumeMounts"][1]["readOnly"] = json!(true);

        let client = client::<Deployment>(&server, reads);
        let mut edited = client.get::<Deployment>("default/web").await.unwrap().unwrap().edit();
        let list = containers(&mut edited);
        list[0].image = Some("a:2".to_owned());
        list[1].env.as_mut().unwrap().remove(0);
        list[1].volume_mounts.as_mut().unwrap()[1].read_only = Some(true);
        client.update(&edited).await.unwrap();
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn update_of_a_status_keeps_fields_that_a_newer_server_has_stored() {
    for reads in ALL_READS {
        let server = newer();
        create::<Deployment>(&server, "default/web", deployment()).await;
        let mut expected = stored(&server, "deployments", "default/web");
        expected["status"]["conditions"][1]["status"] = json!("False");

        let client = client::<Deployment>(&server, reads);
        let mut edited = client.get::<Deployment>("default/web").await.unwrap().unwrap().edit();
        let conditions = edited.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[1].status = Some("False".to_owned());
        client.status().update(&edited).await.unwrap();
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn create_or_update_and_create_or_patch_keep_fields_that_a_newer_server_has_stored() {
    for reads in ALL_READS {
        let server = newer();
        create::<Deployment>(&server, "default/web", deployment()).await;
        let mut expected = stored(&server, "deployments", "default/web");
        expected["spec"]["template"]["spec"]["containers"][1]["image"] = json!("b:2");
        let client = client::<Deployment>(&server, reads);
        let mut web = Deployment::default();
        web.metadata.name = Some("web".to_owned());
        web.metadata.namespace = Some("default".to_owned());
        let change = |deployment: &mut Deployment| {
            containers(deployment)[1].image = Some("b:2".to_owned());
            Ok(())
        };
        let (_, result) = client.create_or_update(web.clone(), change).await.unwrap();
        assert_eq!(result, OperationResult::Updated);
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");

        expected["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:3");
        expected["status"]["conditions"][0]["status"] = json!("False");
        let change = |deployment: &mut Deployment| {
            containers(deployment)[0].image = Some("a:3".to_owned());
            let conditions = deployment.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions[0].status = Some("False".to_owned());
            Ok(())
        };
        let (_, result) = client.create_or_patch(web, change).await.unwrap();
        assert_eq!(result, OperationResult::UpdatedStatus);
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_list_keep_fields_that_a_newer_server_has_stored() {
    for reads in [Reads::Lazy, Reads::Intercepted, Reads::Server] {
        let server = newer();
        create::<Deployment>(&server, "default/web", deployment()).await;
        let mut expected = stored(&server, "deployments", "default/web");
        expected["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:2");
        let client = client::<Deployment>(&server, reads);
        let listed = client.list::<Deployment>(&ListOptions::default()).await.unwrap().remove(0);
        let mut edited = informer_runtime::Fetched::of_lazy(listed).unwrap().edit();
        containers(&mut edited)[0].image = Some("a:2".to_owned());
        client.update(&edited).await.unwrap();
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn update_that_changes_no_list_of_objects_needs_no_read() {
    let server = newer();
    create::<Deployment>(&server, "default/web", deployment()).await;
    let client = client::<Deployment>(&server, Reads::Lazy);
    let mut edited = client.get::<Deployment>("default/web").await.unwrap().unwrap().edit();
    edited.spec.replicas = Some(3);
    client.update(&edited).await.unwrap();
    assert_eq!(server.api.count_requests(Verb::Get, "deployments"), 0);
    let stored = server.get("deployments", "default/web");
    assert_eq!(stored["spec"]["template"]["spec"]["containers"][0]["shells"], json!(["sh", "main"]));
}

#[tokio::test(start_paused = true)]
async fn update_of_an_object_that_changed_since_it_was_read_is_a_conflict_on_a_newer_server() {
    let server = newer();
    create::<Deployment>(&server, "default/web", deployment()).await;
    let client = client::<Deployment>(&server, Reads::Lazy);
    let mut edited = client.get::<Deployment>("default/web").await.unwrap().unwrap().edit();
    containers(&mut edited)[0].image = Some("a:2".to_owned());
    let mut other = server.get("deployments", "default/web");
    other["spec"]["replicas"] = json!(5);
    server.api.update(&crate::fixture::gvr("deployments"), "default", other).unwrap();
    assert!(client.update(&edited).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn update_is_a_conflict_on_a_newer_server_even_if_another_client_made_the_same_change() {
    let server = newer();
    create::<Deployment>(&server, "default/web", deployment()).await;
    let client = client::<Deployment>(&server, Reads::Lazy);
    let mut edited = client.get::<Deployment>("default/web").await.unwrap().unwrap().edit();
    containers(&mut edited)[0].image = Some("a:2".to_owned());
    let mut other = server.get("deployments", "default/web");
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:2");
    server.api.update(&crate::fixture::gvr("deployments"), "default", other).unwrap();
    assert!(client.update(&edited).await.unwrap_err().is_conflict());
}

/// A ConfigMap type that knows the field `audience` of the newer server, which the client's built-in protobuf
/// schema does not know.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct NewerMap {
    metadata: kube_core::ObjectMeta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    data: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audience: Option<String>,
}

impl kube_core::Resource for NewerMap {
    type DynamicType = ();
    type Scope = kube_core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "ConfigMap".into()
    }
    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "configmaps".into()
    }
    fn meta(&self) -> &kube_core::ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn typed_read_has_fields_that_the_type_knows_and_the_table_does_not() {
    for reads in [Reads::Lazy, Reads::Packed, Reads::Intercepted, Reads::Server, Reads::Typed] {
        let server = newer();
        server.create("configmaps", "default/m", json!({"data": {"k": "v"}, "audience": "all"}));
        let client = client::<NewerMap>(&server, reads);
        if reads == Reads::Typed {
            // A typed cache cannot decode this object from protobuf, because the type knows a field that the
            // schema lacks. The cache gets the object when it has listed the kind again as JSON, so the test
            // waits for that.
            client.cache().wait_for_sync(SOON).await.unwrap();
            tokio::time::sleep(SOON).await;
        }
        let map = client.get::<NewerMap>("default/m").await.unwrap().unwrap();
        assert_eq!(map.audience.as_deref(), Some("all"), "{reads:?}");
        // After this pause, the cache has the complete object with the unknown field, so the next read causes
        // no request.
        tokio::time::sleep(SOON).await;
        let before = server.api.count_requests(Verb::Get, "configmaps");
        let map = client.get::<NewerMap>("default/m").await.unwrap().unwrap();
        assert_eq!(map.audience.as_deref(), Some("all"), "{reads:?}");
        if reads != Reads::Server {
            assert_eq!(server.api.count_requests(Verb::Get, "configmaps"), before, "{reads:?}");
        }
        let mut edited = map.edit();
        edited.audience = Some("some".to_owned());
        client.update(&edited).await.unwrap();
        assert_eq!(server.get("configmaps", "default/m")["audience"], "some", "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn field_index_of_an_unknown_field_has_what_json_gives() {
    let server = newer();
    for (name, audience) in [("a", "all"), ("b", "some"), ("c", "all")] {
        server.create("configmaps", &format!("default/{name}"), json!({"audience": audience}));
    }
    let cache = server.cache().build();
    let kind = ResourceKind::of::<ConfigMap>();
    cache.index_field_of::<Lazy<ConfigMap>>(&kind, "audience", field("audience")).unwrap();
    cache.index_field_of::<Packed<ConfigMap>>(&kind, "audience", field("audience")).unwrap();
    let (lazy, packed) = (cache.informer::<ConfigMap>(), cache.packed::<ConfigMap>());
    cache.start();
    lazy.wait_for_sync(SOON).await.unwrap();
    packed.wait_for_sync(SOON).await.unwrap();
    tokio::time::sleep(SOON).await;
    let chosen = ListOptions::default().fields("audience=all".parse().unwrap());
    assert_eq!(lazy.select(&chosen).unwrap().len(), 2);
    assert_eq!(packed.select(&chosen).unwrap().len(), 2);
    // The cache now reads this kind as JSON, so objects that are created later have the unknown field, too.
    server.create("configmaps", "default/d", json!({"audience": "all"}));
    lazy.scoped_informers()[0].informer.wait_until(|maps| maps.contains("default/d")).await.unwrap();
    assert_eq!(lazy.select(&chosen).unwrap().len(), 3);
    let map = lazy.get("default/d").unwrap().unwrap();
    assert_eq!(map.field(&"audience".parse().unwrap()).as_deref(), Some("all"));
    assert!(!map.is_partial());
}

#[derive(Default)]
struct Kinds(Mutex<Vec<String>>);

impl ClientMetrics for Kinds {
    fn unknown_fields(&self, kind: &informer_core::Gvk) {
        self.0.lock().push(kind.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_reported_once_for_each_kind() {
    let server = newer();
    for name in ["a", "b", "c"] {
        server.create("configmaps", &format!("default/{name}"), json!({"audience": "all"}));
        server.create(
            "services",
            &format!("default/{name}"),
            json!({"spec": {"ports": [{"port": 1, "weight": 2}]}}),
        );
        server.pod(&format!("default/{name}"));
    }
    let cache = server.cache().build();
    let kinds = Arc::new(Kinds::default());
    let client = CachedClient::builder(&cache).metrics(Arc::clone(&kinds) as _).build();
    drop((cache.informer::<ConfigMap>(), cache.informer::<Service>(), cache.informer::<Pod>()));
    cache.start();
    cache.wait_for_sync(SOON).await.unwrap();
    let mut reported = kinds.0.lock().clone();
    reported.sort();
    assert_eq!(reported, ["ConfigMap.v1", "Service.v1"]);
    assert_eq!(client.api().kinds_with_unknown_fields().len(), 2);
}

/// The number of objects in front of the only object with unknown fields. The client checks the first objects
/// of a protobuf response for unknown fields, and only a small part of the others.
const PLAIN_OBJECTS: usize = 100;

#[tokio::test(start_paused = true)]
async fn update_reports_unknown_fields_of_an_object_that_the_list_did_not_check() {
    for reads in [Reads::Lazy, Reads::Packed, Reads::Intercepted] {
        let server = newer();
        for number in 0..PLAIN_OBJECTS {
            server.create("configmaps", &format!("default/m-{number:03}"), json!({"data": {"a": "1"}}));
        }
        let skewed = format!("default/m-{PLAIN_OBJECTS:03}");
        server.create("configmaps", &skewed, json!({"data": {"a": "1"}, "audience": "all"}));
        let client = client::<ConfigMap>(&server, reads);
        let kinds = Arc::new(Kinds::default());
        let reported = Arc::clone(&kinds);
        client.api().observe_unknown_fields(move |kind| ClientMetrics::unknown_fields(&*reported, kind));
        for key in ["default/m-000", &*skewed] {
            assert!(kinds.0.lock().is_empty(), "{reads:?}: {key}");
            let mut edited = client.get::<ConfigMap>(key).await.unwrap().unwrap().edit();
            edited.data.get_or_insert_default().insert("a".to_owned(), "2".to_owned());
            client.update(&edited).await.unwrap();
        }
        assert_eq!(*kinds.0.lock(), ["ConfigMap.v1"], "{reads:?}");
        assert_eq!(stored(&server, "configmaps", &skewed)["audience"], "all", "{reads:?}");
    }
}
