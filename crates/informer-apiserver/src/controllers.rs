//! The controllers of a cluster that the server runs itself: garbage collection, namespaces, CRDs and aggregated roles.
//!
//! A write only adds a key to a work queue; its follow-up work never runs on the stack of the writer. There are two queues:
//!
//! - *Prompt* tasks take a bounded number of steps and run before the request is answered: a CRD that was created is served.
//! - *Background* tasks delete objects, as many as there are. A task on the tokio runtime of the request runs them, and lets other
//!   tasks run after each. Writes of the embedding program, and requests outside of a runtime, run them before they return.

mod garbage;
mod namespaces;
mod roles;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer_core::Gvr;
use informer_workqueue::WorkQueue;
use tokio::runtime::Handle;

pub(crate) use garbage::ObjectRef;

use crate::kinds::Kind;
use crate::server::Shared;
use crate::storage::Stored;
use crate::write::{Scope, definition_of};

/// Objects that one background task deletes before it is queued again behind the others.
pub(crate) const MAX_DELETIONS_PER_TASK: usize = 256;

/// A task that runs before the request that caused it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PromptTask {
    /// Accept the names of a CRD and serve it, or stop serving it.
    Definition(String),
    /// Bring the rules of aggregated ClusterRoles up to date.
    AggregateRoles,
}

/// A task that deletes objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum BackgroundTask {
    /// Check the dependents of an owner that was removed.
    DependentsOf(Box<str>),
    /// Delete an object if none of its owners exists.
    Dependent(ObjectRef),
    /// Orphan or delete the dependents of an object that is being deleted, as its finalizers require.
    Terminating(ObjectRef),
    /// Remove an object that is being deleted in the foreground and has no dependents left.
    FinishForeground(ObjectRef),
    /// Delete the contents of a terminating namespace.
    Namespace(String),
    /// Delete the objects of a terminating CRD.
    CustomResources(String),
}

/// The work queues of the controllers.
#[derive(Debug)]
pub(crate) struct ControllerQueues {
    prompt: WorkQueue<PromptTask>,
    background: WorkQueue<BackgroundTask>,
    /// A task on a runtime works on the background queue.
    running: Arc<AtomicBool>,
}

impl Default for ControllerQueues {
    fn default() -> Self {
        Self { prompt: WorkQueue::new(), background: WorkQueue::new(), running: Arc::default() }
    }
}

impl ControllerQueues {
    /// Waits until no task is queued, delayed or running.
    pub(crate) async fn idle(&self) {
        self.prompt.idle().await;
        self.background.idle().await;
    }
}

impl Drop for ControllerQueues {
    /// Ends the task that waits for delayed keys.
    fn drop(&mut self) {
        self.background.shut_down();
    }
}

impl Shared {
    /// Called after an object was written.
    pub(crate) fn after_write(&self, scope: Scope<'_>, name: &str) {
        if !scope.dry_run && is_definition(scope.kind()) {
            self.settle_definition(name);
        }
        // The aggregation itself runs until the roles no longer change, or for a limited number of rounds.
        let is_aggregation = scope.manager == Some(roles::MANAGER);
        if !scope.dry_run && is_role(scope.kind()) && !is_aggregation {
            self.aggregate_roles();
        }
    }

    /// Called after an object was removed: its namespace, its CRD or its owners may have waited for that.
    pub(crate) fn after_removal(&self, scope: Scope<'_>, removed: &Stored) {
        self.collect_after(removed);
        if is_role(scope.kind()) {
            self.aggregate_roles();
        }
        if is_definition(scope.kind()) {
            self.release_names(removed);
        }
        if let Some(namespace) = removed.key.namespace()
            && self.is_terminating(&Gvr::new("", "v1", "namespaces"), namespace)
        {
            self.empty_namespace(namespace);
        }
        if let Some(name) = definition_of(scope.kind())
            && self.is_terminating(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"), &name)
        {
            self.settle_definition(&name);
        }
    }

    fn is_terminating(&self, gvr: &Gvr, name: &str) -> bool {
        let Ok(resource) = self.resource(gvr) else { return false };
        self.find(&resource, None, name).is_ok_and(|stored| stored.terminating)
    }

    /// Queues a CRD: it is served, renamed or deleted as it says now.
    pub(crate) fn settle_definition(&self, name: &str) {
        self.queues.prompt.add(PromptTask::Definition(name.to_owned()));
    }

    /// Queues the deletion of all objects of a terminating CRD.
    pub(crate) fn delete_custom_resources(&self, definition: &str) {
        self.queues.background.add(BackgroundTask::CustomResources(definition.to_owned()));
    }

    fn aggregate_roles(&self) {
        if self.controllers.roles {
            self.queues.prompt.add(PromptTask::AggregateRoles);
        }
    }

    /// Queues the deletion of the contents of a namespace.
    pub(crate) fn empty_namespace(&self, name: &str) {
        if self.controllers.namespaces {
            self.queues.background.add(BackgroundTask::Namespace(name.to_owned()));
        }
    }

    /// Called at the end of a request: runs the prompt tasks, and starts the background ones.
    pub(crate) fn run_controllers(&self) {
        self.run_prompt_tasks();
        if self.queues.background.is_empty() && self.queues.background.waiting_len() == 0 {
            return;
        }
        match (Handle::try_current(), self.me.upgrade()) {
            (Ok(runtime), Some(server)) => {
                if !self.queues.running.swap(true, Ordering::AcqRel) {
                    let running = Running(Arc::clone(&self.queues.running));
                    runtime.spawn(run_in_background(server, running));
                }
            }
            _ => self.run_ready_tasks(),
        }
    }

    /// Called at the end of a write of the embedding program: runs all tasks that are ready, and those that they cause.
    pub(crate) fn finish_controllers(&self) {
        self.run_prompt_tasks();
        self.run_ready_tasks();
        // Delayed tasks need a timer.
        self.run_controllers();
    }

    fn run_prompt_tasks(&self) {
        while let Some(task) = self.queues.prompt.try_get() {
            match &*task {
                PromptTask::Definition(name) => self.sync_definition(name),
                PromptTask::AggregateRoles => self.sync_roles(),
            }
            task.done();
        }
    }

    fn run_ready_tasks(&self) {
        while let Some(task) = self.queues.background.try_get() {
            self.run_task(&task);
            task.done();
        }
    }

    fn run_task(&self, task: &BackgroundTask) {
        match task {
            BackgroundTask::DependentsOf(uid) => self.check_dependents(uid),
            BackgroundTask::Dependent(object) => self.delete_if_ownerless(object),
            BackgroundTask::Terminating(object) => self.propagate_deletion(object),
            BackgroundTask::FinishForeground(object) => self.finish_foreground(object),
            BackgroundTask::Namespace(name) => self.sync_namespace(name),
            BackgroundTask::CustomResources(definition) => self.sync_custom_resources(definition),
        }
        // Deleting a role or a CRD causes prompt tasks.
        self.run_prompt_tasks();
    }
}

/// Resets the flag when the task ends, also if its runtime is shut down.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs background tasks until none is left. While all of them wait for their time, the server may be dropped.
async fn run_in_background(server: Arc<Shared>, running: Running) {
    let queue = server.queues.background.clone();
    let weak = Arc::downgrade(&server);
    let mut server = Some(server);
    loop {
        let task = match queue.try_get() {
            Some(task) => task,
            None if queue.waiting_len() == 0 => break,
            None => {
                drop(server.take());
                match queue.get().await {
                    Some(task) => task,
                    None => return,
                }
            }
        };
        let Some(shared) = server.take().or_else(|| weak.upgrade()) else { return };
        shared.run_task(&task);
        task.done();
        server = Some(shared);
        tokio::task::yield_now().await;
    }
    drop(running);
    // A task that was added before the flag was reset found it set.
    if let Some(server) = server.or_else(|| weak.upgrade()) {
        server.run_controllers();
    }
}

fn is_definition(kind: &Kind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn is_role(kind: &Kind) -> bool {
    kind.is("rbac.authorization.k8s.io", "ClusterRole")
}
