//! Deletes objects: immediately, after their finalizers, or with a grace period.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::admission::{Phase, Scope};
use crate::model::cause::{Cause, Causes};
use crate::model::crd::{CLEANUP_FINALIZER, mark_crd_terminating};
use crate::model::error::{ApiError, success};
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::metadata::wire_time;
use crate::model::object_meta;
use crate::model::object_meta::metadata_of_mut;
use crate::model::query::Query;
use crate::pipeline::retry::{OnConflict, WriteError, retry};
use crate::pipeline::{Drafted, Pipeline};
use crate::registry::storage::{Changed, Expect, ObjectForm, Stored};

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    grace: Option<i64>,
    uid: Option<String>,
    pub(crate) version: Option<String>,
    policy: Option<String>,
    orphan: Option<bool>,
    pub(crate) dry_run: bool,
}

/// Delete options that are not validated yet.
#[derive(Clone)]
pub(crate) struct UncheckedDeleteOptions {
    pub(crate) options: DeleteOptions,
    stages: Vec<String>,
}

impl UncheckedDeleteOptions {
    pub(crate) fn of_body(body: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let stages: Vec<String> = body["dryRun"].as_array().into_iter().flatten().filter_map(text).collect();
        let options = DeleteOptions {
            grace: body["gracePeriodSeconds"].as_i64(),
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            policy: text(&body["propagationPolicy"]),
            orphan: body["orphanDependents"].as_bool(),
            dry_run: !stages.is_empty(),
        };
        Self { options, stages }
    }

    pub(crate) fn check(self) -> Result<DeleteOptions, ApiError> {
        let Self { options, stages } = self;
        let mut causes = Causes::default();
        if let Some(policy) = options.policy.as_deref()
            && !matches!(policy, "Foreground" | "Background" | "Orphan")
        {
            let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            causes.push(Cause::not_supported("propagationPolicy", &format!("{policy:?}"), supported));
        }
        if options.policy.is_some() && options.orphan.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(
                "propagationPolicy",
                &format!("{:?}", options.policy.as_deref().unwrap_or("")),
                why,
            ));
        }
        crate::model::query::check_dry_run(&stages, &mut causes);
        if causes.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid_options("DeleteOptions", causes.into_vec()))
        }
    }
}

#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) body: Bytes,
    /// The response has the status 202, because the object still exists although the client asked to wait for
    /// its removal (`orphanDependents: false`).
    pub(crate) accepted: bool,
}

impl DeleteOptions {
    /// Returns the options of a deletion without grace period.
    pub(crate) fn now() -> Self {
        Self { grace: Some(0), ..Self::default() }
    }

    pub(crate) fn foreground() -> Self {
        Self { policy: Some("Foreground".to_owned()), ..Self::default() }
    }

    /// Decodes the delete options from the request body, or from the query if there is no body.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        if let Some(body) = body {
            return UncheckedDeleteOptions::of_body(body).check();
        }
        let stages = query.all("dryRun");
        let options = Self {
            grace: query.integer("gracePeriodSeconds")?,
            policy: Some(query.text("propagationPolicy").to_owned()).filter(|policy| !policy.is_empty()),
            orphan: query.flag("orphanDependents"),
            dry_run: !stages.is_empty(),
            ..Self::default()
        };
        UncheckedDeleteOptions { options, stages }.check()
    }

    pub(crate) fn to_admission_options(&self, body: Option<&Value>) -> Value {
        let mut options_json = body.cloned().unwrap_or_else(|| json!({}));
        let given = [
            ("gracePeriodSeconds", self.grace.map(Value::from)),
            ("propagationPolicy", self.policy.clone().map(Value::from)),
            ("orphanDependents", self.orphan.map(Value::from)),
            ("dryRun", self.dry_run.then(|| json!(["All"]))),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                options_json[name] = value;
            }
        }
        options_json["kind"] = "DeleteOptions".into();
        options_json["apiVersion"] = "meta.k8s.io/v1".into();
        options_json
    }

    /// Returns the delete options for an object that the server itself has just updated. A resourceVersion
    /// precondition is replaced by the new version.
    pub(crate) fn following(&self, changed: &Stored) -> Self {
        let version = self.version.as_ref().map(|_| changed.version.to_string());
        Self { version, ..self.clone() }
    }

    /// Returns the finalizers of a deleted object after applying the propagation policy.
    fn finalizers(&self, object: &Map<String, Value>) -> Vec<String> {
        let mut names: Vec<String> = object_meta::finalizers(object).into_iter().map(str::to_owned).collect();
        let policy = match (self.policy.as_deref(), self.orphan) {
            (Some(policy), _) => policy,
            (None, Some(true)) => "Orphan",
            (None, Some(false)) => "Background",
            (None, None) => return names,
        };
        names.retain(|name| !matches!(name.as_str(), "orphan" | "foregroundDeletion"));
        match policy {
            "Orphan" => names.push("orphan".to_owned()),
            "Foreground" => names.push("foregroundDeletion".to_owned()),
            _ => {}
        }
        names
    }
}

impl Pipeline {
    pub(crate) async fn delete(
        &self,
        scope: Scope<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        // The preconditions are checked at each attempt, so a conflict is never final.
        retry(scope.kind(), name, OnConflict::Retry, || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            check_preconditions(scope.kind(), &current, options)?;
            self.try_delete(scope, &current, options).await
        })
        .await
    }

    async fn try_delete(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        options: &DeleteOptions,
    ) -> Result<Deleted, WriteError> {
        let kind = scope.kind();
        let shown = self.present_uncached(scope, current).await?;
        let Value::Object(mut object) = parse(shown.as_slice()) else {
            return Err(ApiError::unknown_resource().into());
        };
        for phase in [Phase::Mutate, Phase::Validate] {
            self.admit(scope, phase, None, Some((&object, current.version))).await?;
        }
        if kind.is("", "Namespace") {
            return self.delete_namespace(scope, current, object);
        }
        let mut finalizers = options.finalizers(&object);
        let is_crd = kind.is(crate::pipeline::DEFINITIONS, "CustomResourceDefinition");
        if is_crd && !scope.dry_run {
            if !finalizers.iter().any(|name| name == CLEANUP_FINALIZER) {
                finalizers.push(CLEANUP_FINALIZER.to_owned());
            }
            mark_crd_terminating(&mut object, &self.now());
        }
        let grace = grace(kind, &object, options);
        // A Pod is marked before it is removed even if the grace period is zero, so that its watchers receive
        // two events.
        if finalizers.is_empty() && grace == 0 && !kind.traits.has(Traits::GRACEFUL) {
            return Ok(self.remove_now(scope, current)?);
        }
        let Some(mut marked) = self.mark(object, grace, &finalizers) else {
            return Ok(if finalizers.is_empty() && grace == 0 {
                self.remove_now(scope, current)?
            } else {
                pending(&shown, options)
            });
        };
        let Drafted { draft, back } = self.drafted(scope, current.key.clone(), &mut marked).await?;
        let marked = self.commit(scope, draft, Expect::At(current.version))?;
        if is_crd {
            self.after_write(scope, current.key.name());
        }
        self.propagate(scope, &marked);
        Ok(if finalizers.is_empty() && grace == 0 {
            self.remove_now(scope, &marked)?
        } else {
            pending(&*scope.in_request_version(marked, back)?, options)
        })
    }

    /// Marks a namespace as terminating. The namespace controller then deletes its contents.
    fn delete_namespace(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        object: Map<String, Value>,
    ) -> Result<Deleted, WriteError> {
        let marked = self.mark_namespace(scope, current, object)?;
        let deleted = pending(&marked, &DeleteOptions::default());
        if !scope.dry_run {
            self.empty_namespace(current.key.name());
        }
        Ok(deleted)
    }

    /// Sets the deletion metadata of an object. Returns `None` if they are already set and the request
    /// neither shortens the grace period nor changes the finalizers.
    fn mark(
        &self,
        mut object: Map<String, Value>,
        grace: i64,
        finalizers: &[String],
    ) -> Option<Map<String, Value>> {
        let left = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let at = self.clock.timestamp().checked_add(left).unwrap_or(Timestamp::MAX);
        let same_finalizers = object_meta::finalizers(&object) == finalizers;
        let metadata = metadata_of_mut(&mut object);
        let first = !metadata.contains_key("deletionTimestamp");
        let left = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
        if !first && grace >= left && same_finalizers {
            return None;
        }
        if first || grace < left {
            metadata.insert("deletionTimestamp".into(), wire_time(at).into());
            metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
        }
        if finalizers.is_empty() {
            metadata.remove("finalizers")
        } else {
            metadata.insert("finalizers".into(), finalizers.into())
        };
        let counted = object_meta::counts_deletion(&object);
        let metadata = metadata_of_mut(&mut object);
        if first
            && counted
            && let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0)
        {
            metadata.insert("generation".into(), generation.wrapping_add(1).into());
        }
        Some(object)
    }

    fn remove_now(&self, scope: Scope<'_>, current: &Stored) -> Result<Deleted, Changed> {
        let version = self.remove(scope, current)?;
        let kind = scope.kind();
        let body = if kind.traits.has(Traits::RETURNS_DELETED) {
            let mut body = BytesMut::new();
            current.write_at(version, ObjectForm::Object, &mut body);
            body.extend_from_slice(b"\n");
            body.freeze()
        } else {
            success(kind, current.key.name(), &current.uid).into()
        };
        Ok(Deleted { body, accepted: false })
    }
}

fn pending(current: &Stored, options: &DeleteOptions) -> Deleted {
    let mut body = BytesMut::from(current.as_slice());
    body.extend_from_slice(b"\n");
    Deleted { body: body.freeze(), accepted: options.orphan == Some(false) }
}

fn grace(kind: &KindDefinition, object: &Map<String, Value>, options: &DeleteOptions) -> i64 {
    if !kind.traits.has(Traits::GRACEFUL) {
        return 0;
    }
    let at = |part: &str, name: &str| object.get(part).and_then(|part| part.get(name));
    let bound = at("spec", "nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    let over =
        at("status", "phase").and_then(Value::as_str).is_some_and(|p| matches!(p, "Succeeded" | "Failed"));
    if !bound || over {
        return 0;
    }
    let own = at("spec", "terminationGracePeriodSeconds").and_then(Value::as_i64);
    match options.grace.or(own).unwrap_or(30) {
        negative if negative < 0 => 1,
        grace => grace,
    }
}

pub(crate) fn check_preconditions(
    kind: &KindDefinition,
    current: &Stored,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let name = current.key.name();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != &*current.uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            current.uid
        );
        return Err(ApiError::precondition(kind, name, &why));
    }
    let stored = current.version.to_string();
    if let Some(version) = options.version.as_deref().filter(|version| *version != stored) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({stored}). The object might have been modified"
        );
        return Err(ApiError::precondition(kind, name, &why));
    }
    Ok(())
}
