//! OpenAPI v2, for clients that do not support v3: one document with all kinds, as JSON or protobuf.

use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use http::request;
use serde_json::{Map, Value, json};

use super::super::headers::header;
use super::super::response::{ApiResponse, json as json_response};
use super::{document, empty, group_versions, proto};
use crate::http::Frontend;
use crate::http::etag::hash;

/// Returns the OpenAPI v2 document. Its schemas are those of v3 without the parts that v2 cannot express.
pub(crate) fn v2_document(shared: &Frontend, head: &request::Parts) -> ApiResponse {
    let Some(protobuf) = wants_protobuf(header(head, ACCEPT)) else {
        let mut response = empty(406);
        vary(&mut response);
        return response;
    };
    let document = merged(shared);
    let etag = hash(document.to_string().as_bytes());
    let mut response = if protobuf {
        json_response(200, proto::encode(&document))
    } else {
        json_response(200, document.to_string())
    };
    let headers = response.headers_mut();
    if protobuf {
        let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let etag = HeaderValue::try_from(format!("\"{etag}\"")).expect("hexadecimal digits are valid");
    headers.insert(ETAG, etag);
    vary(&mut response);
    response
}

fn vary(response: &mut ApiResponse) {
    for name in ["Accept-Encoding", "Accept"] {
        response.headers_mut().append(VARY, HeaderValue::from_static(name));
    }
}

/// Returns true if the client prefers protobuf, false for JSON, and `None` if it accepts neither.
fn wants_protobuf(accept: &str) -> Option<bool> {
    if accept.is_empty() {
        return Some(false);
    }
    let clauses = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    clauses.into_iter().find_map(|clause| match clause {
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" => Some(true),
        "*/*" | "application/*" | "application/json" => Some(false),
        _ => None,
    })
}

fn merged(shared: &Frontend) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for (group, version) in group_versions(shared) {
        let document = document(shared, &shared.registry.read(), &group, &version);
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            let mut schema = schema.clone();
            if is_custom(name, &group, &version) {
                simplify_crd_schema(&mut schema);
            }
            convert_schema(&mut schema);
            definitions.insert(definition(name, &group, &version), schema);
        }
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            paths.insert(path.clone(), convert_path(item));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "definitions": definitions,
    })
}

fn is_custom(name: &str, group: &str, version: &str) -> bool {
    name.strip_prefix(group).is_some_and(|rest| rest.starts_with(&format!(".{version}.")))
}

/// Returns the name of a schema in the OpenAPI v2 document. As in kube-apiserver, schemas of CRDs are named
/// by their reversed group.
fn definition(name: &str, group: &str, version: &str) -> String {
    if is_custom(name, group, version) {
        let reversed: Vec<&str> = group.rsplit('.').collect();
        format!("{}{}", reversed.join("."), &name[group.len()..])
    } else {
        name.to_owned()
    }
}

/// Removes the parts of a CRD's schema that OpenAPI v2 cannot express. Every object that is valid against the
/// original schema is also valid against the result.
fn simplify_crd_schema(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    for name in ["oneOf", "anyOf", "allOf", "not", "default", "x-kubernetes-validations"] {
        members.remove(name);
    }
    let preserves = members.get("x-kubernetes-preserve-unknown-fields").is_some_and(|flag| *flag == true);
    let free = members.get("x-kubernetes-int-or-string").is_some_and(|flag| *flag == true)
        || members.remove("nullable").is_some_and(|flag| flag == true)
        || preserves && !members.contains_key("x-kubernetes-group-version-kind");
    if free {
        members.retain(|name, _| name.starts_with("x-kubernetes"));
        return;
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    let mut nullable = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        if property["nullable"] == true {
            nullable.push(Value::from(name.as_str()));
        }
        simplify_crd_schema(property);
    }
    if let Some(required) = members.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !nullable.contains(name));
        if required.is_empty() {
            members.remove("required");
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(part) = members.get_mut(name) {
            simplify_crd_schema(part);
        }
    }
}

fn convert_schema(schema: &mut Value) {
    let reference = schema["allOf"][0]["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    if let Some(name) = reference {
        let path = format!("#/definitions/{name}");
        replace(schema, "allOf", &[("$ref", path.into())]);
    } else if schema.get("oneOf").is_some() {
        // The schemas of IntOrString and Quantity: OpenAPI v2 has no `oneOf`, so they become strings.
        replace(schema, "oneOf", &[("type", "string".into())]);
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(convert_nested),
        Value::Array(items) => items.iter_mut().for_each(convert_schema),
        _ => {}
    }
}

fn convert_nested(value: &mut Value) {
    if value.is_object() || value.is_array() {
        convert_schema(value);
    }
}

fn replace(schema: &mut Value, taken: &str, put: &[(&str, Value)]) {
    if let Some(members) = schema.as_object_mut() {
        members.remove(taken);
        members.extend(put.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
}

fn convert_path(item: &Value) -> Value {
    let mut item = item.clone();
    for (verb, operation) in item.as_object_mut().into_iter().flatten() {
        let consumes = match verb.as_str() {
            "patch" => json!([
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ]),
            _ => json!(["*/*"]),
        };
        operation["consumes"] = consumes;
        operation["produces"] =
            json!(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]);
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let schema = parameter.as_object_mut().and_then(|members| members.remove("schema"));
            for (name, value) in schema.as_ref().and_then(Value::as_object).into_iter().flatten() {
                parameter[name] = value.clone();
            }
        }
    }
    item
}
