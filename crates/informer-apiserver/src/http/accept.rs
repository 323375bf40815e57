//! Content negotiation by the `Accept` header.

use http::header::ACCEPT;
use http::{Method, request};
use serde_json::{Value, json};

use crate::http::headers::header;
use crate::http::table::{TableForm, WithObject};
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::registry::storage::ObjectForm;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    Item,
    List,
    Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    /// The Kubernetes protobuf encoding. Custom resources have it only as `PartialObjectMetadata`.
    Protobuf,
}

/// The representation of objects in a response: a form of the object itself, or a `Table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    Form(ObjectForm),
    Table(TableForm),
}

impl ResponseForm {
    /// Returns an object, or only its metadata if the client asked for that.
    pub(crate) fn render(self, object: Value) -> Value {
        match self {
            Self::Form(ObjectForm::Metadata) => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            }),
            _ => object,
        }
    }
}

struct Clause<'a> {
    media: &'a str,
    transform: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
    quality: f32,
}

/// Parses the `Accept` header. Returns its media types by descending quality.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let mut read = Clause { media, transform: None, group: None, version: None, quality: 1.0 };
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name {
                    "as" => read.transform = Some(value),
                    "g" => read.group = Some(value),
                    "v" => read.version = Some(value),
                    "q" => read.quality = value.parse().unwrap_or(1.0),
                    _ => {}
                }
            }
            read
        })
        .collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    clauses
}

fn encoding(media: &str) -> Option<Encoding> {
    match media {
        "application/json" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
        _ => None,
    }
}

/// Returns the encoding for errors and for non-resource responses.
pub(crate) fn plain_encoding(head: &request::Parts) -> Encoding {
    let accept = header(head, ACCEPT);
    clauses(accept).iter().find_map(|clause| encoding(clause.media)).unwrap_or(Encoding::Json)
}

/// Returns true if error responses are indented. As in kube-apiserver, they are if every media type in
/// `Accept` requests a transformation (`as=`).
pub(crate) fn indents_errors(head: &request::Parts) -> bool {
    let accept = header(head, ACCEPT);
    !accept.is_empty() && clauses(accept).iter().all(|clause| clause.transform.is_some())
}

/// Returns the representation and the encoding of the first acceptable media type in the `Accept` header.
/// `include_object` is the query parameter `includeObject`, or `None` if the response cannot be a `Table`.
pub(crate) fn negotiate(
    head: &request::Parts,
    wants: Wants,
    kind: &KindDefinition,
    include_object: Option<&str>,
) -> Result<(ResponseForm, Encoding), ApiError> {
    let accept = header(head, ACCEPT);
    if accept.is_empty() {
        return Ok((ResponseForm::Form(ObjectForm::Object), Encoding::Json));
    }
    let clauses = clauses(accept);
    let streams = |media: &str| wants != Wants::Watch || media != "application/yaml";
    for clause in &clauses {
        let Some(encoding) = encoding(clause.media).filter(|_| streams(clause.media)) else { continue };
        if encoding == Encoding::Protobuf && !has_protobuf(kind, clause.transform) {
            continue;
        }
        if let Some(shape) = shape(clause, wants, kind, include_object)? {
            return Ok((shape, encoding));
        }
    }
    let routed = clauses.iter().any(|clause| encoding(clause.media).is_some());
    // If a watch requests YAML, kube-apiserver accepts the media type and then rejects it for the stream. Its
    // error lists the media types of streams.
    let streamed = wants == Wants::Watch && clauses.iter().any(|clause| clause.media == "application/yaml");
    // kube-apiserver rejects some requests in its router, which does not distinguish lists from watches.
    let may_watch = wants != Wants::Item && head.method != Method::DELETE;
    Err(if routed || kind.is_custom() { not_encodable(streamed) } else { not_routed(may_watch) })
}

/// Returns true if objects of a kind have a protobuf encoding in this representation (`as=`).
fn has_protobuf(kind: &KindDefinition, transform: Option<&str>) -> bool {
    match transform {
        None => !kind.is_custom(),
        Some(transform) => transform != "Table",
    }
}

fn shape(
    clause: &Clause<'_>,
    wants: Wants,
    kind: &KindDefinition,
    include_object: Option<&str>,
) -> Result<Option<ResponseForm>, ApiError> {
    let meta = clause.group == Some("meta.k8s.io");
    let v1 = meta && clause.version == Some("v1");
    let beta = meta && clause.version == Some("v1beta1");
    match clause.transform {
        None => Ok(Some(ResponseForm::Form(ObjectForm::Object))),
        Some("Table") if v1 || beta => {
            let with = include_object.map(WithObject::parse).transpose()?;
            Ok(with.map(|with| ResponseForm::Table(TableForm { beta, with })))
        }
        Some(transform @ "PartialObjectMetadata") if v1 && wants == Wants::List => {
            let name = &kind.list_kind;
            Err(not_acceptable(&format!(
                "you requested {transform}, but the requested object is a list (*{}.{name})",
                kind.go_package()
            )))
        }
        Some(transform @ "PartialObjectMetadataList") if v1 && wants == Wants::Item => {
            let name = &kind.kind;
            Err(not_acceptable(&format!(
                "you requested {transform}, but the requested object is not a list (*{}.{name})",
                kind.go_package()
            )))
        }
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") if v1 => {
            Ok(Some(ResponseForm::Form(ObjectForm::Metadata)))
        }
        Some(_) => Ok(None),
    }
}

const ENCODINGS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Returns the error of kube-apiserver's router for a request whose media types are all unknown.
fn not_routed(may_watch: bool) -> ApiError {
    let more = if may_watch { format!(", {STREAMS}") } else { String::new() };
    let mut error =
        not_acceptable(&format!("406: Not Acceptable\n\nAvailable representations: {ENCODINGS}{more}"));
    error.details = Some(Box::default());
    error
}

/// Returns the error for a request whose representation has none of the requested encodings.
fn not_encodable(streamed: bool) -> ApiError {
    let known = if streamed { STREAMS } else { ENCODINGS };
    not_acceptable(&format!("only the following media types are accepted: {known}"))
}

fn not_acceptable(message: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}
