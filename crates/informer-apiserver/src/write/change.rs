//! Changes of objects that are there: updates, patches, and what else takes the place of a stored object.

use std::sync::Arc;

use serde_json::Value;

use super::merge::merge_update;
use super::metadata::{self, metadata_of, metadata_of_mut};
use super::patch::PatchType;
use super::retry::retry;
use super::scope::{Drafted, Scope};
use super::{Object, Validation, WriteMode, Written, grace_of, is_terminating_object, namespace, own};
use crate::admission::Phase;
use crate::error::{ApiError, Cause};
use crate::kinds::{Kind, Traits};
use crate::plugins::Coming;
use crate::server::{Shared, parse};
use crate::storage::{Changed, Expect, Stored, draft};

impl Shared {
    pub(crate) fn update(
        &self,
        scope: Scope<'_>,
        name: &str,
        object: Value,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        let mut object = metadata::checked(kind, scope.namespace, object)?;
        let warnings = self.decoded(scope, &mut object, mode)?;
        match self.update_fitted(scope, name, &object, mode) {
            Ok(written) => Ok(written.warned(warnings)),
            Err(error) => Err(error.warned(warnings)),
        }
    }

    /// Updates with an object that is known to fit its kind.
    fn update_fitted(
        &self,
        scope: Scope<'_>,
        name: &str,
        object: &Object,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        metadata::check_url_name(object, name)?;
        let given = metadata::version(object)?;
        retry(kind, name, || {
            let current = match self.find(scope.resource, scope.namespace, name) {
                Err(missing)
                    if missing.code == 404
                        && kind.traits.has(Traits::UPSERT)
                        && mode != WriteMode::Status =>
                {
                    return self.create_by_update(scope, object.clone(), mode).map(Ok);
                }
                found => found?,
            };
            if given.is_some_and(|given| given != current.version) {
                return Err(scope.outdated(self, object, name));
            }
            metadata::check_precondition(kind, &current, object)?;
            let needs_version = kind.traits.has(Traits::NEEDS_VERSION) && !mode.is_of_program();
            if given.is_none() && needs_version {
                return Err(ApiError::version_missing(kind, name));
            }
            let mut new = object.clone();
            let shown = scope.present(&current)?;
            let old = self.read_back(scope, &shown);
            self.own_replaced(scope, &old, &mut new, mode)?;
            match self.replace_shown(scope, (&current, shown, old), new, mode)? {
                Ok(written) => {
                    self.after_write(scope, name);
                    Ok(Ok(written))
                }
                Err(Changed) if given.is_some() => Err(ApiError::modified(kind, name)),
                Err(Changed) => Ok(Err(Changed)),
            }
        })
    }

    fn create_by_update(
        &self,
        scope: Scope<'_>,
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        metadata_of_mut(&mut object).remove("resourceVersion");
        self.create(scope, Value::Object(object), mode)
    }

    /// Puts `object` in the place of `current`. The inner error says that it was changed meanwhile.
    pub(super) fn replace(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        object: Object,
        mode: WriteMode,
    ) -> Result<Result<Written, Changed>, ApiError> {
        let shown = scope.present(current)?;
        let old = self.read_back(scope, &shown);
        self.replace_shown(scope, (current, shown, old), object, mode)
    }

    /// A stored object as what comes is held against it: what this process wrote may have another form than what comes from a
    /// client, and that alone is no change.
    fn read_back(&self, scope: Scope<'_>, shown: &Stored) -> Value {
        let mut value = parse(shown.as_slice());
        if let (Some(message), Value::Object(object)) = (self.message(scope.kind()), &mut value)
            && scope.validation != Validation::Unchecked
        {
            crate::typed::form(message, object);
        }
        value
    }

    /// The same where the object has been [read back](Self::read_back) before, as it is shown.
    fn replace_shown(
        &self,
        scope: Scope<'_>,
        (current, shown, whole): (&Arc<Stored>, Arc<Stored>, Value),
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Result<Written, Changed>, ApiError> {
        let kind = scope.kind();
        let Value::Object(old) = &whole else { return Err(ApiError::unknown_resource()) };
        scope.admit(Phase::Mutate, Some(&mut object), Some((old, current.version)))?;
        scope.check_escalation(self, Some(old), &object)?;
        let mut new = merge_update(kind, &whole, object, mode)?;
        scope.check_params(self, current.key.name(), Some(old), &new)?;
        let advice = scope.advice(&mut new, Some(&whole), mode);
        // Until the end: nothing that follows here writes services.
        let _allocating = kind.is("", "Service").then(|| self.allocating.lock());
        if matches!(mode, WriteMode::Main | WriteMode::Whole) {
            self.allocate(kind, &mut new, Some(old), mode)?;
        }
        let taking = scope.taking(mode, Some(&whole));
        self.check_limits(taking, &mut new)?;
        let key = current.key.clone();
        let coming = Coming { scope, mode, name: key.name(), object: &new, old: Some(old) };
        let told = self.judge(coming, advice)?;
        let warned = |error: ApiError| error.warned(told.clone());
        scope.admit(Phase::Validate, Some(&mut new), Some((old, current.version))).map_err(warned)?;
        let _charging = self.charge(taking, &mut new).map_err(warned)?;
        let held = kind.is("", "Namespace") && !namespace::finalizers(&new).is_empty();
        if is_terminating_object(&new)
            && metadata::finalizers(&new).is_empty()
            && grace_of(&new) == 0
            && !held
        {
            // The last finalizer is gone: the object is removed, not written. The answer has the old version.
            let bytes = draft(kind, key, &new).preview(current.version);
            let removed = self.remove(scope, current);
            return Ok(removed.map(|_| Written {
                object: bytes,
                stored: None,
                created: false,
                warnings: told,
            }));
        }
        if is_same(old, &new) {
            return Ok(Ok(Written::stored(shown, false).warned(told)));
        }
        let Drafted { draft, back } = scope.draft(key, &mut new, current.version)?;
        match self.commit(scope, draft, Expect::At(current.version))? {
            Ok(stored) => Ok(Ok(Written::stored(scope.shown(stored, back)?, false).warned(told))),
            Err(changed) => Ok(Err(changed)),
        }
    }

    /// Writes an object as it is, if nothing has changed meanwhile.
    pub(super) fn put(
        &self,
        scope: Scope<'_>,
        current: &Stored,
        object: &Object,
    ) -> Result<Result<Arc<Stored>, Changed>, ApiError> {
        let Drafted { draft, .. } = scope.draft(current.key.clone(), &mut object.clone(), current.version)?;
        self.commit(scope, draft, Expect::At(current.version))
    }

    pub(crate) fn patch(
        &self,
        scope: Scope<'_>,
        name: &str,
        patch: &PatchType,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        retry(kind, name, || {
            let current = self.find(scope.resource, scope.namespace, name)?;
            let shown = scope.present(&current)?;
            let old = self.read_back(scope, &shown);
            let patched = || {
                let patched = patch.apply(&self.schema, kind, old.clone())?;
                metadata::checked(kind, scope.namespace, patched)
            };
            let mut object = patched()?;
            let again = || patched().ok().map(Value::Object);
            let warnings = self.shaped(scope, &mut object, patch.origin(&again))?;
            let written = self.put_patched(scope, (&current, shown, old), object, mode);
            match written.map_err(|error| error.warned(warnings.clone()))? {
                Ok(written) => {
                    self.after_write(scope, name);
                    Ok(Ok(written.warned(warnings)))
                }
                Err(Changed) if patch.names_version() => Err(ApiError::modified(kind, name)),
                Err(Changed) => Ok(Err(Changed)),
            }
        })
    }

    /// Puts a patched object that fits its kind in the place of `current`.
    fn put_patched(
        &self,
        scope: Scope<'_>,
        (current, shown, old): (&Arc<Stored>, Arc<Stored>, Value),
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Result<Written, Changed>, ApiError> {
        let name = current.key.name();
        metadata::check_url_name(&object, name)?;
        if metadata::version(&object)?.is_some_and(|version| version != current.version) {
            return Err(scope.outdated(self, &object, name));
        }
        self.own_replaced(scope, &old, &mut object, mode)?;
        self.replace_shown(scope, (current, shown, old), object, mode)
    }
}

/// True where nothing but the version differs, and when managers wrote: then nothing is written.
fn is_same(old: &Object, new: &Object) -> bool {
    let (Some(before), Some(after)) = (metadata_of(old), metadata_of(new)) else { return old == new };
    // An object may have come without its type.
    are_same(old, new, &["kind", "apiVersion"], "metadata")
        && are_same(before, after, &["resourceVersion"], own::FIELDS)
        && own::are_same(before.get(own::FIELDS), after.get(own::FIELDS))
}

/// Whether two objects have the same members but for one. Those that are `taken` from the old one may be anything in the new.
fn are_same(old: &Object, new: &Object, taken: &[&str], but: &str) -> bool {
    let judged = |name: &String| name != but && !taken.contains(&name.as_str());
    let [before, after] = [old, new].map(|object| object.iter().filter(move |(name, _)| judged(name)));
    taken.iter().all(|name| old.contains_key(*name) || !new.contains_key(*name)) && before.eq(after)
}

impl ApiError {
    fn version_missing(kind: &Kind, name: &str) -> Self {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        let mut error = Self::invalid(kind, name, cause);
        // Upstream names the resource here, not the kind.
        error.message = format!(
            "{} \"{name}\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            kind.qualified_resource()
        );
        if let Some(details) = &mut error.details {
            details.kind.clone_from(&kind.gvr.resource);
        }
        error
    }
}
