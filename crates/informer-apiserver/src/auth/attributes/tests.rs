use http::Method;

use super::Attributes;
use crate::model::query::Query;

/// Verb, resource and name of a request, as roles see it.
fn asked(method: &str, path: &str, query: &str) -> (String, String, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let Attributes { verb, resource, name, .. } = Attributes::of_request(&method, path, &Query::parse(query));
    (verb, resource, name)
}

fn is(verb: &str, resource: &str, name: &str) -> (String, String, String) {
    (verb.to_owned(), resource.to_owned(), name.to_owned())
}

const PODS: &str = "/api/v1/namespaces/n/pods";

#[test]
fn a_selector_names_what_is_read_and_nothing_that_is_written() {
    let selector = "fieldSelector=metadata.name%3Dweb";
    assert_eq!(asked("GET", PODS, selector), is("list", "pods", "web"));
    assert_eq!(asked("GET", PODS, &format!("{selector}&watch=1")), is("watch", "pods", "web"));
    assert_eq!(asked("POST", PODS, selector), is("create", "pods", ""));
    assert_eq!(asked("DELETE", PODS, selector), is("deletecollection", "pods", ""));
}

#[test]
fn a_selector_is_read_as_the_list_reads_it() {
    let named = |selector: &str| asked("GET", PODS, &format!("fieldSelector={selector}")).2;
    assert_eq!(named("metadata.name%3D%3Dweb"), "web");
    assert_eq!(named("status.phase%3DRunning,metadata.name%3Dweb"), "web");
    assert_eq!(named("metadata.name!%3Dweb"), "");
}

#[test]
fn a_legacy_path_is_watched_also_where_it_names_an_object() {
    let path = "/api/v1/watch/namespaces/n/pods";
    assert_eq!(asked("GET", path, ""), is("watch", "pods", ""));
    assert_eq!(asked("GET", &format!("{path}/web"), ""), is("watch", "pods", "web"));
}
