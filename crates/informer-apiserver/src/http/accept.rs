//! Content negotiation by the `Accept` header.

use http::header::ACCEPT;
use http::request;

use crate::http::headers::header;
use crate::http::table::{TableForm, WithObject};
use crate::model::error::ApiError;
use crate::model::kinds::Kind;
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
    /// The Kubernetes protobuf encoding, which only built-in kinds have.
    Protobuf,
}

/// The representation of objects in a response: a form of the object itself, or a `Table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    Form(ObjectForm),
    Table(TableForm),
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
    kind: &Kind,
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
        // Custom resources and `Table` objects have no protobuf encoding.
        if encoding == Encoding::Protobuf && (kind.is_custom() || clause.transform.is_some()) {
            continue;
        }
        if let Some(shape) = shape(clause, wants, kind, include_object)? {
            return Ok((shape, encoding));
        }
    }
    let routed = clauses.iter().any(|clause| {
        encoding(clause.media).is_some() || clause.media == "application/vnd.kubernetes.protobuf"
    });
    Err(nothing_acceptable(wants, kind, routed))
}

fn shape(
    clause: &Clause<'_>,
    wants: Wants,
    kind: &Kind,
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

fn nothing_acceptable(wants: Wants, kind: &Kind, routed: bool) -> ApiError {
    const PLAIN: &str = "application/json, application/yaml";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let streams = format!("application/json;stream=watch, {PROTOBUF};stream=watch");
    if !routed && !kind.is_custom() {
        // kube-apiserver rejects the request in its router, which does not distinguish lists from watches.
        // The message for a collection therefore also offers the media types of watches.
        let more = if wants == Wants::Item { String::new() } else { format!(", {streams}") };
        let mut error = not_acceptable(&format!(
            "406: Not Acceptable\n\nAvailable representations: {PLAIN}, {PROTOBUF}{more}"
        ));
        error.details = Some(Box::default());
        return error;
    }
    let known = match (wants, kind.is_custom()) {
        (Wants::Watch, false) => streams,
        (Wants::Watch, true) => "application/json;stream=watch".to_owned(),
        (_, _) => format!("{PLAIN}, {PROTOBUF}"),
    };
    not_acceptable(&format!("only the following media types are accepted: {known}"))
}

fn not_acceptable(message: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}
