use http::Method;

use super::AuthorizationAttributes;
use crate::model::query::Query;

/// Returns the verb, resource and name that authorization derives from a request.
fn attributes(method: &str, path: &str, query: &str) -> (String, String, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let AuthorizationAttributes { verb, resource, name, .. } =
        AuthorizationAttributes::of_request(&method, path, &Query::parse(query));
    (verb, resource, name)
}

fn expected(verb: &str, resource: &str, name: &str) -> (String, String, String) {
    (verb.to_owned(), resource.to_owned(), name.to_owned())
}

const PODS: &str = "/api/v1/namespaces/n/pods";

#[test]
fn metadata_name_selector_sets_the_name_of_reads_only() {
    let selector = "fieldSelector=metadata.name%3Dweb";
    assert_eq!(attributes("GET", PODS, selector), expected("list", "pods", "web"));
    assert_eq!(attributes("GET", PODS, &format!("{selector}&watch=1")), expected("watch", "pods", "web"));
    assert_eq!(attributes("POST", PODS, selector), expected("create", "pods", ""));
    assert_eq!(attributes("DELETE", PODS, selector), expected("deletecollection", "pods", ""));
}

#[test]
fn name_is_taken_from_equality_requirements_only() {
    let named = |selector: &str| attributes("GET", PODS, &format!("fieldSelector={selector}")).2;
    assert_eq!(named("metadata.name%3D%3Dweb"), "web");
    assert_eq!(named("status.phase%3DRunning,metadata.name%3Dweb"), "web");
    assert_eq!(named("metadata.name!%3Dweb"), "");
}

#[test]
fn legacy_watch_path_with_a_name_is_a_watch() {
    let path = "/api/v1/watch/namespaces/n/pods";
    assert_eq!(attributes("GET", path, ""), expected("watch", "pods", ""));
    assert_eq!(attributes("GET", &format!("{path}/web"), ""), expected("watch", "pods", "web"));
}

#[test]
fn empty_segments_count_as_those_of_the_path() {
    assert_eq!(attributes("GET", "//api/v1/namespaces/n/pods///", ""), expected("list", "pods", ""));
    assert_eq!(attributes("GET", "/api/v1/namespaces//pods/web", ""), expected("get", "pods", "web"));
    assert_eq!(
        attributes("DELETE", &format!("{PODS}//status"), ""),
        expected("deletecollection", "pods/status", "")
    );
    assert_eq!(attributes("GET", "/api//v1/pods", ""), expected("get", "v1", "pods"));
    assert_eq!(
        attributes("POST", &format!("{PODS}/web/proxy//a"), ""),
        expected("create", "pods/proxy", "web")
    );
}
