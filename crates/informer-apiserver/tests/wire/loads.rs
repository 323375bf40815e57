//! Loading manifests from files.

use std::fs;

use informer_apiserver::{ApiServer, LoadError};
use informer_core::Gvr;
use serde_json::json;

#[test]
fn a_directory_of_manifests_is_loaded_in_the_order_of_names_and_status_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n\
                spec: {containers: [{name: c, image: i}]}\nstatus: {phase: Running}\n---\n---\n\
                apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    fs::write(dir.path().join("1.yaml"), pods).unwrap();
    let list = r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}"#;
    fs::write(dir.path().join("2.json"), list).unwrap();
    fs::write(dir.path().join("notes.txt"), "not a manifest: [").unwrap();
    let server = ApiServer::builder().build();
    assert_eq!(server.load_yaml(dir.path()).unwrap(), 3);
    let pods = Gvr::new("", "v1", "pods");
    assert_eq!(server.get(&pods, "n", "a").unwrap()["status"]["phase"], "Running");
    assert!(server.get(&pods, "default", "b").is_ok());
    assert_eq!(server.load_yaml(dir.path().join("1.yaml")).unwrap(), 2, "objects that exist are replaced");
}

#[test]
fn custom_resource_is_loaded_after_its_definition_in_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.yaml");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}});
    fs::write(&file, format!("{definition}\n---\n{foo}\n")).unwrap();
    let server = ApiServer::builder().build();
    assert_eq!(server.load_yaml(&file).unwrap(), 2);
    assert!(server.get(&Gvr::new("example.com", "v1", "foos"), "default", "a").is_ok());
}

#[test]
fn an_invalid_manifest_is_reported_with_its_document() {
    let dir = tempfile::tempdir().unwrap();
    let server = ApiServer::builder().build();
    let file = dir.path().join("x.yaml");
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n";
    fs::write(&file, format!("{good}apiVersion: g/v1\nkind: Foo\n")).unwrap();
    assert!(
        matches!(server.load_yaml(&file), Err(LoadError::UnknownKind { document: 2, kind, .. }) if kind == "Foo")
    );
    fs::write(&file, format!("{good}apiVersion: v1\nkind: Pod\nmetadata: {{name: 5}}\n")).unwrap();
    assert!(matches!(server.load_yaml(&file), Err(LoadError::Refused { document: 2, .. })));
    fs::write(&file, format!("{good}apiVersion: v1\nkind: Pod\nmetadata: {{name: b}}\n")).unwrap();
    let refused = server.load_yaml(&file).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("spec.containers: Required value"), "{why}");
    fs::write(&file, format!("{good}a: [\n")).unwrap();
    assert!(matches!(server.load_yaml(&file), Err(LoadError::Parse { document: 2, .. })));
    assert!(matches!(server.load_yaml(dir.path().join("none")), Err(LoadError::Read { .. })));
}

#[test]
fn an_invalid_crd_is_rejected_and_a_raw_one_serves_no_kind() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.yaml");
    let definition =
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.g}\n";
    fs::write(&file, definition).unwrap();
    let server = ApiServer::builder().build();
    assert!(matches!(server.load_yaml(&file), Err(LoadError::Refused { document: 1, .. })));
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    assert_eq!(server.raw().load(&definitions, [json!({"metadata": {"name": "a.g"}})]).unwrap(), 1);
    assert!(!server.serves("g/v1"));
}
