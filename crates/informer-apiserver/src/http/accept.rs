//! Content negotiation by the `Accept` header.

use http::header::ACCEPT;
use http::request;

use crate::http::response::header;
use crate::http::table::{TableForm, WithObject};
use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::registry::storage::Form;

/// The content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    Item,
    List,
    Watch,
}

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    /// Protobuf, which only built-in kinds support.
    Protobuf,
}

/// The representation of objects: as a form of the object, or as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Form(Form),
    Table(TableForm),
}

/// A clause of the `Accept` header.
struct Clause<'a> {
    media: &'a str,
    transform: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
    quality: f32,
}

/// Returns the clauses by descending quality.
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

/// Returns the encoding of errors and non-resource responses.
pub(crate) fn plain_encoding(head: &request::Parts) -> Encoding {
    let accept = header(head, ACCEPT);
    clauses(accept).iter().find_map(|clause| encoding(clause.media)).unwrap_or(Encoding::Json)
}

/// Returns true if errors are indented: kube-apiserver does so if every clause requests a transformation
/// (`as=`).
pub(crate) fn indents_errors(head: &request::Parts) -> bool {
    let accept = header(head, ACCEPT);
    !accept.is_empty() && clauses(accept).iter().all(|clause| clause.transform.is_some())
}

/// Returns the shape and the encoding of the first acceptable clause of the `Accept` header.
pub(crate) fn negotiate(
    head: &request::Parts,
    wants: Wants,
    kind: &Kind,
    include_object: &str,
) -> Result<(Shape, Encoding), ApiError> {
    let accept = header(head, ACCEPT);
    if accept.is_empty() {
        return Ok((Shape::Form(Form::Object), Encoding::Json));
    }
    let clauses = clauses(accept);
    let streams = |media: &str| wants != Wants::Watch || media != "application/yaml";
    for clause in &clauses {
        let Some(encoding) = encoding(clause.media).filter(|_| streams(clause.media)) else { continue };
        // Custom resources and tables have no protobuf encoding.
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
    include_object: &str,
) -> Result<Option<Shape>, ApiError> {
    let meta = clause.group == Some("meta.k8s.io");
    let v1 = meta && clause.version == Some("v1");
    let beta = meta && clause.version == Some("v1beta1");
    match clause.transform {
        None => Ok(Some(Shape::Form(Form::Object))),
        Some("Table") if v1 || beta => {
            Ok(Some(Shape::Table(TableForm { beta, with: WithObject::parse(include_object)? })))
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
            Ok(Some(Shape::Form(Form::Metadata)))
        }
        Some(_) => Ok(None),
    }
}

fn nothing_acceptable(wants: Wants, kind: &Kind, routed: bool) -> ApiError {
    const PLAIN: &str = "application/json, application/yaml";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let streams = format!("application/json;stream=watch, {PROTOBUF};stream=watch");
    if !routed && !kind.is_custom() {
        // kube-apiserver's router rejects the request before the handler. For it, a GET of a collection may
        // be a list or a watch.
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
