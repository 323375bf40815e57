//! Discovery (legacy and aggregated), and the version and health endpoints.

use std::sync::Arc;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Method, request};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::Frontend;
use crate::http::etag::hash;
use crate::http::headers::header;
use crate::http::response::{ApiResponse, json as json_response, text};
use crate::model::error::ApiError;
use crate::model::kinds::{KindDefinition, Subresource};
use crate::registry::{GroupKnown, Registry, Resource};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERSION: &str = r#"{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.3+embedded",
  "gitCommit": "",
  "gitTreeState": "clean",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "linux/amd64"
}
"#;

pub(crate) fn respond(
    shared: &Arc<Frontend>,
    head: &request::Parts,
    segments: &[String],
) -> Result<ApiResponse, ApiError> {
    let whole = shared.aggregated_discovery && wants_aggregated(head);
    let registry = shared.registry.read();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let reads = match head.method {
        Method::GET => true,
        Method::HEAD => is_read_by_head(&registry, &segments),
        _ => false,
    };
    if !reads {
        return Err(ApiError::method_not_allowed());
    }
    match segments[..] {
        ["version"] => Ok(json_response(200, VERSION)),
        ["healthz" | "livez" | "readyz"] => Ok(unsniffed(health(head, segments[0]))),
        ["healthz" | "livez" | "readyz", "ping"] => Ok(unsniffed(text(200, "ok"))),
        ["api"] if whole => Ok(aggregated(&registry, head, true)),
        ["apis"] if whole => Ok(aggregated(&registry, head, false)),
        ["api"] => Ok(legacy(&json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": header(head, HOST)}],
        }))),
        ["apis"] => {
            let groups: Vec<Value> =
                groups(&registry).map(|(group, versions)| group_json(&group, &versions)).collect();
            Ok(legacy(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
        }
        ["apis", group] => groups(&registry)
            .find(|(name, _)| name == group)
            .map(|(name, versions)| {
                let mut json = json!({"kind": "APIGroup", "apiVersion": "v1"});
                merge(&mut json, group_json(&name, &versions));
                legacy(&json)
            })
            .ok_or_else(ApiError::unknown_path),
        ["openapi", "v2"] => {
            drop(registry);
            Ok(crate::http::openapi::v2_document(shared, head))
        }
        ["openapi", "v3"] => {
            drop(registry);
            Ok(crate::http::openapi::v3_index(shared))
        }
        ["openapi", "v3", "api", version] => {
            drop(registry);
            crate::http::openapi::v3_document(shared, head, "", version)
        }
        ["openapi", "v3", "apis", group, version] => {
            drop(registry);
            crate::http::openapi::v3_document(shared, head, group, version)
        }
        ["api", version] => resources(&registry, "", version),
        ["apis", group, version] => resources(&registry, group, version),
        _ => Err(ApiError::unknown_path()),
    }
}

/// Returns true for paths where HEAD is handled like GET. kube-apiserver's handlers of these paths ignore the
/// method.
fn is_read_by_head(registry: &Registry, segments: &[&str]) -> bool {
    match segments {
        ["healthz" | "livez" | "readyz" | "openapi", ..] | ["apis"] | ["apis", _] => true,
        ["apis", group, _] => !matches!(registry.group(group), GroupKnown::BuiltIn),
        _ => false,
    }
}

fn unsniffed(mut response: ApiResponse) -> ApiResponse {
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn health(head: &request::Parts, check: &str) -> ApiResponse {
    if head.uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("verbose"))) {
        text(200, format!("[+]ping ok\n{check} check passed\n"))
    } else {
        text(200, "ok")
    }
}

fn legacy(json: &Value) -> ApiResponse {
    json_response(200, format!("{json}\n"))
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn groups(registry: &Registry) -> impl Iterator<Item = (String, Vec<String>)> {
    registry.groups().into_iter().filter(|(group, _)| !group.is_empty())
}

fn group_json(group: &str, versions: &[String]) -> Value {
    let version =
        |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

fn of_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    registry.iter().filter(move |resource| {
        let gvr = &resource.kind.gvr;
        gvr.group == group && gvr.version == version
    })
}

fn resources(registry: &Registry, group: &str, version: &str) -> Result<ApiResponse, ApiError> {
    let mut list = Vec::new();
    for Resource { kind, .. } in of_version(registry, group, version).map(|resource| &**resource) {
        list.push(json!(LegacyResource {
            name: kind.gvr.resource.clone(),
            singular_name: &kind.singular,
            namespaced: kind.namespaced,
            kind: &kind.kind,
            verbs: kind.verbs(),
            short_names: &kind.short_names,
            categories: &kind.categories,
            storage_version_hash: kind.storage_hash,
        }));
        for sub in kind.subresources() {
            let mut resource = json!(LegacyResource {
                name: format!("{}/{}", kind.gvr.resource, sub.name),
                singular_name: "",
                namespaced: kind.namespaced,
                kind: sub.of.map_or(kind.kind.as_str(), |of| of.kind),
                verbs: sub.verbs,
                short_names: &[],
                categories: &[],
                storage_version_hash: "",
            });
            if let Some(of) = sub.of.filter(|of| of.foreign) {
                resource["group"] = of.group.into();
                resource["version"] = of.version.into();
            }
            list.push(resource);
        }
    }
    match (list.is_empty(), group) {
        (true, group) if registry.group(group) == crate::registry::GroupKnown::BuiltIn => {
            Err(ApiError::unknown_resource())
        }
        (true, _) => Err(ApiError::unknown_path()),
        (false, "") => {
            Ok(legacy(&json!({"kind": "APIResourceList", "groupVersion": version, "resources": list})))
        }
        (false, group) => Ok(legacy(&json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"),
            "resources": list,
        }))),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    kind: &'a str,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    storage_version_hash: &'a str,
}

fn wants_aggregated(head: &request::Parts) -> bool {
    header(head, ACCEPT).split(',').any(|clause| {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let wanted = ["application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
        wanted.iter().all(|part| parts.contains(part))
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource<'a> {
    resource: &'a str,
    response_kind: Value,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Value>,
}

fn aggregated(registry: &Registry, head: &request::Parts, core: bool) -> ApiResponse {
    let groups = registry.groups().into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> =
        groups.map(|(group, versions)| aggregated_group(registry, &group, &versions)).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let body = format!("{list}\n");
    let etag = format!("\"{}\"", hash(body.as_bytes()));
    let unchanged = header(head, IF_NONE_MATCH) == etag;
    let mut response = if unchanged { json_response(304, "") } else { json_response(200, body) };
    let headers = response.headers_mut();
    if unchanged {
        headers.remove(CONTENT_TYPE)
    } else {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED))
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::try_from(etag).expect("hexadecimal digits are valid"));
    response
}

fn aggregated_group(registry: &Registry, group: &str, versions: &[String]) -> Value {
    let version = |version: &String| {
        let resources: Vec<Value> = of_version(registry, group, version)
            .map(|resource| aggregated_resource(&resource.kind))
            .collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    };
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions.iter().map(version).collect::<Vec<_>>()})
}

fn aggregated_resource(kind: &KindDefinition) -> Value {
    // The discovery document of a built-in kind omits a group and version that equal those of the document.
    let (group, version) =
        if kind.is_custom() { (kind.gvr.group.as_str(), kind.gvr.version.as_str()) } else { ("", "") };
    let response_kind = json!({"group": group, "version": version, "kind": kind.kind});
    let subresource = |sub: Subresource| {
        let kind = match sub.of {
            Some(of) if of.foreign => {
                json!({"group": of.group, "version": of.version, "kind": of.kind})
            }
            Some(of) => json!({"group": group, "version": version, "kind": of.kind}),
            None => response_kind.clone(),
        };
        json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
    };
    let subresources = kind.subresources().into_iter().map(subresource).collect();
    json!(AggregatedResource {
        resource: &kind.gvr.resource,
        response_kind: response_kind.clone(),
        scope: if kind.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &kind.singular,
        verbs: kind.verbs(),
        short_names: &kind.short_names,
        categories: &kind.categories,
        subresources,
    })
}
