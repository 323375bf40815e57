//! Decodes objects in request bodies, and merges updates with the stored object.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::{ApiError, Details};
use crate::model::json::Object;
use crate::model::kinds::core::namespace;
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::metadata;
use crate::model::object_meta;
use crate::model::object_meta::{metadata_of, metadata_of_mut};
use crate::model::rules::as_value;
use crate::model::schema::Schema;
use crate::model::typed::Source;
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::DEFINITIONS;

/// The source of a decoded object, which decides the format of decoding errors.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Body,
    /// A JSON patch or merge patch. The function returns the patched object before unknown fields were
    /// dropped.
    Patch(&'a dyn Fn() -> Option<Value>),
    Strategic(&'a Value),
    Apply(&'a Object),
}

impl Origin<'_> {
    /// Returns the source for type errors. kube-apiserver applies strategic merge patches and apply
    /// configurations to decoded values, without encoding the result as text.
    fn source(self) -> Source {
        match self {
            Self::Body | Self::Patch(_) => Source::Text,
            Self::Strategic(_) | Self::Apply(_) => Source::Values,
        }
    }
}

/// Decodes an object with the type or schema of its kind and applies the defaults. Returns warnings about
/// dropped fields.
pub(crate) fn decode_typed(
    kinds: &informer_schema::Schema,
    scope: Scope<'_>,
    object: &mut Object,
    origin: Origin<'_>,
) -> Result<Vec<String>, ApiError> {
    let kind = scope.kind();
    if kind.is(DEFINITIONS, "CustomResourceDefinition") {
        crate::model::crd::fill_crd(object);
    }
    let unknown = match (&kind.schema, kinds.kind_by_api_version(&kind.api_version, &kind.kind)) {
        (Some(schema), _) => {
            check_times(origin, object).map_err(|why| undecodable(kind, origin, &why))?;
            match origin {
                Origin::Apply(_) => schema.decode_applied(object),
                _ => schema.decode(kinds, object).map_err(|why| undecodable(kind, origin, &why))?,
            }
        }
        (None, Some(known)) if !kind.is_custom() && scope.validation != FieldValidation::Unchecked => {
            let fitted = crate::model::typed::fit_from(origin.source(), known.message(), object);
            let mut unknown = fitted.map_err(|why| undecodable(kind, origin, &why))?;
            if origin.source() == Source::Values {
                // Unknown fields are sorted, because kube-apiserver finds them in map order and sorts them
                // for the error.
                unknown.sort_unstable();
            }
            kind.fill_defaults(known.message(), object);
            unknown
        }
        _ => Vec::new(),
    };
    if let Some(known) = kinds.kind_by_api_version(&kind.api_version, &kind.kind)
        && !kind.is_custom()
        && scope.validation != FieldValidation::Unchecked
    {
        if let Some(complete) = kind.descriptor.hooks.after_decode {
            complete(object);
        }
        // An empty list in `managedFields` resets the managers, so it is kept although Go omits empty lists.
        let managed = object_meta::take_fields(object);
        crate::model::typed::form(known.message(), object);
        if let Some(change) = kind.descriptor.hooks.after_normalization {
            change(object);
        }
        object_meta::set_fields(object, managed);
    }
    scope.check_fields(unknown).map_err(|why| undecodable(kind, origin, &why))
}

/// Validates a new object of a built-in kind: first its metadata, then the other fields.
pub(crate) fn check_new(
    kind: &KindDefinition,
    name: &str,
    object: &mut Object,
    mode: WriteMode,
) -> Result<(), ApiError> {
    let named = metadata::check_name(kind, name, object);
    let mut problems = kind.rules().map(|rules| rules.check(object, None)).unwrap_or_default();
    if let Some(rules) = kind.rules() {
        let others = match mode {
            WriteMode::Whole => rules.check_status(object),
            _ => {
                let mut causes = kind.check_disabled_fields(object);
                causes.extend(rules.check_created(object));
                causes
            }
        };
        problems.extend(others);
    }
    if kind.is(DEFINITIONS, "CustomResourceDefinition") {
        problems.extend(as_value(object, |definition| crate::model::crd::validate_crd(definition, None)));
    }
    problems.extend(schema_causes(kind, object, None, mode).0);
    match named {
        Ok(()) if problems.is_empty() => metadata::check_path_segment(kind, name),
        Ok(()) => Err(ApiError::invalid_fields(kind, name, problems)),
        Err(error) if problems.is_empty() => Err(error),
        Err(error) => {
            let causes = error.details.map(|details| details.causes).unwrap_or_default();
            Err(ApiError::invalid_fields(kind, name, causes.into_iter().chain(problems).collect()))
        }
    }
}

/// Checks the timestamps in the metadata of a custom resource. An apply is exempt, because it drops invalid
/// timestamps.
fn check_times(origin: Origin<'_>, object: &Object) -> Result<(), String> {
    match (origin, metadata_of(object)) {
        (Origin::Apply(_), _) | (_, None) => Ok(()),
        (_, Some(metadata)) => crate::model::typed::check_times(metadata),
    }
}

/// Returns the error for an object that cannot be decoded. For a patch, it contains the patched object or the
/// patch, as in kube-apiserver.
pub(crate) fn undecodable(kind: &KindDefinition, origin: Origin<'_>, why: &str) -> ApiError {
    let shown = match origin {
        Origin::Body => {
            let (name, version) = (&kind.kind, &kind.gvr.version);
            return ApiError::bad_request(format!(
                "{name} in version \"{version}\" cannot be handled as a {name}: {why}"
            ));
        }
        Origin::Apply(config) => return inconvertible(kind, config, why),
        Origin::Patch(again) => again().unwrap_or_default().to_string(),
        Origin::Strategic(patch) => crate::model::go_format::go_format(patch),
    };
    let cause = Cause::invalid("patch", &format!("{shown:?}"), why);
    let mut error = ApiError::new(422, "Invalid", format!(" \"\" is invalid: patch: {}", cause.message));
    error.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
    error
}

fn inconvertible(kind: &KindDefinition, config: &Object, why: &str) -> ApiError {
    let (namespace, name) = (object_meta::text(config, "namespace"), object_meta::text(config, "name"));
    let of = go_type(&kind.api_version, &kind.kind);
    let message = format!(
        "failed to convert new object ({namespace}/{name}; {of}) to proper version: unable to convert unstructured \
         object to {of}: {why}"
    );
    ApiError::new(500, "", message)
}

/// Formats an API version and kind as Go formats the type.
pub(crate) fn go_type(api_version: &str, kind: &str) -> String {
    let group_version =
        if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!("{group_version}, Kind={kind}")
}

/// Validates a custom resource by its schema. Also returns warnings.
fn schema_causes(
    kind: &KindDefinition,
    object: &mut Object,
    old: Option<&Value>,
    mode: WriteMode,
) -> (Vec<Cause>, Vec<String>) {
    let check = |schema: &Arc<Schema>| schema.check(object, old, (mode, kind.scale.as_ref()));
    kind.schema.as_ref().map(check).unwrap_or_default()
}

/// Merges an update with the stored object: copies the fields that clients cannot change from the stored
/// object. Also returns warnings of the schema of a custom resource.
pub(crate) fn merge_update(
    kind: &KindDefinition,
    whole: &Value,
    mut new: Object,
    mode: WriteMode,
    now: impl FnOnce() -> String,
) -> Result<(Object, Vec<String>), ApiError> {
    let Value::Object(old) = whole else { return Err(ApiError::unknown_resource()) };
    let strategy = kind.subresource_strategy(mode);
    // The managed fields of this write replace the stored ones, so they are kept aside during the merge.
    let managed = match mode {
        WriteMode::Status | WriteMode::Finalize => Some(object_meta::take_fields(&mut new)),
        _ if strategy.is_some() => Some(object_meta::take_fields(&mut new)),
        _ => None,
    };
    match (strategy, mode) {
        (Some(strategy), _) => kind.prepare_subresource(strategy, (whole, &mut new), &now()),
        (None, WriteMode::Status) => new = with_status(kind, old, &mut new),
        (None, WriteMode::Finalize) => new = namespace::with_finalizers(old, &mut new),
        (None, WriteMode::Main) if kind.traits.has(Traits::STATUS) => {
            object_meta::copy_member("status", old, &mut new)
        }
        (None, _) => {}
    }
    if let Some(managed) = managed {
        object_meta::set_fields(&mut new, managed);
    }
    if mode != WriteMode::Raw {
        kind.carry_over(old, &mut new, mode);
    }
    let mut problems = match strategy {
        Some(strategy) => strategy.check(&mut new, whole),
        None => validate_update(kind, (old, whole), &mut new, mode),
    };
    let (causes, warnings) = match mode {
        WriteMode::Main | WriteMode::Whole | WriteMode::Status => {
            schema_causes(kind, &mut new, Some(whole), mode)
        }
        _ => Default::default(),
    };
    problems.extend(causes);
    let checked = metadata::check_update(kind, old, &new, mode, problems);
    checked.map_err(|error| error.warned(warnings.clone()))?;
    object_meta::carry_over(old, &mut new);
    if mode != WriteMode::Raw {
        kind.prepare_for_update(whole, &mut new);
    }
    if kind.traits.has(Traits::GENERATION)
        && mode != WriteMode::Status
        && increments_generation(kind, old, &new)
    {
        let generation = metadata_of(old).and_then(|m| m.get("generation")?.as_i64()).unwrap_or_default();
        metadata_of_mut(&mut new).insert("generation".into(), (generation + 1).into());
    }
    Ok((new, warnings))
}

/// Validates an update, except for its metadata. `old` and `whole` are the stored object.
fn validate_update(
    kind: &KindDefinition,
    (old, whole): (&Object, &Value),
    new: &mut Object,
    mode: WriteMode,
) -> Vec<Cause> {
    match mode {
        WriteMode::Main | WriteMode::Whole => {
            kind.admit_update(whole, new, mode);
            let mut problems = validate_change(kind, whole, new);
            if mode == WriteMode::Whole {
                problems.extend(validate_status(kind, new));
            }
            problems
        }
        WriteMode::Status => {
            let mut problems = validate_status(kind, new);
            let changes = kind.rules().map(|rules| rules.check_status_update(new, whole));
            problems.extend(changes.into_iter().flatten());
            problems
        }
        WriteMode::Finalize => namespace::added_finalizer_causes(old, new),
        _ => Vec::new(),
    }
}

fn validate_change(kind: &KindDefinition, old: &Value, new: &mut Object) -> Vec<Cause> {
    match old {
        Value::Object(_) if kind.is(DEFINITIONS, "CustomResourceDefinition") => {
            crate::model::crd::update_crd(old, new)
        }
        _ => kind.rules().map(|rules| rules.check(new, Some(old))).unwrap_or_default(),
    }
}

fn validate_status(kind: &KindDefinition, object: &mut Object) -> Vec<Cause> {
    kind.rules().map(|rules| rules.check_status(object)).unwrap_or_default()
}

/// Returns the stored object with the new status, and with the metadata that a status update may change.
fn with_status(kind: &KindDefinition, old: &Object, new: &mut Object) -> Object {
    let mut merged = old.clone();
    object_meta::copy_member("status", new, &mut merged);
    if kind.traits.has(Traits::STATUS_METADATA) {
        let names = ["labels", "annotations", "finalizers"];
        let names = if kind.traits.has(Traits::STATUS_KEEPS_LABELS) { &names[1..] } else { &names[..] };
        let given = metadata_of_mut(new).clone();
        let metadata = metadata_of_mut(&mut merged);
        for name in names {
            match given.get(*name) {
                Some(value) => metadata.insert((*name).to_owned(), value.clone()),
                None => metadata.remove(*name),
            };
        }
    }
    // `metadata::check_update` rejects changes of these metadata fields, so it must see the values of the
    // client.
    for name in ["uid", "deletionTimestamp"] {
        if let Some(value) = metadata_of(new).and_then(|metadata| metadata.get(name)) {
            metadata_of_mut(&mut merged).insert(name.to_owned(), value.clone());
        }
    }
    merged
}

fn increments_generation(kind: &KindDefinition, old: &Object, new: &Object) -> bool {
    let skipped = ["metadata", "status", "kind", "apiVersion"];
    // If the kind has no status subresource, a changed status increments the generation like any other field.
    let skips = |name: &str| skipped.contains(&name) && (name != "status" || kind.traits.has(Traits::STATUS));
    let [before, after] = [old, new].map(|object| object.iter().filter(|(name, _)| !skips(name)));
    let annotations = |object| metadata_of(object).and_then(|metadata| metadata.get("annotations"));
    before.ne(after) || (kind.traits.has(Traits::ANNOTATIONS_COUNT) && annotations(old) != annotations(new))
}
