//! Validation of the metadata and the name of an object of a given kind.

use informer_schema::Schema;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::json::{Object, json_type};
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::object_meta::{
    field_causes, finalizer_causes, finalizers, metadata_of_mut, owner_references_causes, text,
    unqualified_finalizer_causes,
};
use crate::model::rules::path_segment_problems;
use crate::model::write_options::WriteMode;

/// Rejects an object whose namespace differs from that of the request, for example after a webhook changed
/// it.
pub(crate) fn check_namespace(namespace: Option<&str>, object: &Object) -> Result<(), ApiError> {
    match (namespace, text(object, "namespace")) {
        (Some(namespace), named) if !named.is_empty() && named != namespace => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(()),
    }
}

/// Sets the namespace of an object to that of the request, or removes it if the request has none. Returns 400
/// if the object has another namespace than the request.
pub(crate) fn set_namespace(namespace: Option<&str>, object: &mut Object) -> Result<(), ApiError> {
    check_namespace(namespace, object)?;
    match namespace {
        Some(namespace) => {
            metadata_of_mut(object).insert("namespace".into(), namespace.into());
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("namespace");
            }
        }
    }
    Ok(())
}

/// Returns the `metadata.resourceVersion` of an object; `None` if it is empty or 0.
pub(crate) fn version(object: &Object) -> Result<Option<u64>, ApiError> {
    match parse_version(text(object, "resourceVersion")) {
        Ok(version) => Ok(version.filter(|version| *version > 0)),
        // As in kube-apiserver, the error is that of Go's `strconv` without the name of the field.
        Err(message) => {
            let why =
                message.split_once(": strconv").map_or(message.clone(), |(_, why)| format!("strconv{why}"));
            Err(ApiError::new(500, "", why))
        }
    }
}

/// Checks that the kind, version and namespace of an object are those of the request, and sets them if they
/// are missing.
pub(crate) fn checked(
    schema: &Schema,
    kind: &KindDefinition,
    namespace: Option<&str>,
    object: Value,
) -> Result<Object, ApiError> {
    let Value::Object(mut object) = object else {
        return Err(cannot_be_handled(
            kind,
            &format!("json: cannot unmarshal {} into Go value", json_type(&object)),
        ));
    };
    if kind.is_custom() {
        check_custom_type(kind, &object)?;
    } else {
        BodyType::of(kind).check(schema, &object)?;
    }
    check_metadata(kind, object.get("metadata"))?;
    if object.get("metadata").is_none_or(Value::is_null) {
        object.insert("metadata".into(), Value::Object(Map::new()));
    }
    metadata_of_mut(&mut object).retain(|_, value| !value.is_null());
    set_namespace(namespace.filter(|_| kind.namespaced), &mut object)?;
    object.insert("kind".into(), kind.kind.clone().into());
    object.insert("apiVersion".into(), kind.api_version.clone().into());
    Ok(object)
}

fn check_custom_type(kind: &KindDefinition, object: &Object) -> Result<(), ApiError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (found, api_version) = (text("kind"), text("apiVersion"));
    if !api_version.is_empty() && api_version != kind.api_version {
        return Err(ApiError::bad_request(unexpected_version(api_version, &kind.api_version)));
    }
    match found {
        found if found == kind.kind => Ok(()),
        "" => {
            let body = Value::Object(object.clone()).to_string();
            let (shown, wanted) = (crate::model::json::excerpt(body.as_bytes()), &kind.kind);
            Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {wanted}): Object 'Kind' is missing in \
                 '{body}' ({shown})"
            )))
        }
        found => {
            let cause = Cause::invalid("kind", &format!("{found:?}"), &format!("must be {}", kind.kind));
            let given = KindDefinition { kind: found.to_owned(), ..kind.clone() };
            Err(ApiError::invalid(&given, crate::model::object_meta::text(object, "name"), cause))
        }
    }
}

/// A built-in type that the body of a request must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyType<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> BodyType<'a> {
    pub(crate) fn of(kind: &'a KindDefinition) -> Self {
        Self { api_version: &kind.api_version, kind: &kind.kind }
    }

    /// Returns the version without the group.
    pub(crate) fn version(self) -> &'a str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// Checks that the body of a request names this type, or none.
    pub(crate) fn check(self, schema: &Schema, body: &Object) -> Result<(), ApiError> {
        let Some(why) = self.mismatch(schema, body) else { return Ok(()) };
        let found = self.named_by(body);
        if self.accepts_kind(found) && schema.kind_by_api_version(found.api_version, found.kind).is_some() {
            return Err(ApiError::bad_request(why));
        }
        Err(ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            found.kind,
            found.version(),
            self.kind
        )))
    }

    /// Returns Go's error for a body that names another type.
    pub(crate) fn mismatch(self, schema: &Schema, body: &Object) -> Option<String> {
        let found = self.named_by(body);
        let (api_version, kind) = (found.api_version, found.kind);
        if (api_version, kind) == (self.api_version, self.kind) {
            return None;
        }
        Some(if schema.kind_by_api_version(api_version, kind).is_none() {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )
        } else if self.accepts_kind(found) {
            unexpected_version(api_version, self.api_version)
        } else {
            let (version, wanted, package) = (found.version(), self.kind, self.package());
            format!("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion")
        })
    }

    /// Returns the type that a body names. The parts that it does not name are those of this type.
    fn named_by<'b>(self, body: &'b Object) -> BodyType<'b>
    where
        'a: 'b,
    {
        let text = |name: &str| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        BodyType {
            api_version: text("apiVersion").unwrap_or(self.api_version),
            kind: text("kind").unwrap_or(self.kind),
        }
    }

    /// Returns true if another type is a version of this one.
    fn accepts_kind(self, other: BodyType<'_>) -> bool {
        other.kind == self.kind && (other.kind == "Event" || other.group() == self.group())
    }

    fn group(self) -> &'a str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the Go package of the internal type.
    fn package(self) -> &'a str {
        match self.group().split('.').next().unwrap_or_default() {
            "" => "core",
            package => package,
        }
    }
}

fn unexpected_version(found: &str, expected: &str) -> String {
    format!("the API version in the data ({found}) does not match the expected API version ({expected})")
}

fn cannot_be_handled(kind: &KindDefinition, why: &str) -> ApiError {
    let (name, version) = (&kind.kind, &kind.gvr.version);
    ApiError::bad_request(format!("{name} in version \"{version}\" cannot be handled as a {name}: {why}"))
}

/// Returns Go's error message for decoding the kind of a value that is not an object.
pub(crate) fn type_meta_error(value: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
         Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        json_type(value)
    )
}

/// Checks the JSON types of the metadata fields that the server reads.
fn check_metadata(kind: &KindDefinition, metadata: Option<&Value>) -> Result<(), ApiError> {
    let wrong = |value: &Value, field: &str, wanted: &str| {
        let found = json_type(value);
        let why = format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}"
        );
        Err(cannot_be_handled(kind, &why))
    };
    let metadata = match metadata {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(metadata)) => metadata,
        Some(value) => return wrong(value, "metadata", "v1.ObjectMeta"),
    };
    for (name, value) in metadata.iter().filter(|(_, value)| !value.is_null()) {
        // kube-apiserver decodes the metadata of custom resources separately, so the error path does not
        // begin with `metadata`.
        let field = if kind.is_custom() { name.clone() } else { format!("metadata.{name}") };
        match name.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink"
            | "creationTimestamp" | "deletionTimestamp"
                if !value.is_string() =>
            {
                return wrong(value, &field, "string");
            }
            "labels" | "annotations" => match value {
                Value::Object(map) => {
                    if let Some(value) = map.values().find(|value| !value.is_string()) {
                        return wrong(value, &field, "string");
                    }
                }
                value => return wrong(value, &field, "map[string]string"),
            },
            "finalizers" | "ownerReferences" if !value.is_array() => return wrong(value, &field, "[]string"),
            "generation" | "deletionGracePeriodSeconds" if !value.is_i64() && !value.is_u64() => {
                return wrong(value, &field, "int64");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Validates the name and the `generateName` of a new object, and the other metadata.
pub(crate) fn check_name(kind: &KindDefinition, name: &str, object: &Object) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        causes.extend(name_causes(kind, "metadata.generateName", prefix, &without_final_dash(prefix)));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        causes.extend(name_causes(kind, "metadata.name", name, name));
    }
    causes.extend(field_causes(object));
    causes.extend(finalizer_causes(object));
    if checks_finalizer_domains(kind) {
        causes.extend(unqualified_finalizer_causes(object));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_fields(kind, name, causes)) }
}

/// Validates that the name of an otherwise valid object can be a segment of a path, if the kind has no format
/// of names.
pub(crate) fn check_path_segment(kind: &KindDefinition, name: &str) -> Result<(), ApiError> {
    let problems = path_segment_problems(name);
    if problems.is_empty() || kind.descriptor.name_format.is_some() {
        return Ok(());
    }
    let cause = |why: &&str| Cause::invalid("metadata.name", &format!("{name:?}"), why);
    Err(ApiError::invalid_fields(kind, name, problems.iter().map(cause).collect()))
}

fn checks_finalizer_domains(kind: &KindDefinition) -> bool {
    !kind.is_custom() && !kind.traits.has(Traits::UNQUALIFIED_FINALIZERS)
}

/// Returns a prefix of names in a form that is valid if the names are: random characters follow, so the
/// prefix may end with a dash.
fn without_final_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let kept: String = rest.chars().take(rest.chars().count() - 1).collect();
            kept + "a"
        }
        _ => prefix.to_owned(),
    }
}

/// Validates a name in the format of its kind. The errors contain `shown`.
fn name_causes(kind: &KindDefinition, field: &str, shown: &str, name: &str) -> Vec<Cause> {
    let problems = kind.descriptor.name_format.map_or_else(Vec::new, |format| format.problems(name));
    problems.iter().map(|why| Cause::invalid(field, &format!("{shown:?}"), why)).collect()
}

pub(crate) fn check_path_name(name: &str) -> Result<(), ApiError> {
    match path_segment_problems(name)[..] {
        [] => Ok(()),
        ref problems => {
            Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: {}", problems.join(";"))))
        }
    }
}

/// Checks that the object name in the body equals the name in the path of the request.
pub(crate) fn check_url_name(object: &Object, name: &str) -> Result<(), ApiError> {
    match text(object, "name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found != name => Err(ApiError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn check_update(
    kind: &KindDefinition,
    old: &Object,
    new: &Object,
    mode: WriteMode,
    invalid: Vec<Cause>,
) -> Result<(), ApiError> {
    let mut causes = new_finalizers(old, new);
    if !mode.is_of_program() {
        causes.extend(changed(old, new));
    }
    causes.extend(field_causes(new));
    // kube-apiserver validates the ownerReferences of an update twice and reports each error twice.
    causes.extend(owner_references_causes(new));
    if checks_finalizer_domains(kind) {
        causes.extend(unqualified_finalizer_causes(new));
    }
    // kube-apiserver validates the metadata of built-in kinds a second time in their strategy and reports
    // each error twice.
    if !kind.is_custom() {
        causes = causes.iter().cloned().chain(causes.iter().cloned()).collect();
    }
    // The generic validation treats the prefix as a part of a path. Some kinds validate it as for a new
    // object.
    let prefix = text(new, "generateName");
    if !prefix.is_empty() {
        let problems = path_segment_problems(prefix);
        let invalid = |why: &&str| Cause::invalid("metadata.generateName", &format!("{prefix:?}"), why);
        causes.extend(problems.iter().map(invalid));
        if kind.traits.has(Traits::REVALIDATES_METADATA) {
            causes.extend(name_causes(kind, "metadata.generateName", prefix, &without_final_dash(prefix)));
        }
    }
    causes.extend(finalizer_causes(new));
    if kind.traits.has(Traits::REVALIDATES_METADATA) {
        causes.extend(finalizer_causes(new));
    }
    causes.extend(invalid);
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_fields(kind, text(old, "name"), causes)) }
}

fn changed(old: &Object, new: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in ["uid", "creationTimestamp", "deletionTimestamp"] {
        let (given, stored) = (text(new, name), text(old, name));
        // Missing metadata fields are taken from the stored object, and a changed `creationTimestamp` is
        // ignored, so neither is an error.
        if given.is_empty() || given == stored || name == "creationTimestamp" {
            continue;
        }
        causes.push(Cause::invalid(&format!("metadata.{name}"), &format!("{given:?}"), "field is immutable"));
    }
    causes
}

/// Returns the error for finalizers that an update adds to an object that is being deleted.
fn new_finalizers(old: &Object, new: &Object) -> Vec<Cause> {
    if text(old, "deletionTimestamp").is_empty() {
        return Vec::new();
    }
    let known = finalizers(old);
    let added: Vec<String> = finalizers(new)
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    if added.is_empty() {
        return Vec::new();
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    vec![Cause::forbidden("metadata.finalizers", &why)]
}

/// Formats a time for the API. As in Go, fractions of seconds are cut off, so that no timestamp is in the
/// future.
pub(crate) fn wire_time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Parses a resourceVersion; returns `None` if it is empty. The error is a string because get, list and watch
/// put it into different messages.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    match text.parse() {
        Ok(version) if digits => Ok(Some(version)),
        _ => Err(ApiError::bad_version(text, why)),
    }
}
