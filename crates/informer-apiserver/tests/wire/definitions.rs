//! CRDs with conflicting names.

use std::sync::Arc;

use informer_apiserver::{ApiServer, KindDefinition};
use serde_json::{Value, json};

use crate::support::{Watch, call, json as ask};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, kind: &str) -> String {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "singular": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
    .to_string()
}

async fn condition(server: &ApiServer, plural: &str, kind: &str) -> (String, String) {
    let (_, definition) = ask(server, "GET", &format!("{DEFINITIONS}/{plural}.example.com"), "").await;
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

async fn is_served(server: &ApiServer, plural: &str) -> bool {
    let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
    call(server, "GET", &path, "").await.0 == 200
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn a_crd_with_the_kind_of_another_is_established_after_that_is_deleted() {
    let server = ApiServer::builder().build();
    assert_eq!(call(&server, "POST", DEFINITIONS, &definition("firsts", "Gadget")).await.0, 201);
    assert_eq!(call(&server, "POST", DEFINITIONS, &definition("seconds", "Gadget")).await.0, 201);
    assert_eq!(condition(&server, "seconds", "NamesAccepted").await, pair("False", "ListKindConflict"));
    assert_eq!(condition(&server, "seconds", "Established").await, pair("False", "NotAccepted"));
    assert!(is_served(&server, "firsts").await && !is_served(&server, "seconds").await);
    let mut watch = Watch::open(&server, &format!("{DEFINITIONS}?watch=1")).await;
    assert_eq!(call(&server, "DELETE", &format!("{DEFINITIONS}/firsts.example.com"), "").await.0, 200);
    assert_eq!(condition(&server, "seconds", "NamesAccepted").await, pair("True", "NoConflicts"));
    assert_eq!(condition(&server, "seconds", "Established").await, pair("True", "InitialNamesAccepted"));
    assert!(is_served(&server, "seconds").await && !is_served(&server, "firsts").await);
    let mut told = Vec::new();
    while told.last().is_none_or(|last: &String| last != "MODIFIED seconds.example.com Installing") {
        let event: Value = serde_json::from_str(&watch.line().await.unwrap()).unwrap();
        let (name, reason) =
            (&event["object"]["metadata"]["name"], &event["object"]["status"]["conditions"][1]["reason"]);
        told.push(format!(
            "{} {} {}",
            event["type"].as_str().unwrap(),
            name.as_str().unwrap(),
            reason.as_str().unwrap()
        ));
    }
    let established = watch.line().await.unwrap();
    assert!(
        established.contains("InitialNamesAccepted"),
        "the names are accepted before the CRD is established: {established}"
    );
}

#[tokio::test]
async fn deleting_a_crd_that_is_not_established_keeps_the_other_crd() {
    let server = ApiServer::builder().build();
    server.register(KindDefinition::custom("example.com", "v1", "Second"));
    call(&server, "POST", DEFINITIONS, &definition("firsts", "Gadget")).await;
    call(&server, "POST", DEFINITIONS, &definition("seconds", "Gadget")).await;
    let object = json!({"apiVersion": "example.com/v1", "kind": "Second", "metadata": {"name": "a"}});
    let path = "/apis/example.com/v1/namespaces/default/seconds";
    assert_eq!(call(&server, "POST", path, &object.to_string()).await.0, 201);
    assert_eq!(call(&server, "DELETE", &format!("{DEFINITIONS}/seconds.example.com"), "").await.0, 200);
    assert_eq!(call(&server, "GET", &format!("{DEFINITIONS}/seconds.example.com"), "").await.0, 404);
    assert_eq!(call(&server, "GET", &format!("{path}/a"), "").await.0, 200);
}

#[tokio::test]
async fn a_crd_that_is_not_established_stays_so_after_a_restore() {
    let server = ApiServer::builder().build();
    call(&server, "POST", DEFINITIONS, &definition("firsts", "Gadget")).await;
    call(&server, "POST", DEFINITIONS, &definition("seconds", "Gadget")).await;
    let other = ApiServer::builder().build();
    other.restore(server.snapshot()).unwrap();
    assert!(is_served(&other, "firsts").await && !is_served(&other, "seconds").await);
    call(&other, "DELETE", &format!("{DEFINITIONS}/firsts.example.com"), "").await;
    assert!(is_served(&other, "seconds").await);
}

#[tokio::test]
async fn names_given_up_by_a_crd_are_accepted_for_another() {
    let server = ApiServer::builder().build();
    for plural in ["firsts", "seconds", "thirds"] {
        call(&server, "POST", DEFINITIONS, &definition(plural, "Gadget")).await;
    }
    assert!(!is_served(&server, "seconds").await && !is_served(&server, "thirds").await);
    let other = json!({"spec": {"names": {"kind": "Second", "listKind": "SecondList"}}}).to_string();
    let uri = format!("{DEFINITIONS}/seconds.example.com");
    let headers = [("content-type", "application/merge-patch+json")];
    assert_eq!(crate::support::send_with(&server, "PATCH", &uri, &headers, &other).await.status(), 200);
    assert!(is_served(&server, "seconds").await && !is_served(&server, "thirds").await);
    call(&server, "DELETE", &format!("{DEFINITIONS}/firsts.example.com"), "").await;
    assert!(is_served(&server, "thirds").await);
}

#[test]
fn one_of_many_concurrent_crds_gets_the_name() {
    let server = Arc::new(ApiServer::builder().build());
    let gvr = informer_core::Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (server, gvr) = (Arc::clone(&server), &gvr);
            scope.spawn(move || {
                for index in 0..8 {
                    let definition = definition(&format!("t{thread}x{index}"), &format!("Kind{index}"));
                    server.create(gvr, "", serde_json::from_str(&definition).unwrap()).unwrap();
                }
            });
        }
    });
    let all = server.list(&gvr, "").unwrap();
    let established = |definition: &&Value| definition["status"]["conditions"][1]["status"] == "True";
    let mut kinds: Vec<&str> = all
        .iter()
        .filter(established)
        .map(|definition| definition["status"]["acceptedNames"]["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, (0..8).map(|index| format!("Kind{index}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_crd_with_the_name_of_a_built_in_resource_does_not_replace_it() {
    let server = ApiServer::builder().build();
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let spec = json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": spec}).to_string();
    assert_eq!(call(&server, "POST", ingresses, &ingress).await.0, 201);
    let mut same: Value = serde_json::from_str(&definition("ingresses", "Ingress")).unwrap();
    let name = "ingresses.networking.k8s.io";
    same["metadata"]["name"] = name.into();
    same["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved"});
    same["spec"]["group"] = "networking.k8s.io".into();
    assert_eq!(call(&server, "POST", DEFINITIONS, &same.to_string()).await.0, 201);
    let refused = json!({"metadata": {"name": "x"}}).to_string();
    assert_eq!(call(&server, "POST", ingresses, &refused).await.0, 422, "the built-in validation remains");
    assert_eq!(call(&server, "DELETE", &format!("{DEFINITIONS}/{name}"), "").await.0, 200);
    assert_eq!(call(&server, "GET", &format!("{ingresses}/i"), "").await.0, 200);
}

#[tokio::test]
async fn the_history_of_deleted_kinds_is_removed() {
    const BYTES: usize = 100_000;
    let server = ApiServer::builder().build();
    for round in 0..40 {
        let plural = format!("things{round}");
        assert_eq!(
            call(&server, "POST", DEFINITIONS, &definition(&plural, &format!("Thing{round}"))).await.0,
            201
        );
        let note = json!({"note": "x".repeat(BYTES)});
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": format!("Thing{round}"), "metadata": {"name": "a", "annotations": note},
        });
        let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
        assert_eq!(call(&server, "POST", &path, &thing.to_string()).await.0, 201);
        assert_eq!(call(&server, "DELETE", &format!("{DEFINITIONS}/{plural}.example.com"), "").await.0, 200);
        server.controllers_idle().await;
    }
    let kept = server.usage().history_bytes;
    assert!(kept < 40 * BYTES, "the history of deleted kinds has {kept} bytes");
}
