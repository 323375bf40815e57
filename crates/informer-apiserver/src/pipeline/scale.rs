use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::admission::{Phase, Scope};
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::managed_fields::{Element, Managed};
use crate::model::object_meta;
use crate::model::object_meta::{set_fields, take_fields};
use crate::model::schema::ScalePaths;
use crate::model::selectors::selector_text;
use crate::model::write_options::WriteMode;
use crate::pipeline::managed_fields::{ManagedWrite, set_managed_fields};
use crate::pipeline::merge::{Origin, undecodable};
use crate::pipeline::retry::{OnConflict, WriteError, retry};
use crate::pipeline::{Application, PatchType, Pipeline};
use crate::registry::storage::Stored;

const API_VERSION: &str = "autoscaling/v1";

#[derive(Debug)]
pub(crate) enum NewScale {
    Put(Value),
    Patch(PatchType),
    Apply(Application),
}

impl NewScale {
    /// Returns true if the client has set the resourceVersion. The write must not be repeated then.
    fn sets_version(&self) -> bool {
        match self {
            Self::Put(scale) => {
                scale["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
            }
            Self::Patch(patch) => patch.sets_version(),
            Self::Apply(apply) => apply.sets_version(),
        }
    }
}

struct DesiredScale {
    scale: Value,
    /// The new managed fields of the scaled object, if they are tracked.
    managed: Option<Managed>,
    warnings: Vec<String>,
}

impl Pipeline {
    pub(crate) fn scale_of(&self, kind: &KindDefinition, stored: &Arc<Stored>) -> Result<Value, ApiError> {
        scale(kind, &parse(stored.as_slice()))
    }

    /// Changes the replicas of an object through its Scale. Returns the new Scale and warnings.
    pub(crate) async fn write_scale(
        &self,
        scope: Scope<'_>,
        name: &str,
        new: &NewScale,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let kind = scope.kind();
        retry(kind, name, OnConflict::for_request(new.sets_version()), || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            let old = parse(self.present(scope, &current).await?.as_slice());
            let before = scale(kind, &old)?;
            let DesiredScale { scale: desired, managed, warnings } = self.desired_scale(scope, &old, new)?;
            check(&desired, name)?;
            let version = desired["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            if !version.is_empty() && version != current.version.to_string() {
                return Err(WriteError::Conflict);
            }
            let desired = self.admit_scale(scope, desired, &before, current.version).await?;
            let mut changed = old;
            let replicas = desired["spec"]["replicas"].as_i64().unwrap_or_default();
            set(&mut changed, &paths(kind).spec, replicas.into());
            let Value::Object(mut changed) = changed else {
                return Err(ApiError::unknown_resource().into());
            };
            if let Some(managed) = managed {
                set_managed_fields(&mut changed, &managed);
            }
            let scope = Scope { admission: None, scales: true, ..scope };
            let written = self.replace(scope, current, changed, WriteMode::Main).await?.warned(warnings);
            Ok((scale(kind, &written.value())?, written.warnings))
        })
        .await
    }

    /// Runs admission for a Scale. The following write of the scaled object does not run admission again.
    async fn admit_scale(
        &self,
        scope: Scope<'_>,
        scale: Value,
        before: &Value,
        version: u64,
    ) -> Result<Value, ApiError> {
        let (Value::Object(mut scale), Some(before)) = (scale, before.as_object()) else {
            return Err(ApiError::bad_request("a scale is an object"));
        };
        for phase in [Phase::Mutate, Phase::Validate] {
            self.admit(scope, phase, Some(&mut scale), Some((before, version))).await?;
        }
        Ok(Value::Object(scale))
    }

    fn desired_scale(&self, scope: Scope<'_>, old: &Value, new: &NewScale) -> Result<DesiredScale, ApiError> {
        let kind = scope.kind();
        let held = Managed::read(old["metadata"].get("managedFields")).unwrap_or_default();
        let path_in = |version: &str| -> Option<Vec<Element>> {
            let paths = if version == kind.api_version {
                paths(kind)
            } else {
                paths(&self.registry.read().by_kind(version, &kind.kind)?.kind)
            };
            Some(paths.spec.split('.').map(Element::field).collect())
        };
        let Value::Object(mut live) = scale(kind, old)? else { return Err(ApiError::unknown_resource()) };
        set_managed_fields(&mut live, &held.to_scale(path_in, API_VERSION));
        let scales = scale_kind();
        let (mut desired, warnings) = match new {
            NewScale::Put(scale) => (scale.clone(), Vec::new()),
            NewScale::Patch(patch) => {
                let patched = patch.apply(&self.schema, &scales, Value::Object(live.clone()))?;
                self.decode_patched_scale(scope, &scales, patched)?
            }
            NewScale::Apply(apply) => {
                let write = ManagedWrite {
                    manager: scope.manager,
                    mode: WriteMode::Scale,
                    conversion: None,
                    normalized: false,
                };
                let applied = Value::Object(self.apply_managed(&scales, Some(&live), apply, write)?);
                (applied, apply.check_duplicates(scope.validation)?)
            }
        };
        let Some(object) = desired.as_object_mut() else {
            return Ok(DesiredScale { scale: desired, managed: None, warnings });
        };
        if !matches!(new, NewScale::Apply(_)) {
            self.set_scale_managers(&scales, &live, object, scope.manager);
        }
        let managed = take_fields(object);
        let scale = Managed::read(managed.as_ref()).unwrap_or_default();
        let managed = scope.manager.map(|_| held.with_scale(scale, path_in, &kind.api_version));
        Ok(DesiredScale { scale: desired, managed, warnings })
    }

    fn decode_patched_scale(
        &self,
        scope: Scope<'_>,
        scales: &KindDefinition,
        mut patched: Value,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let whole = patched.clone();
        let unknown = match (self.message(scales), patched.as_object_mut()) {
            (Some(message), Some(members)) => crate::model::typed::fit(message, members),
            _ => Ok(Vec::new()),
        };
        let checked = unknown.and_then(|unknown| scope.check_fields(unknown));
        let warnings =
            checked.map_err(|why| undecodable(scales, Origin::Patch(&|| Some(whole.clone())), &why))?;
        Ok((patched, warnings))
    }

    fn set_scale_managers(
        &self,
        scales: &KindDefinition,
        live: &Object,
        object: &mut Object,
        manager: Option<&str>,
    ) {
        let sent = object.clone();
        object_meta::metadata_of_mut(object);
        if let Some(message) = self.message(scales) {
            crate::model::typed::form(message, object);
        }
        let write = ManagedWrite { manager, mode: WriteMode::Scale, conversion: None, normalized: false };
        self.update_managers(scales, live, object, write);
        // Validation must see the Scale that the client sent, so it is restored. Only the managed fields are
        // replaced by the new ones.
        let managed = take_fields(object);
        *object = sent;
        set_fields(object, managed);
    }
}

fn scale_kind() -> KindDefinition {
    let mut kind = KindDefinition::custom("autoscaling", "v1", "Scale").plural("scales").without_status();
    kind.traits = Traits::default();
    kind
}

fn check(scale: &Value, name: &str) -> Result<(), ApiError> {
    let kind = KindDefinition::custom("autoscaling", "v1", "Scale").plural("scales");
    let given = scale["metadata"]["name"].as_str().unwrap_or_default();
    if given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    match scale["spec"]["replicas"].as_i64() {
        Some(replicas) if replicas < 0 => {
            let cause =
                Cause::invalid("spec.replicas", &replicas.to_string(), "must be greater than or equal to 0");
            Err(ApiError::invalid(&kind, name, cause))
        }
        _ => Ok(()),
    }
}

fn paths(kind: &KindDefinition) -> ScalePaths {
    kind.scale.clone().unwrap_or_else(|| ScalePaths {
        spec: "spec.replicas".to_owned(),
        status: "status.replicas".to_owned(),
        selector: None,
    })
}

fn scale(kind: &KindDefinition, object: &Value) -> Result<Value, ApiError> {
    let paths = paths(kind);
    let replicas = match at(object, &paths.spec).and_then(Value::as_i64) {
        Some(replicas) => replicas,
        None if kind.is_custom() => {
            let path = &paths.spec;
            return Err(ApiError::internal(&format!("the spec replicas field \".{path}\" does not exist")));
        }
        // If `spec.replicas` is missing, objects of all built-in kinds with a Scale have one replica.
        None => 1,
    };
    let mut status =
        json!({"replicas": at(object, &paths.status).and_then(Value::as_i64).unwrap_or_default()});
    let selector = match (&paths.selector, kind.is_custom()) {
        (Some(path), _) => at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        (None, true) => String::new(),
        (None, false) => selector_text(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(name) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    // Zero replicas are omitted, as with Go's `omitempty`.
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    Ok(json!({
        "kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status,
    }))
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, segment| value.get(segment))
}

fn set(object: &mut Value, path: &str, new: Value) {
    let mut place = object;
    for segment in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[segment];
    }
    *place = new;
}
