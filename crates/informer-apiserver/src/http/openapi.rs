//! OpenAPI v3: the schemas of all kinds, with the parts that clients need for validation, patches and
//! `kubectl explain`.

mod proto;
mod v2;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::header::{CACHE_CONTROL, ETAG, HeaderValue};
use http::{Response, request};
use informer_schema::{BaseType, Field, ListType, Message, Shape};
use serde_json::{Value, json};

pub(crate) use v2::v2_document;

use crate::http::Frontend;
use crate::http::body::ApiBody;
use crate::http::etag::hash;
use crate::http::response::{ApiResponse, json as json_response};
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::registry::{Registry, Resource};

pub(crate) fn v3_index(shared: &Frontend) -> ApiResponse {
    let mut paths = serde_json::Map::new();
    for (group, version) in group_versions(shared) {
        let path = path_of(&group, &version);
        let etag = etag(&shared.registry.read(), &group, &version);
        paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={etag}")}));
    }
    let mut response = json_response(200, json!({"paths": paths}).to_string());
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub(crate) fn v3_document(
    shared: &Frontend,
    head: &request::Parts,
    group: &str,
    version: &str,
) -> Result<ApiResponse, ApiError> {
    if !group_versions(shared).contains(&(group.to_owned(), version.to_owned())) {
        return Ok(empty(404));
    }
    let registry = shared.registry.read();
    let etag = etag(&registry, group, version);
    let requested_hash =
        crate::model::query::Query::parse(head.uri.query().unwrap_or_default()).text("hash").to_owned();
    if !requested_hash.is_empty() && requested_hash != etag {
        let mut response = empty(301);
        let place = format!("/openapi/v3/{}?hash={etag}", path_of(group, version));
        let place = HeaderValue::try_from(place).map_err(|_| ApiError::unknown_path())?;
        response.headers_mut().insert(http::header::LOCATION, place);
        return Ok(response);
    }
    let mut response = json_response(200, document(shared, &registry, group, version).to_string());
    let headers = response.headers_mut();
    if !requested_hash.is_empty() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    let etag = HeaderValue::try_from(format!("\"{etag}\"")).expect("hexadecimal digits are valid");
    headers.insert(ETAG, etag);
    Ok(response)
}

fn empty(status: u16) -> ApiResponse {
    let mut response = Response::new(ApiBody::whole(""));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns the entity tag of a document: a hash of the kinds from which the document is made, and of the
/// schemas of custom kinds. The fields of built-in kinds do not change while a server runs. The index
/// contains the tags of all documents, and informers request it with each list of a custom kind, so no
/// document is made for it.
fn etag(registry: &Registry, group: &str, version: &str) -> String {
    let mut text = String::new();
    for Resource { kind, .. } in in_group_version(registry, group, version) {
        let _ = writeln!(text, "{} {} {}", kind.gvr.resource, kind.kind, kind.namespaced);
        if let Some(schema) = &kind.schema {
            let _ = writeln!(text, "{}", schema.root());
        }
    }
    hash(text.as_bytes())
}

fn in_group_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Resource> {
    let resources = registry.iter().map(|resource| &**resource);
    resources.filter(move |resource| resource.kind.gvr.group == group && resource.kind.gvr.version == version)
}

fn group_versions(shared: &Frontend) -> Vec<(String, String)> {
    let groups = shared.registry.read().groups();
    let pair = |(group, versions): (String, Vec<String>)| {
        versions.into_iter().map(move |version| (group.clone(), version)).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(pair).collect()
}

fn document(shared: &Frontend, registry: &Registry, group: &str, version: &str) -> Value {
    let (mut paths, mut schemas) = (serde_json::Map::new(), BTreeMap::new());
    for Resource { kind, .. } in in_group_version(registry, group, version) {
        paths.extend(paths_of(kind));
        let gvk = json!([{"group": group, "version": version, "kind": kind.kind}]);
        if kind.is_custom() {
            let mut schema = kind.schema.as_ref().map_or_else(
                || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                |schema| schema.root().clone(),
            );
            schema["x-kubernetes-group-version-kind"] = gvk;
            for (name, text) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
                schema["properties"][name] = json!({"type": text});
            }
            schemas.insert(format!("{group}.{version}.{}", kind.kind), schema);
        } else if let Some(known) = shared.schema.kind_by_api_version(&kind.api_version, &kind.kind) {
            add(known.message(), &mut schemas);
            if let Some(schema) = schemas.get_mut(&known.message().name()) {
                schema["x-kubernetes-group-version-kind"] = gvk;
            }
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Returns the OpenAPI paths of a kind: the path of the collection and the path of an object.
fn paths_of(kind: &KindDefinition) -> [(String, Value); 2] {
    let base = path_of(&kind.gvr.group, &kind.gvr.version);
    let namespace = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    let collection = format!("/{base}/{namespace}{}", kind.gvr.resource);
    let gvk = json!({"group": kind.gvr.group, "version": kind.gvr.version, "kind": kind.kind});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<Value> =
        ["dryRun", "fieldManager", "fieldValidation", "force"].into_iter().map(parameter).collect();
    let operation = |action: &str| {
        json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        })
    };
    let item = json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete")});
    [
        (collection.clone(), json!({"get": operation("list"), "post": operation("post")})),
        (format!("{collection}/{{name}}"), item),
    ]
}

/// Adds the OpenAPI schema of a message type and of all message types that it contains.
fn add(message: Message<'_>, schemas: &mut BTreeMap<String, Value>) {
    let name = message.name();
    if schemas.contains_key(&name) {
        return;
    }
    schemas.insert(name.clone(), Value::Null);
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for field in message.fields() {
        properties.insert(field.name().to_owned(), property(field));
        if field.is_required() {
            required.push(field.name());
        }
        if let Some(part) = field.message() {
            add(part, schemas);
        }
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schemas.insert(name, schema);
}

fn property(field: Field<'_>) -> Value {
    let base = base(field.base());
    let mut property = match field.shape() {
        Shape::Value | Shape::Pointer => base,
        Shape::List => json!({"type": "array", "items": base}),
        Shape::Map => json!({"type": "object", "additionalProperties": base}),
    };
    let strategy = field.patch_strategy();
    let strategies: Vec<&str> =
        [(strategy.merge, "merge"), (strategy.retain_keys, "retainKeys"), (strategy.replace, "replace")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect();
    if !strategies.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    if let Some(key) = field.merge_key() {
        property["x-kubernetes-patch-merge-key"] = key.into();
    }
    if let Some(list) = field.list_type() {
        let (name, keys): (_, Vec<&str>) = match list {
            ListType::Atomic => ("atomic", Vec::new()),
            ListType::Set => ("set", Vec::new()),
            ListType::Map => ("map", field.list_map_keys().collect()),
        };
        property["x-kubernetes-list-type"] = name.into();
        if !keys.is_empty() {
            property["x-kubernetes-list-map-keys"] = keys.into();
        }
    }
    property
}

fn base(base: BaseType<'_>) -> Value {
    match base {
        BaseType::Bool => json!({"type": "boolean"}),
        BaseType::Int32 => json!({"type": "integer", "format": "int32"}),
        BaseType::Int64 => json!({"type": "integer", "format": "int64"}),
        BaseType::Double => json!({"type": "number", "format": "double"}),
        BaseType::Bytes => json!({"type": "string", "format": "byte"}),
        BaseType::Time | BaseType::MicroTime => json!({"type": "string", "format": "date-time"}),
        BaseType::IntOrString => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        BaseType::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        BaseType::String | BaseType::Duration => json!({"type": "string"}),
        BaseType::Strings => json!({"type": "array", "items": {"type": "string"}}),
        // OpenAPI v3.0 ignores siblings of `$ref`, so a reference with siblings is wrapped in `allOf`.
        BaseType::Message(message) => {
            json!({"allOf": [{"$ref": format!("#/components/schemas/{}", message.name())}]})
        }
        _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
    }
}

#[cfg(test)]
mod tests;
