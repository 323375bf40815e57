//! Tests of `FakeClient` and `TestEnvironment`, imported from the `informer` crate as programs do it.
#![cfg(all(feature = "testing", feature = "runtime"))]

use informer::cache::{SharedInformerFactory, field};
use informer::runtime::ListOptions;
use informer::runtime::{Next, Operation, OperationVerb, WriteError};
use informer::testing::{FakeClient, TEST_SERVER_VARIABLE, TestEnvironment, TestServerKind, pod, watch};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

fn config_map(namespace: &str, name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}})).expect("a config map")
}

#[tokio::test(start_paused = true)]
async fn a_fake_client_starts_with_objects_and_shows_every_write() {
    let client = FakeClient::builder().object(&pod("default/web-0")).object(&config_map("ns", "m")).build();
    let client = client.await.unwrap();
    assert!(client.get::<Pod>("default/web-0").await.unwrap().is_some());
    client.delete::<ConfigMap>("ns/m").await.unwrap();
    assert!(client.get::<ConfigMap>("ns/m").await.unwrap().is_none());
    client.create(&config_map("ns", "m")).await.unwrap();
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fake_client_selects_fields_by_its_indexes_alone() {
    let mut placed = pod("default/web-0");
    placed.spec.get_or_insert_default().node_name = Some("n1".to_owned());
    let client = FakeClient::builder()
        .object(&placed)
        .object(&pod("default/web-1"))
        .index::<Pod>("spec.nodeName", field("spec.nodeName"))
        .build()
        .await
        .unwrap();
    let select = |fields: &str| ListOptions::default().fields(fields.parse().unwrap());
    assert_eq!(client.list::<Pod>(&select("spec.nodeName=n1")).await.unwrap().len(), 1);
    let error = client.list::<Pod>(&select("spec.hostNetwork=true")).await.unwrap_err().to_string();
    assert!(error.contains("there is no index of field \"spec.hostNetwork\""), "{error}");
    let twice = FakeClient::builder().index::<Pod>("a", field("a")).index::<Pod>("a", field("a"));
    assert!(twice.build().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_fake_client_fails_where_an_interceptor_says_so() {
    let client = FakeClient::builder()
        .object(&pod("default/web-0"))
        .intercept(|operation: Operation, next: Next| async move {
            match operation.verb {
                OperationVerb::Get => Err(WriteError::Stopped {
                    attempt: operation.to_string(),
                    cause: "no reads today".into(),
                }),
                _ => next.run(operation).await,
            }
        })
        .build()
        .await
        .unwrap();
    assert!(client.get::<Pod>("default/web-0").await.is_err());
    client.delete::<Pod>("default/web-0").await.unwrap();
    assert!(client.server().requests(watch::<Pod>()).next().is_none(), "nothing was read");
}

#[tokio::test(start_paused = true)]
async fn an_environment_has_a_namespace_and_installs_definitions() {
    let environment = TestEnvironment::of(TestServerKind::Embedded).await.unwrap();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites", "singular": "website", "listKind": "WebsiteList"},
            "versions": [version],
        },
    });
    environment.install([definition.clone(), definition]).await.unwrap();
    let kind = environment.client().resolve("websites").await.unwrap();
    let websites = SharedInformerFactory::new(environment.client())
        .namespace(environment.namespace())
        .dynamic(kind.kind);
    let _run = websites.start();
    websites.wait_for_sync(std::time::Duration::from_secs(5)).await.unwrap();
    assert!(environment.embedded().is_some());
    environment.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_crd_returns_an_error_that_names_it() {
    let environment = TestEnvironment::of(TestServerKind::Embedded).await.unwrap();
    let broken = json!({"metadata": {"name": "broken"}, "spec": {}});
    let error = environment.install([broken]).await.unwrap_err().to_string();
    assert_eq!(error, "cannot install CRD broken");
}

#[test]
fn the_variable_chooses_the_server_of_an_environment() {
    assert_eq!(TEST_SERVER_VARIABLE, "INFORMER_TEST_SERVER");
    assert_eq!(TestServerKind::parse(None).unwrap(), TestServerKind::Embedded);
    assert_eq!(TestServerKind::parse(Some("embedded")).unwrap(), TestServerKind::Embedded);
    assert_eq!(TestServerKind::parse(Some("kubeconfig")).unwrap(), TestServerKind::Kubeconfig);
    assert!(TestServerKind::parse(Some("kind")).is_err());
}
