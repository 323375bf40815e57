//! Commits a write: checks its preconditions again under the storage lock, and stores the object.

use std::sync::Arc;

use informer_core::Gvr;

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::kinds::{KindDefinition, definition_of};
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::retry::WriteError;
use crate::pipeline::{Commit, DEFINITIONS, Pipeline, UsageGuard};
use crate::registry::storage::{Changed, Draft, EventType, Expect, Storage, Stored};
use crate::registry::{Registry, Resource};

struct NamespacePrerequisite<'a> {
    /// The resource `namespaces`.
    resource: Arc<Resource>,
    name: &'a str,
    /// True if the namespace must exist.
    required: bool,
}

/// The namespace and the CRD whose state decides whether an object may be created.
struct Prerequisites<'a> {
    namespace: Option<NamespacePrerequisite<'a>>,
    definition: Option<(Arc<Resource>, String)>,
}

impl Prerequisites<'_> {
    /// Checks that the namespace exists (if required), and that neither the namespace nor the CRD is being
    /// deleted.
    fn check(&self, storage: &Storage, kind: &KindDefinition, name: &str) -> Result<(), ApiError> {
        if let Some(namespace) = &self.namespace {
            match storage.get(namespace.resource.table, namespace.name) {
                None if namespace.required => {
                    return Err(ApiError::not_found(&namespace.resource.kind, namespace.name));
                }
                Some(found) if found.terminating => {
                    return Err(ApiError::terminating_namespace(kind, name, namespace.name));
                }
                _ => {}
            }
        }
        if let Some((definitions, definition)) = &self.definition
            && storage.get(definitions.table, definition).is_some_and(|found| found.terminating)
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(kind, name, why));
        }
        Ok(())
    }
}

impl Pipeline {
    /// Checks whether the namespace and the CRD allow the creation of an object.
    /// [`commit_new`](Self::commit_new) repeats the check under the storage lock.
    pub(crate) fn check_prerequisites(
        &self,
        scope: Scope<'_>,
        mode: WriteMode,
        name: &str,
    ) -> Result<(), ApiError> {
        let prerequisites = self.prerequisites(scope, mode)?;
        prerequisites.check(&self.storage.read(), scope.kind(), name)
    }

    fn prerequisites<'a>(&self, scope: Scope<'a>, mode: WriteMode) -> Result<Prerequisites<'a>, ApiError> {
        let namespace = scope.namespace.filter(|_| !mode.is_of_program());
        let namespace = namespace.map(|name| {
            let resource = self.resource(&Gvr::new("", "v1", "namespaces"))?;
            Ok::<_, ApiError>(NamespacePrerequisite { resource, name, required: self.require_namespaces })
        });
        let definition = definition_of(scope.kind()).filter(|_| scope.kind().schema.is_some());
        let definition = definition.and_then(|definition| {
            let gvr = Gvr::new(DEFINITIONS, "v1", "customresourcedefinitions");
            Some((self.resource(&gvr).ok()?, definition))
        });
        Ok(Prerequisites { namespace: namespace.transpose()?, definition })
    }

    /// Stores a new object if its name is not in use and its namespace and CRD are not being deleted.
    ///
    /// These conditions are checked under the storage lock. Otherwise an object could be created after the
    /// contents of the namespace or CRD were deleted.
    pub(crate) fn commit_new(
        &self,
        scope: Scope<'_>,
        draft: Draft,
        mode: WriteMode,
        charged: Option<UsageGuard<'_>>,
    ) -> Result<Arc<Stored>, WriteError> {
        let prerequisites = self.prerequisites(scope, mode)?;
        let name = draft.key.name().to_owned();
        let check = |storage: &Storage| prerequisites.check(storage, scope.kind(), &name);
        let committed = self.commit_if(scope, (draft, Expect::Absent), charged, check)?;
        if !scope.dry_run && !mode.is_of_program() {
            self.check_owners_of_new(scope.resource, &committed);
        }
        Ok(committed)
    }

    /// Stores an object unless another write has changed it.
    pub(crate) fn commit(
        &self,
        scope: Scope<'_>,
        draft: Draft,
        expect: Expect,
    ) -> Result<Arc<Stored>, WriteError> {
        self.commit_charged(scope, draft, expect, None)
    }

    /// Stores an object that was [charged](Self::charge) to quotas, unless another write has changed it.
    pub(crate) fn commit_charged(
        &self,
        scope: Scope<'_>,
        draft: Draft,
        expect: Expect,
        charged: Option<UsageGuard<'_>>,
    ) -> Result<Arc<Stored>, WriteError> {
        self.commit_if(scope, (draft, expect), charged, |_| Ok(()))
    }

    fn commit_if(
        &self,
        scope: Scope<'_>,
        (draft, expect): (Draft, Expect),
        charged: Option<UsageGuard<'_>>,
        check: impl FnOnce(&Storage) -> Result<(), ApiError>,
    ) -> Result<Arc<Stored>, WriteError> {
        let Scope { resource, dry_run, .. } = scope;
        if dry_run {
            return Ok(self.commit_dry(resource, draft, expect)?);
        }
        // A CRD update changes first the registry and then the stored objects. Because of the registry lock,
        // this write happens before or after both changes.
        let registry = resource.kind.is_custom().then(|| self.registry.read());
        if let Some(registry) = &registry {
            check_served(registry, scope, &draft, expect)?;
        }
        let mut storage = self.storage.write();
        check(&storage)?;
        let before = storage.get(resource.table, draft.key()).cloned();
        let put = storage.put(resource.table, draft, expect);
        drop(storage);
        drop(registry);
        let stored = put?;
        self.note_written(resource, &stored);
        let commit = Commit {
            kind: &resource.kind,
            before: before.as_deref(),
            after: Some(&stored),
            version: stored.version,
        };
        self.update_quota_usage(&commit, charged);
        self.announce(resource);
        Ok(stored)
    }

    fn commit_dry(&self, resource: &Resource, draft: Draft, expect: Expect) -> Result<Arc<Stored>, Changed> {
        let current = self.storage.read().get(resource.table, draft.key()).map(|stored| stored.version);
        match (expect, current) {
            (Expect::Absent, None) => Ok(Arc::new(draft.seal_unstored(0, EventType::Added))),
            (Expect::At(seen), Some(version)) if seen == version => {
                Ok(Arc::new(draft.seal_unstored(version, EventType::Modified)))
            }
            _ => Err(Changed),
        }
    }
}

/// Rejects a custom resource that was decoded with the schema of a CRD version, if that version has changed
/// or was removed since.
///
/// Internal updates of existing objects are exempt.
fn check_served(
    registry: &Registry,
    scope: Scope<'_>,
    draft: &Draft,
    expect: Expect,
) -> Result<(), ApiError> {
    let own = scope.validation == FieldValidation::Unchecked && expect != Expect::Absent;
    if own || registry.serves(scope.resource) {
        return Ok(());
    }
    let kind = scope.kind();
    Err(match registry.get(kind.gvr()) {
        Some(_) => ApiError::conflict(kind, draft.key.name(), "its definition has been changed meanwhile"),
        None => ApiError::unknown_resource(),
    })
}

impl ApiError {
    fn terminating_namespace(kind: &KindDefinition, name: &str, namespace: &str) -> Self {
        let text =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = Self::forbidden(kind, name, &text);
        if let Some(details) = &mut error.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        error
    }
}
