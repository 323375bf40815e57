//! The stage after a commit: queues the tasks of the controllers that the write makes necessary.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use informer_core::Gvr;
use informer_workqueue::WorkQueue;
use serde_json::{Map, Value};

use crate::admission::Scope;
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, definition_of};
use crate::pipeline::Pipeline;
use crate::registry::Resource;
use crate::registry::storage::{DependentKey, Stored};

/// A controller task that runs before the response to the request that caused it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PromptTask {
    /// Accept the names of a CRD and serve it, or stop serving it.
    Definition(String),
    /// Update the rules of ClusterRoles with an `aggregationRule`.
    AggregateRoles,
    /// Release the names of a removed CRD, so that other CRDs can use them.
    ReleaseNames(String),
    /// Create or restore the default objects of a namespace.
    NamespaceDefaults(String),
}

/// A task that deletes objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum BackgroundTask {
    /// Queue a check of each dependent in a page, because their owner was removed. The page follows the key
    /// `after`, or is the first one.
    DependentsOf { owner: Box<str>, after: Option<DependentKey> },
    /// Delete an object if none of its owners exists.
    Dependent(ObjectRef),
    /// Orphan or delete the dependents of an object that is being deleted, as its finalizers require.
    Terminating(ObjectRef),
    /// Queue the foreground deletion of the page of dependents after the key `after`.
    ForegroundDependents { owner: ObjectRef, after: DependentKey },
    /// Delete a dependent in the foreground, because its owner is deleted in the foreground.
    DeleteForeground(ObjectRef),
    /// Remove an object that is deleted in the foreground and has no dependents left.
    FinishForeground(ObjectRef),
    /// Delete the contents of a terminating namespace.
    Namespace(String),
    /// Delete the custom resources of a CRD that is being deleted.
    CustomResources(String),
}

/// The field manager of the rules in aggregated ClusterRoles, as in kube-controller-manager.
pub(crate) const AGGREGATION_MANAGER: &str = "clusterrole-aggregation-controller";
/// The field manager of the default objects of namespaces, as in a cluster.
pub(crate) const NAMESPACE_DEFAULTS_MANAGER: &str = "kube-controller-manager";
/// The name of the ServiceAccount that each namespace has.
pub(crate) const ACCOUNT: &str = "default";
/// The name of the ConfigMap with the CA of the server that each namespace has.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
/// Delay before the deletion of a new object whose owners do not exist. Without it, a controller with a stale
/// cache could re-create the object in an endless loop while simulated time stands still.
const ABSENT_OWNER_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ControllerQueues {
    pub(crate) prompt: WorkQueue<PromptTask>,
    pub(crate) background: WorkQueue<BackgroundTask>,
    /// True while a task on a runtime processes the background queue.
    pub(crate) running: Arc<AtomicBool>,
}

impl Default for ControllerQueues {
    fn default() -> Self {
        Self { prompt: WorkQueue::new(), background: WorkQueue::new(), running: Arc::default() }
    }
}

impl ControllerQueues {
    /// Waits until no controller task is queued, delayed or running.
    pub(crate) async fn idle(&self) {
        self.prompt.idle().await;
        self.background.idle().await;
    }
}

impl Drop for ControllerQueues {
    /// Stops the task that waits for delayed controller tasks.
    fn drop(&mut self) {
        self.background.shut_down();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectRef {
    pub(crate) table: usize,
    pub(crate) key: Box<str>,
    pub(crate) uid: Box<str>,
}

impl ObjectRef {
    pub(crate) fn of(resource: &Resource, stored: &Stored) -> Self {
        Self { table: resource.table, key: stored.key.as_str().into(), uid: stored.uid.clone() }
    }
}

pub(crate) struct StoredObject {
    pub(crate) resource: Arc<Resource>,
    pub(crate) stored: Arc<Stored>,
}

impl StoredObject {
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope::new(&self.resource, self.stored.key.namespace())
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef::of(&self.resource, &self.stored)
    }
}

impl Pipeline {
    pub(crate) fn after_write(&self, scope: Scope<'_>, name: &str) {
        if !scope.dry_run && is_definition(scope.kind()) {
            self.queue_definition(name);
        }
        // Writes of the aggregation itself need no further aggregation, because it runs until the roles no
        // longer change.
        let is_aggregation = scope.requester.is_none() && scope.manager == Some(AGGREGATION_MANAGER);
        if !scope.dry_run && is_role(scope.kind()) && !is_aggregation {
            self.aggregate_roles();
        }
        // The controller's own writes need no further one.
        let is_own = scope.requester.is_none() && scope.manager == Some(NAMESPACE_DEFAULTS_MANAGER);
        if !scope.dry_run && !is_own {
            self.restore_namespace_defaults(scope, name);
        }
    }

    /// Queues the namespace of a written or removed object if the object is one of the namespace's default
    /// objects, or the namespace itself.
    fn restore_namespace_defaults(&self, scope: Scope<'_>, name: &str) {
        if self.root_ca.is_none() {
            return;
        }
        let kind = scope.kind();
        let namespace = match scope.namespace {
            None if kind.is("", "Namespace") => name,
            Some(namespace)
                if (name == ROOT_CA && kind.is("", "ConfigMap"))
                    || (name == ACCOUNT && kind.is("", "ServiceAccount")) =>
            {
                namespace
            }
            _ => return,
        };
        self.queues.prompt.add(PromptTask::NamespaceDefaults(namespace.to_owned()));
    }

    /// Queues the controller tasks for an object that was removed. They continue the deletion of its
    /// namespace, CRD or owners.
    pub(crate) fn after_removal(&self, scope: Scope<'_>, removed: &Stored) {
        self.collect_after(removed);
        self.restore_namespace_defaults(scope, removed.key.name());
        if is_role(scope.kind()) {
            self.aggregate_roles();
        }
        if is_definition(scope.kind()) {
            let name = removed.key.name().to_owned();
            self.queues.prompt.add(PromptTask::ReleaseNames(name));
        }
        if let Some(namespace) = removed.key.namespace()
            && self.is_terminating(&Gvr::new("", "v1", "namespaces"), namespace)
        {
            self.empty_namespace(namespace);
        }
        if let Some(name) = definition_of(scope.kind())
            && self
                .is_terminating(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"), &name)
        {
            self.queue_definition(&name);
        }
    }

    fn is_terminating(&self, gvr: &Gvr, name: &str) -> bool {
        let Ok(resource) = self.resource(gvr) else { return false };
        self.find(&resource, None, name).is_ok_and(|stored| stored.terminating)
    }

    /// Queues a CRD, so that the controller updates its served versions and names, or continues its deletion.
    pub(crate) fn queue_definition(&self, name: &str) {
        self.queues.prompt.add(PromptTask::Definition(name.to_owned()));
    }

    pub(crate) fn delete_custom_resources(&self, definition: &str) {
        self.queues.background.add(BackgroundTask::CustomResources(definition.to_owned()));
    }

    fn aggregate_roles(&self) {
        if self.controllers.roles {
            self.queues.prompt.add(PromptTask::AggregateRoles);
        }
    }

    pub(crate) fn empty_namespace(&self, name: &str) {
        if self.controllers.namespaces {
            self.queues.background.add(BackgroundTask::Namespace(name.to_owned()));
        }
    }

    /// Queues the dependents of an object that was removed, and its owners that are deleted in the
    /// foreground.
    pub(crate) fn collect_after(&self, removed: &Stored) {
        if !self.controllers.garbage {
            return;
        }
        let queue = &self.queues.background;
        if self.storage.read().has_dependents(&removed.uid) {
            queue.add(BackgroundTask::DependentsOf { owner: removed.uid.clone(), after: None });
        }
        if removed.owners.is_empty() {
            return;
        }
        for reference in references(&parse(removed.as_slice())) {
            let owner = self.owner(&reference, removed.key.namespace());
            if let Some(owner) = owner.filter(|owner| owner.stored.terminating) {
                queue.add(BackgroundTask::FinishForeground(owner.reference()));
            }
        }
    }

    /// Queues the orphaning or deletion of the dependents of an object that was marked as deleted.
    pub(crate) fn propagate(&self, scope: Scope<'_>, marked: &Stored) {
        if self.controllers.garbage && !scope.dry_run {
            let marked = ObjectRef::of(scope.resource, marked);
            self.queues.background.add(BackgroundTask::Terminating(marked));
        }
    }

    /// Queues an object that a request has created for deletion after a delay, if none of its owners exists.
    pub(crate) fn check_owners_of_new(&self, resource: &Arc<Resource>, created: &Arc<Stored>) {
        if !self.controllers.garbage || created.owners.is_empty() {
            return;
        }
        let created = StoredObject { resource: Arc::clone(resource), stored: Arc::clone(created) };
        if !self.has_owner(&created) {
            let task = BackgroundTask::Dependent(created.reference());
            self.queues.background.add_after(task, ABSENT_OWNER_DELAY);
        }
    }

    pub(crate) fn find_at(&self, table: usize, key: &str) -> Option<StoredObject> {
        let registry = self.registry.read();
        let mut all = registry.iter().filter(|resource| resource.table == table);
        let resource = all.clone().find(|resource| resource.stored_as.is_none()).or_else(|| all.next())?;
        let stored = self.storage.read().get(table, key).cloned()?;
        Some(StoredObject { resource: Arc::clone(resource), stored })
    }

    pub(crate) fn has_owner(&self, dependent: &StoredObject) -> bool {
        let object = parse(dependent.stored.as_slice());
        let namespace = dependent.stored.key.namespace();
        references(&object).iter().any(|reference| self.owner(reference, namespace).is_some())
    }

    pub(crate) fn owner(
        &self,
        reference: &Map<String, Value>,
        namespace: Option<&str>,
    ) -> Option<StoredObject> {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let resource = self.registry.read().by_kind(text("apiVersion"), text("kind"))?;
        let namespace = namespace.filter(|_| resource.kind.namespaced);
        let stored = self.find(&resource, namespace, text("name")).ok()?;
        (&*stored.uid == text("uid")).then_some(StoredObject { resource, stored })
    }
}

fn references(object: &Value) -> Vec<Map<String, Value>> {
    let all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    all.filter_map(|reference| reference.as_object().cloned()).collect()
}

fn is_definition(kind: &KindDefinition) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn is_role(kind: &KindDefinition) -> bool {
    kind.is("rbac.authorization.k8s.io", "ClusterRole")
}
