//! Server-side apply.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::{ApiError, Details};
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::managed_fields::{
    Applied, Applier, Conflict, Failed, Managed, ManagedFieldsOperation, ManagerId, validate,
};
use crate::model::metadata;
use crate::model::object_meta;
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::managed_fields::{FieldTracker, ManagedWrite, managed_fields_of, set_managed_fields};
use crate::pipeline::merge::{Origin, go_type};
use crate::pipeline::retry::{CreateError, OnConflict, WriteError, retry};
use crate::pipeline::{Pipeline, Written};
use crate::registry::storage::Stored;

/// The field manager of `kubectl apply --server-side`, which takes over the fields of client-side apply.
const KUBECTL: &str = "kubectl";
/// The annotation in which client-side apply stores the last applied configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Debug, Clone)]
pub(crate) struct Application {
    pub(crate) config: Object,
    /// Take over conflicting fields.
    pub(crate) force: bool,
    /// The error for duplicate keys in the body, which `fieldValidation` makes a warning or a rejection.
    pub(crate) duplicates: Option<String>,
}

impl Application {
    pub(crate) fn parse(body: &[u8], force: bool) -> Result<Self, ApiError> {
        let undecodable = |why: &str| ApiError::bad_request(format!("error decoding YAML: {why}"));
        let (value, duplicates) = crate::model::yaml::read_yaml(body).map_err(|why| undecodable(&why))?;
        let config = match value {
            Value::Object(config) => config,
            Value::Null => Map::new(),
            other => {
                let why = format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                     map[string]interface {{}}",
                    crate::model::json::json_type(&other)
                );
                return Err(undecodable(&why));
            }
        };
        Ok(Self { config, force, duplicates })
    }

    /// Returns true if the configuration has a resourceVersion. The apply must not be repeated after a
    /// conflict then.
    pub(crate) fn sets_version(&self) -> bool {
        !object_meta::text(&self.config, "resourceVersion").is_empty()
    }

    /// Handles duplicate keys in the configuration as `fieldValidation` requires: returns warnings or an
    /// error.
    pub(crate) fn check_duplicates(&self, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
        match (&self.duplicates, validation) {
            (Some(why), FieldValidation::Strict) => {
                Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")))
            }
            (Some(why), FieldValidation::Warn) => Ok(crate::model::duplicates::warnings(why)),
            _ => Ok(Vec::new()),
        }
    }
}

impl Pipeline {
    /// Runs a server-side apply: creates the object, or merges the configuration into the stored object.
    pub(crate) async fn apply(
        &self,
        scope: Scope<'_>,
        name: &str,
        apply: &Application,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        retry(kind, name, OnConflict::for_request(apply.sets_version()), || async move {
            let written = match self.find_if_exists(scope.resource, scope.namespace, name)? {
                Some(current) => self.apply_to(scope, current, apply, mode).await,
                None if mode == WriteMode::Main => self.apply_new(scope, name, apply).await,
                None => Err(ApiError::not_found(kind, name).into()),
            }?;
            self.after_write(scope, name);
            Ok(written)
        })
        .await
    }

    async fn apply_to(
        &self,
        scope: Scope<'_>,
        current: Arc<Stored>,
        apply: &Application,
        mode: WriteMode,
    ) -> Result<Written, WriteError> {
        let shown = self.present(scope, &current).await?;
        let Value::Object(old) = parse(shown.as_slice()) else {
            return Err(ApiError::unknown_resource().into());
        };
        let (object, warnings) = self.applied(scope, Some(&old), apply, mode).await?;
        let name = current.key.name();
        metadata::check_url_name(&object, name)?;
        if metadata::version(&object)?.is_some_and(|version| version != current.version) {
            return Err(scope.stale_version_error(self, &object, name).into());
        }
        let written = self.replace(scope, current, object, mode).await?;
        Ok(written.warned(warnings))
    }

    async fn apply_new(
        &self,
        scope: Scope<'_>,
        name: &str,
        apply: &Application,
    ) -> Result<Written, WriteError> {
        let kind = scope.kind();
        let (mut object, warnings) = self.applied(scope, None, apply, WriteMode::Main).await?;
        let uid = object_meta::text(&object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(kind, name, &why).into());
        }
        metadata::check_url_name(&object, name)?;
        // The object does not exist, so a resourceVersion in the configuration cannot match and is ignored.
        object_meta::metadata_of_mut(&mut object).remove("resourceVersion");
        self.check_prerequisites(scope, WriteMode::Main, name)?;
        match self.store_new(scope, (object, None), WriteMode::Main).await {
            Ok(written) => Ok(written.warned(warnings)),
            // Another write has created the object in the meantime, so the apply must be repeated as a merge.
            Err(CreateError::AlreadyExists(_)) => Err(WriteError::Conflict),
            Err(CreateError::Api(error)) => Err(error.into()),
        }
    }

    /// Returns the decoded object after the apply, with its managed fields.
    async fn applied(
        &self,
        scope: Scope<'_>,
        old: Option<&Object>,
        apply: &Application,
        mode: WriteMode,
    ) -> Result<(Object, Vec<String>), ApiError> {
        let kind = scope.kind();
        let managed = self.converting(|conversions| {
            let conversion = Some(conversions).filter(|_| scope.converts());
            let write = ManagedWrite { normalized: false, conversion, ..ManagedWrite::of(scope, mode) };
            self.apply_managed(kind, old, apply, write)
        });
        let mut object = managed.await?;
        let name = object_meta::text(&object, "name").to_owned();
        let fields = crate::model::object_meta::take_fields(&mut object);
        let mut object = metadata::checked(&self.schema, kind, scope.namespace, Value::Object(object))?;
        // The type check of the apply has already rejected unknown fields, so the decoder need not report
        // them.
        let lenient = Scope { validation: FieldValidation::Ignore, ..scope };
        self.decode_typed(lenient, &mut object, Origin::Apply(&apply.config))?;
        let warnings = apply.check_duplicates(scope.validation)?;
        let metadata = object_meta::metadata_of_mut(&mut object);
        if let Some(fields) = fields {
            metadata.insert("managedFields".into(), fields);
        }
        if name.is_empty() {
            metadata.remove("name");
        }
        Ok((object, warnings))
    }

    pub(crate) fn apply_managed(
        &self,
        kind: &KindDefinition,
        old: Option<&Object>,
        apply: &Application,
        write: ManagedWrite<'_>,
    ) -> Result<Object, ApiError> {
        let manager = write.manager.unwrap_or_default();
        check_config(kind, &apply.config)?;
        let tracker = FieldTracker::new(self, kind, write);
        let (live, managed) = match old {
            Some(old) => (tracker.live(old), Managed::read(managed_fields_of(old)).unwrap_or_default()),
            None => (Value::Object(tracker.empty()), Managed::default()),
        };
        let tracker = tracker.with_versions_of(&managed);
        let managed = tracker.before_first_apply(&live, managed);
        let config = Value::Object(apply.config.clone());
        let convert = |version: &str, object: &Value| tracker.convert(version, object);
        let updater = tracker.updater(&convert);
        if let Some(why) = validate(updater.types[updater.version], &config, false) {
            return Err(type_error(kind, &apply.config, &why));
        }
        let id = tracker.id(manager, ManagedFieldsOperation::Apply);
        let attempt = |force| updater.apply(&live, &config, managed.clone(), Applier { id: &id, force });
        let applied = match attempt(apply.force) {
            Err(Failed::Conflicts(conflicts)) if manager == KUBECTL => {
                let left = tracker.not_last_applied(&live, conflicts);
                if left.is_empty() { attempt(true) } else { Err(Failed::Conflicts(left)) }
            }
            outcome => outcome,
        };
        let Applied { object, managed } =
            applied.map_err(|failed| apply_error(kind, &apply.config, failed))?;
        let Value::Object(mut object) = object.unwrap_or(live) else {
            return Err(ApiError::unknown_resource());
        };
        if manager == KUBECTL {
            refresh_last_applied(&mut object, &apply.config);
        }
        set_managed_fields(&mut object, &managed);
        Ok(object)
    }
}

impl FieldTracker<'_> {
    /// Returns the conflicts of an apply, except for fields that client-side apply has set and that have not
    /// changed since.
    fn not_last_applied(&self, live: &Value, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
        let Ok(last) = serde_json::from_str::<Value>(text) else { return conflicts };
        let convert = |version: &str, object: &Value| self.convert(version, object);
        let updater = self.updater(&convert);
        if last["apiVersion"] != updater.version {
            return conflicts;
        }
        let Some(unchanged) = updater.unchanged_since(&last, live) else { return conflicts };
        conflicts.into_iter().filter(|conflict| !unchanged.has(&conflict.path.0)).collect()
    }
}

/// Updates the annotation with the last configuration of client-side apply, if the object has it.
fn refresh_last_applied(object: &mut Object, config: &Object) {
    let annotation = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.get_mut(LAST_APPLIED))
        .filter(|text| text.as_str().is_some_and(|text| !text.is_empty()));
    let Some(annotation) = annotation else { return };
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    *annotation = format!("{}\n", Value::Object(config)).into();
}

/// Checks that the configuration of an apply has the kind of the request and contains no managed fields.
fn check_config(kind: &KindDefinition, config: &Object) -> Result<(), ApiError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, found) = (text("apiVersion"), text("kind"));
    if api_version != kind.api_version || found != kind.kind {
        return Err(ApiError::bad_request(format!("invalid object type: {}", go_type(api_version, found))));
    }
    let fields = config.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    match fields {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(ApiError::bad_request("metadata.managedFields must be nil")),
    }
}

fn type_error(kind: &KindDefinition, config: &Object, why: &str) -> ApiError {
    let (namespace, name) = (object_meta::text(config, "namespace"), object_meta::text(config, "name"));
    let of = go_type(&kind.api_version, &kind.kind);
    let message = format!("failed to create typed patch object ({namespace}/{name}; {of}): {why}");
    ApiError::new(500, "", message)
}

fn apply_error(kind: &KindDefinition, config: &Object, failed: Failed) -> ApiError {
    let conflicts = match failed {
        Failed::Conflicts(conflicts) => conflicts,
        Failed::Type(why) => return type_error(kind, config, &why),
    };
    let causes = conflicts.iter().map(|Conflict { manager, path }| Cause {
        reason: "FieldManagerConflict",
        message: format!("conflict with {}", manager.shown()),
        field: path.to_string(),
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    let mut error = ApiError::new(409, "Conflict", conflict_message(&conflicts));
    error.details = Some(Box::new(details));
    error
}

/// Formats all conflicts of an apply as one message, grouped by field manager.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [Conflict { manager, path }] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {path}", manager.shown());
    }
    let mut lines = Vec::new();
    let mut last: Option<&ManagerId> = None;
    for Conflict { manager, path } in conflicts {
        if last != Some(manager) {
            lines.push(format!("conflicts with {}:", manager.shown()));
            last = Some(manager);
        }
        lines.push(format!("- {path}"));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
