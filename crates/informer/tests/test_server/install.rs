//! Tests of the manifests and CRDs of a `TestServer`.

use std::error::Error;
use std::fs;

use informer::kube_core::CustomResourceExt;
use informer::testing::{FaultMatch, TestServer, exists, list, watch};
use informer::{CustomResource, Object};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
struct WebsiteSpec {
    image: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    ready: bool,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Schemaless", namespaced, schema = "disabled")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
struct SchemalessSpec {
    image: String,
}

/// Another kind with the singular name of [`Website`].
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Webpage", namespaced)]
#[kube(plural = "webpages", singular = "website")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
struct WebpageSpec {
    image: String,
}

fn website(image: &str) -> Website {
    let mut website = Website::new("shop", WebsiteSpec { image: image.to_owned() });
    website.metadata.namespace = Some("default".to_owned());
    website
}

/// Returns the messages of an error and of its sources.
fn messages(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", messages(source)))
}

#[tokio::test(start_paused = true)]
async fn installed_kind_is_served_and_validated_at_once() {
    let server = TestServer::start().await;
    server.create(&website("shop:1")).await.expect_err("the kind is unknown");
    server.install::<Website>().await.unwrap();
    server.create(&website("shop:1")).await.unwrap();
    server.eventually("default/shop", exists::<Website>()).await;
    let mut number = serde_json::to_value(website("shop:1")).unwrap();
    (number["metadata"]["name"], number["spec"]["image"]) = (json!("number"), json!(1));
    let gvr = "websites.v1.example.com".parse().unwrap();
    let error = server.server().create(&gvr, "default", number).unwrap_err().to_string();
    assert!(error.contains("spec.image"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn installed_crd_is_replaced_and_its_objects_stay() {
    let server = TestServer::start().await;
    server.install::<Website>().await.unwrap();
    server.create(&website("shop:1")).await.unwrap();
    server.install::<Website>().await.unwrap();
    assert_eq!(server.get::<Website>("default/shop").await.unwrap().spec.image, "shop:1");
}

#[tokio::test(start_paused = true)]
async fn list_after_a_change_of_the_schema_caches_the_new_defaults() {
    let server = TestServer::start().await;
    server.install::<Website>().await.unwrap();
    server.create(&website("shop:1")).await.unwrap();
    let mut stored = server.get::<Website>("default/shop").await.unwrap();
    let websites = server.informer::<Website>().await;
    let path = "spec.replicas".parse().unwrap();
    let replicas = |key: &str| {
        websites.indexer().get(key).and_then(|one| one.field(&path).map(|text| text.into_owned()))
    };
    assert_eq!(replicas("default/shop"), None);

    let mut definition = serde_json::to_value(Website::crd()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"] =
        json!({"type": "integer", "default": 2});
    let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
    server.update(&definition).await.unwrap();
    // Lists within a second share the hash of the schema.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    server.faults().on(watch::<Website>()).expire();
    stored.metadata.name = Some("blog".to_owned());
    stored.metadata.resource_version = None;
    stored.metadata.uid = None;
    server.create(&stored).await.unwrap();
    websites.wait_until(|all| all.contains("default/blog")).await.unwrap();
    assert!(server.requests(list::<Website>()).count() > 1);
    assert_eq!(replicas("default/blog").as_deref(), Some("2"));
    assert_eq!(replicas("default/shop").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_custom_kind_needs_no_access_to_open_api() {
    let server = TestServer::start().await;
    server.install::<Website>().await.unwrap();
    let refused = server.faults().on(FaultMatch::path("/openapi/v3")).times(u64::MAX).status(403);
    let websites = server.informer::<Website>().await;
    server.create(&website("shop:1")).await.unwrap();
    websites.wait_until(|all| all.contains("default/shop")).await.unwrap();
    assert_eq!(refused.fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn crd_without_schema_is_rejected_with_the_remedy() {
    let server = TestServer::start().await;
    let error = server.install::<Schemaless>().await.unwrap_err();
    assert_eq!(
        messages(&error),
        "cannot install CRD schemalesses.example.com: version v1 has no schema, because its type has \
         `schema = \"disabled\"`; load the manifest of the CRD with load_yaml"
    );
}

#[tokio::test(start_paused = true)]
async fn crd_with_the_names_of_another_kind_is_reported() {
    let server = TestServer::start().await;
    server.install::<Website>().await.unwrap();
    let error = messages(&server.install::<Webpage>().await.unwrap_err());
    let begin = "cannot install CRD webpages.example.com: the CRD is not established: ";
    assert!(error.starts_with(begin) && error.contains("\"website\" is already in use"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn manifests_of_a_directory_are_loaded_in_order() {
    let (server, folder) = (TestServer::start().await, tempfile::tempdir().unwrap());
    let mut crd: CustomResourceDefinition = Website::crd();
    crd.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    fs::write(folder.path().join("1.json"), serde_json::to_string(&crd).unwrap()).unwrap();
    let website = serde_json::to_string(&website("shop:1")).unwrap();
    let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}"#;
    fs::write(folder.path().join("2.yaml"), format!("{website}\n---\n{map}\n")).unwrap();
    assert_eq!(server.load_yaml(folder.path()).unwrap(), 3);
    server.get::<Website>("default/shop").await.unwrap();
    server.get::<ConfigMap>("default/settings").await.unwrap();
    let error = server.load_yaml(folder.path().join("3.yaml")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.ends_with("3.yaml"), "{error}");
}
