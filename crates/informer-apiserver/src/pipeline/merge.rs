//! What becomes of an object on its way in: fitted to its type or schema, merged with the stored one.

use serde_json::{Value, json};

use crate::admission::Scope;
use crate::model::error::{ApiError, Cause, Details};
use crate::model::kinds::{Kind, Traits};
use crate::model::metadata::{self, Object, metadata_of, metadata_of_mut};
use crate::model::rules::{Rules, fill_defaults, keep_allocated, plug_in_change, prepare_changed};
use crate::model::typed::Source;
use crate::model::write_options::{Validation, WriteMode};
use crate::pipeline::{DEFINITIONS, namespace};

/// Where an object comes from: how it is told that it does not fit.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// A body.
    Body,
    /// A JSON patch or a merge patch. What it made of the object can be had again, before anything was taken out of it.
    Patch(&'a dyn Fn() -> Option<Value>),
    /// This strategic merge patch.
    Strategic(&'a Value),
    /// An apply of this.
    Apply(&'a Object),
}

impl Origin<'_> {
    /// A patch of lists and an apply are merged without types, and nothing is written out before they have some again.
    fn source(self) -> Source {
        match self {
            Self::Body | Self::Patch(_) => Source::Text,
            Self::Strategic(_) | Self::Apply(_) => Source::Values,
        }
    }
}

/// Fits an object to the schema of its kind; answers what was dropped, as warnings.
pub(crate) fn shaped(
    kinds: &informer_schema::Schema,
    scope: Scope<'_>,
    object: &mut Object,
    origin: Origin<'_>,
) -> Result<Vec<String>, ApiError> {
    let kind = scope.kind();
    if kind.is(DEFINITIONS, "CustomResourceDefinition") {
        let causes = crate::model::crd::check_definition(object);
        if !causes.is_empty() {
            return Err(ApiError::invalid_fields(kind, metadata::text(object, "name"), causes));
        }
    }
    let unknown = match (&kind.schema, kinds.kind_by_api_version(&kind.api_version, &kind.kind)) {
        (Some(schema), _) => {
            check_times(origin, object).map_err(|why| undecodable(kind, origin, &why))?;
            schema.shape(object)
        }
        (None, Some(known)) if !kind.is_custom() && scope.validation != Validation::Unchecked => {
            let fitted = crate::model::typed::fit_from(origin.source(), known.message(), object);
            let mut unknown = fitted.map_err(|why| undecodable(kind, origin, &why))?;
            if origin.source() == Source::Values {
                // Upstream's converter finds them at random, and tells them in the order of their paths.
                unknown.sort_unstable();
            }
            fill_defaults(kind, known.message(), object);
            unknown
        }
        _ => Vec::new(),
    };
    if let Some(known) = kinds.kind_by_api_version(&kind.api_version, &kind.kind)
        && !kind.is_custom()
        && scope.validation != Validation::Unchecked
    {
        if kind.is("", "Namespace") && !metadata::text(object, "name").is_empty() {
            namespace::label(object);
        }
        // An empty list of managers says something: it is not left out.
        let managed = metadata::take_fields(object);
        crate::model::typed::form(known.message(), object);
        if kind.is("autoscaling", "HorizontalPodAutoscaler") && kind.gvr.version == "v1" {
            crate::model::kinds::settle_first_autoscaler(object);
        }
        metadata::set_fields(object, managed);
    }
    scope.judge(unknown).map_err(|why| undecodable(kind, origin, &why))
}

/// What a new object of a built-in kind breaks, after what its metadata does.
pub(crate) fn check_new(
    kind: &Kind,
    name: &str,
    object: &mut Object,
    mode: WriteMode,
) -> Result<(), ApiError> {
    let named = metadata::check_name(kind, name, object);
    let Some(rules) = Rules::of(kind) else { return named };
    let mut broken = rules.check(object, None);
    if mode == WriteMode::Whole {
        broken.extend(rules.check_status(object));
    }
    match named {
        Ok(()) if broken.is_empty() => Ok(()),
        Ok(()) => Err(ApiError::invalid_fields(kind, name, broken)),
        Err(error) if broken.is_empty() => Err(error),
        Err(error) => {
            let causes = error.details.map(|details| details.causes).unwrap_or_default();
            Err(ApiError::invalid_fields(kind, name, causes.into_iter().chain(broken).collect()))
        }
    }
}

/// Holds the times in the metadata of a custom resource against their type; an apply drops what is none.
fn check_times(origin: Origin<'_>, object: &Object) -> Result<(), String> {
    match (origin, metadata_of(object)) {
        (Origin::Apply(_), _) | (_, None) => Ok(()),
        (_, Some(metadata)) => crate::model::typed::check_times(metadata),
    }
}

/// The refusal of what does not fit. Of a patch upstream shows what has become of the whole object, or the patch itself.
pub(crate) fn undecodable(kind: &Kind, origin: Origin<'_>, why: &str) -> ApiError {
    let shown = match origin {
        Origin::Body => {
            let (name, version) = (&kind.kind, &kind.gvr.version);
            return ApiError::bad_request(format!(
                "{name} in version \"{version}\" cannot be handled as a {name}: {why}"
            ));
        }
        Origin::Apply(config) => return crate::pipeline::apply::inconvertible(kind, config, why),
        Origin::Patch(again) => again().unwrap_or_default().to_string(),
        Origin::Strategic(patch) => crate::pipeline::patch::shown(patch),
    };
    let cause = Cause::invalid("patch", &format!("{shown:?}"), why);
    let mut error = ApiError::new(422, "Invalid", format!(" \"\" is invalid: patch: {}", cause.message));
    error.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
    error
}

/// Holds an object against the schema of its kind.
pub(crate) fn check_schema(kind: &Kind, object: &mut Object, old: Option<&Value>) -> Result<(), ApiError> {
    let causes = kind.schema.as_ref().map_or_else(Vec::new, |schema| schema.check(object, old));
    match causes.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_fields(kind, metadata::text(object, "name"), causes)),
    }
}

/// The new object as the server takes it: what clients may not change is carried over.
pub(crate) fn merge_update(
    kind: &Kind,
    whole: &Value,
    mut new: Object,
    mode: WriteMode,
) -> Result<Object, ApiError> {
    let Value::Object(old) = whole else { return Err(ApiError::unknown_resource()) };
    // They are of the write, not of the stored object.
    let managed = match mode {
        WriteMode::Status | WriteMode::Finalize => Some(metadata::take_fields(&mut new)),
        _ => None,
    };
    match mode {
        WriteMode::Status => new = with_status(kind, old, &mut new),
        WriteMode::Finalize => new = namespace::with_finalizers(old, &mut new),
        WriteMode::Main if kind.traits.has(Traits::STATUS) => copy_part("status", old, &mut new),
        WriteMode::Main | WriteMode::Whole | WriteMode::Raw | WriteMode::Scale => {}
    }
    if kind.is("", "Namespace") && matches!(mode, WriteMode::Main | WriteMode::Whole) {
        namespace::keep(old, &mut new);
    }
    if let Some(managed) = managed {
        metadata::set_fields(&mut new, managed);
    }
    if mode != WriteMode::Raw {
        keep_allocated(kind, old, &mut new);
    }
    let broken = match mode {
        WriteMode::Main | WriteMode::Whole => {
            plug_in_change(kind, whole, &mut new);
            let mut broken = broken_by_change(kind, whole, &mut new);
            if mode == WriteMode::Whole {
                broken.extend(broken_status(kind, &mut new));
            }
            broken
        }
        WriteMode::Status => broken_status(kind, &mut new),
        _ => Vec::new(),
    };
    metadata::check_update(kind, old, &new, mode, broken)?;
    metadata::carry_over(old, &mut new);
    if mode != WriteMode::Raw {
        prepare_changed(kind, old, &mut new);
        check_schema(kind, &mut new, Some(whole))?;
    }
    if kind.traits.has(Traits::GENERATION) && mode != WriteMode::Status && counts(kind, old, &new) {
        let generation = metadata_of(old).and_then(|m| m.get("generation")?.as_i64()).unwrap_or_default();
        metadata_of_mut(&mut new).insert("generation".into(), (generation + 1).into());
    }
    Ok(new)
}

/// Validates a changed object of a built-in kind.
fn broken_by_change(kind: &Kind, old: &Value, new: &mut Object) -> Vec<Cause> {
    match old {
        Value::Object(old) if kind.is(DEFINITIONS, "CustomResourceDefinition") => {
            crate::model::crd::change_definition(old, new)
        }
        _ => Rules::of(kind).map(|rules| rules.check(new, Some(old))).unwrap_or_default(),
    }
}

/// Validates the status of an object of a built-in kind.
fn broken_status(kind: &Kind, object: &mut Object) -> Vec<Cause> {
    Rules::of(kind).map(|rules| rules.check_status(object)).unwrap_or_default()
}

/// The stored object with the new status, and with the metadata that may come with it.
fn with_status(kind: &Kind, old: &Object, new: &mut Object) -> Object {
    let mut merged = old.clone();
    copy_part("status", new, &mut merged);
    if kind.traits.has(Traits::STATUS_METADATA) {
        let names = ["labels", "annotations", "finalizers"];
        // Deployments keep their labels.
        let names = if kind.is("apps", "Deployment") { &names[1..] } else { &names[..] };
        let given = metadata_of_mut(new).clone();
        let metadata = metadata_of_mut(&mut merged);
        for name in names {
            match given.get(*name) {
                Some(value) => metadata.insert((*name).to_owned(), value.clone()),
                None => metadata.remove(*name),
            };
        }
    }
    // Checked against the stored one, as in any update.
    for name in ["uid", "deletionTimestamp"] {
        if let Some(value) = metadata_of(new).and_then(|metadata| metadata.get(name)) {
            metadata_of_mut(&mut merged).insert(name.to_owned(), value.clone());
        }
    }
    merged
}

/// Makes a part of an object that of another one, or takes it away.
pub(crate) fn copy_part(name: &str, from: &Object, to: &mut Object) {
    match from.get(name) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

/// Whether a change counts for the generation.
fn counts(kind: &Kind, old: &Object, new: &Object) -> bool {
    let skipped = ["metadata", "status", "kind", "apiVersion"];
    // Without an endpoint of its own, the status is a part of the object like any other.
    let skips = |name: &str| skipped.contains(&name) && (name != "status" || kind.traits.has(Traits::STATUS));
    let [before, after] = [old, new].map(|object| object.iter().filter(|(name, _)| !skips(name)));
    let annotations = |object| metadata_of(object).and_then(|metadata| metadata.get("annotations"));
    before.ne(after) || (kind.is("apps", "Deployment") && annotations(old) != annotations(new))
}

/// The status that a new object has before anybody writes one.
pub(crate) fn fill_status(kind: &Kind, object: &mut Object) {
    if !kind.traits.has(Traits::STATUS) || kind.is_custom() {
        return;
    }
    let mut status = match (kind.gvr.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => json!({"phase": "Pending"}),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => json!({"phase": "Pending"}),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        ("policy", "PodDisruptionBudget") => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        ("autoscaling", _) if kind.gvr.version == "v1" => json!({"currentReplicas": 0, "desiredReplicas": 0}),
        ("autoscaling", "HorizontalPodAutoscaler") => json!({"desiredReplicas": 0, "currentMetrics": null}),
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("", "Node") => json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
            "operatingSystem": "", "architecture": "",
        }}),
        ("storage.k8s.io", "VolumeAttachment") => json!({"attached": false}),
        _ => json!({}),
    };
    if let (Some(Value::Object(said)), Some(status)) = (object.remove("status"), status.as_object_mut()) {
        status.extend(said);
    }
    object.insert("status".into(), status);
}
