//! The CRD controllers: serve, update and remove custom resources.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::Value;

use crate::admission::Scope;
use crate::controllers::{ControllerManager, MAX_OBJECTS_PER_TASK};
use crate::model::crd::definition::{Served, kinds, resources};
use crate::model::crd::names::ConditionState;
use crate::model::crd::{CLEANUP_FINALIZER, approval_condition, names};
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::pipeline::DeleteOptions;
use crate::pipeline::WriteError;
use crate::pipeline::ready::ready;
use crate::registry::conversion::Converter;
use crate::registry::storage::{Stored, draft_stored};
use crate::registry::{Defined, Resource};

mod naming;

pub(crate) use naming::NameCache;

const ESTABLISHED: ConditionState<'_> = ConditionState {
    status: "True",
    reason: "InitialNamesAccepted",
    message: "the initial names have been accepted",
};

/// The condition of a CRD in a group of the Kubernetes community.
const APPROVAL: &str = "KubernetesAPIApprovalPolicyConformant";

/// Maximum number of steps of one CRD reconciliation. A CRD needs few steps, but a step is repeated after a
/// conflict with another write.
const MAX_STEPS: usize = 32;

pub(crate) fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

pub(crate) enum CrdStep {
    Nothing,
    /// The reconciliation has written the CRD. The value is the new object, or `None` if the write removed
    /// it.
    Written(Option<(Arc<Stored>, Value)>),
    /// Another write changed the CRD first, so the step must be repeated.
    Conflict,
}

impl ControllerManager {
    /// Reconciles a CRD: serves its resources, or removes them if it is deleted. Returns true if its accepted
    /// names have changed.
    pub(crate) fn reconcile_definition(&self, name: &str) -> bool {
        let Ok(resource) = self.resource(&definitions()) else { return false };
        let read = || {
            let stored = self.find(&resource, None, name).ok()?;
            let definition = parse(stored.as_slice());
            Some((stored, definition))
        };
        let (mut renamed, mut next) = (false, None);
        for _ in 0..MAX_STEPS {
            let Some((stored, definition)) = next.take().or_else(read) else { break };
            let step = if definition["metadata"]["deletionTimestamp"].is_string() {
                self.finish_removal(&resource, &stored, definition)
            } else {
                match self.accept_names(&resource, &stored, &definition) {
                    CrdStep::Nothing => self.establish(&resource, &stored, definition),
                    step => {
                        renamed |= matches!(step, CrdStep::Written(_));
                        step
                    }
                }
            };
            match step {
                CrdStep::Nothing => break,
                CrdStep::Written(written) => next = written,
                CrdStep::Conflict => {}
            }
        }
        renamed
    }

    /// Serves the resources of a CRD whose names are accepted, and sets the condition `Established`. For a
    /// CRD in a protected group, sets the condition about its approval first.
    fn establish(&self, resource: &Arc<Resource>, stored: &Arc<Stored>, mut definition: Value) -> CrdStep {
        if let Some(approval) = approval_condition(&definition) {
            let message = &approval.message;
            let state = ConditionState { status: approval.status, reason: approval.reason, message };
            if !names::has_condition(&definition, APPROVAL, state) {
                names::set_condition(&mut definition, APPROVAL, state, &self.now());
                return self.write_definition(resource, stored, definition);
            }
        }
        if let Some(spec) = names::served_spec(&definition) {
            self.serve(&spec);
        }
        if !names::is_true(&definition, "NamesAccepted") || names::is_true(&definition, "Established") {
            return CrdStep::Nothing;
        }
        names::set_condition(&mut definition, "Established", ESTABLISHED, &self.now());
        self.write_definition(resource, stored, definition)
    }

    pub(crate) fn write_definition(
        &self,
        resource: &Arc<Resource>,
        current: &Arc<Stored>,
        definition: Value,
    ) -> CrdStep {
        let Value::Object(mut object) = definition else { return CrdStep::Nothing };
        self.update_status_managers(resource, current, &mut object);
        match self.put_or_remove(Scope::new(resource, None), current, &object) {
            Ok(stored) => CrdStep::Written(stored.map(|stored| (stored, Value::Object(object)))),
            Err(WriteError::Conflict | WriteError::NestedConflict(_)) => CrdStep::Conflict,
            Err(WriteError::Api(_)) => CrdStep::Nothing,
        }
    }

    /// Registers the resources of a CRD. All its versions share one table.
    ///
    /// If the resources were already served for an earlier state of the CRD, their watches end and their
    /// history is dropped. kube-apiserver does the same, because it creates new caches.
    pub(crate) fn serve(&self, spec: &Value) {
        let mut all = kinds(spec);
        let Some(stored) = all.iter().find(|served| served.stored).map(|served| served.kind.clone()) else {
            return;
        };
        let stored = Arc::new(stored);
        let (group, plural) = (stored.gvr.group.clone(), stored.gvr.resource.clone());
        let mut registry = self.registry.write();
        let before = registry.definition(&group, &plural);
        if before.as_ref().is_some_and(|before| before.spec == *spec) {
            return;
        }
        // Built-in resources are never replaced.
        all.retain(|served| registry.get(&served.kind.gvr).is_none_or(|known| known.kind.is_custom()));
        if all.is_empty() {
            return;
        }
        let known = all.iter().find_map(|served| registry.get(&served.kind.gvr));
        let (table, changed) = match (&before, known) {
            (Some(before), _) => (before.table, before.changed.clone()),
            (None, Some(known)) => (known.table, known.changed.clone()),
            (None, None) => (self.storage.write().add_table(), tokio::sync::watch::Sender::default()),
        };
        registry.retain(|kind| !(kind.is_custom() && is_of(kind, &stored)));
        let shaped: Vec<KindDefinition> = all.iter().map(|served| served.kind.clone()).collect();
        let mut versions = Vec::new();
        for Served { kind, stored: is_stored, served } in all {
            let stored_as = (!is_stored).then(|| Arc::clone(&stored));
            let converter = Converter::new(&spec["conversion"]).map(Arc::new);
            let resource = Resource { kind, table, changed: changed.clone(), stored_as, converter };
            versions.push(if served { registry.add(resource) } else { Arc::new(resource) });
        }
        let defined = Defined { spec: spec.clone(), table, changed: changed.clone(), versions };
        registry.define(&group, &plural, Some(defined));
        drop(registry);
        if before.is_some() {
            self.reencode(table, &shaped);
            changed.send_replace(());
        }
    }

    /// Encodes all stored objects of a changed CRD again, as reads return them with the new schema. The
    /// objects keep their resourceVersions, and the fields that only an earlier schema contains until their
    /// next write.
    fn reencode(&self, table: usize, kinds: &[KindDefinition]) {
        let live = self.storage.read().live(table);
        let shaped = live.iter().filter_map(|stored| {
            let Value::Object(object) = parse(stored.written().unwrap_or(stored.as_slice())) else {
                return None;
            };
            let kind = kinds.iter().find(|kind| object["apiVersion"] == kind.api_version)?;
            Some((draft_stored(kind, stored.key.clone(), &object), stored.version))
        });
        let shaped: Vec<_> = shaped.collect();
        self.storage.write().reshape(table, shaped);
    }

    /// Stops serving the resources of a CRD that is being deleted if no objects are left. Otherwise queues
    /// the deletion of the objects.
    fn finish_removal(
        &self,
        resource: &Arc<Resource>,
        current: &Arc<Stored>,
        mut definition: Value,
    ) -> CrdStep {
        if let Some(served) = self.storage_resource(&definition["spec"]) {
            if self.storage.read().live(served.table).iter().next().is_some() {
                self.delete_custom_resources(current.key.name());
                return CrdStep::Nothing;
            }
            let Gvr { group, resource: plural, .. } = &served.kind.gvr;
            let mut registry = self.registry.write();
            registry.retain(|kind| !(kind.is_custom() && is_of(kind, &served.kind)));
            registry.define(group, plural, None);
            drop(registry);
            self.storage.write().close(served.table);
            self.announce(&served);
        }
        let held = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = held.iter().filter(|name| *name != CLEANUP_FINALIZER).cloned().collect();
        if kept == held {
            // Only finalizers of clients are left on the CRD, so there is nothing to do until they are
            // removed.
            return CrdStep::Nothing;
        }
        definition["metadata"]["finalizers"] = kept.into();
        self.write_definition(resource, current, definition)
    }

    /// Deletes a batch of the custom resources of a CRD that is being deleted. Each removed object queues the
    /// CRD again.
    pub(crate) fn sync_custom_resources(&self, definition: &str) {
        let Ok(resource) = self.resource(&definitions()) else { return };
        let Ok(stored) = self.find(&resource, None, definition) else { return };
        let spec = &parse(stored.as_slice())["spec"];
        let Some(served) = self.storage_resource(spec).filter(|_| stored.terminating) else { return };
        let live = self.storage.read().live(served.table);
        let mut left = live.iter().filter(|stored| !stored.terminating);
        let mut deleted = false;
        for stored in left.by_ref().take(MAX_OBJECTS_PER_TASK) {
            let scope = Scope::new(&served, stored.key.namespace());
            deleted |= ready(self.delete(scope, stored.key.name(), &DeleteOptions::now())).is_ok();
        }
        // If no object could be deleted, another attempt would fail, too.
        if deleted && left.next().is_some() {
            self.delete_custom_resources(definition);
        }
    }

    /// Returns the storage version of a CRD, or another served version if the storage version is not served.
    ///
    /// Returns `None` while the names of the CRD are not accepted, because the resources with these names
    /// then belong to another CRD.
    fn storage_resource(&self, spec: &Value) -> Option<Arc<Resource>> {
        let gvrs = resources(spec);
        let first = gvrs.first()?;
        self.registry.read().definition(&first.group, &first.resource)?;
        let served =
            || gvrs.iter().filter_map(|gvr| self.resource(gvr).ok()).filter(|one| one.kind.is_custom());
        served().find(|resource| resource.stored_as.is_none()).or_else(|| served().next())
    }
}

fn is_of(kind: &KindDefinition, stored: &KindDefinition) -> bool {
    kind.gvr.group == stored.gvr.group && kind.gvr.resource == stored.gvr.resource
}
