//! The built-in controllers: garbage collection, namespaces and their default objects, CRDs and aggregated
//! roles.
//!
//! A write does not run a controller. It adds a task to one of two queues, which are processed after the
//! write:
//!
//! - *Prompt* tasks run before the response: for example, a created CRD is served.
//! - *Background* tasks delete any number of objects. They run in one tokio task on the runtime of the
//!   request, which yields after each background task. A write of the embedding program, or a request outside
//!   of a runtime, runs them before it returns.

pub(crate) mod crds;
mod garbage;
mod namespace_defaults;
mod namespaces;
mod roles;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::pipeline::{BackgroundTask, Pipeline, PromptTask};
use crds::NameCache;

/// Maximum number of objects that one background task processes before it is queued again.
pub(crate) const MAX_OBJECTS_PER_TASK: usize = 256;

#[derive(Debug)]
pub(crate) struct ControllerManager {
    pub(crate) pipeline: Pipeline,
    /// The names that CRDs have requested or got. The lock is held from the check of a CRD's names until they
    /// are accepted, so that no two CRDs get the same name.
    pub(crate) crd_names: Mutex<NameCache>,
    /// Held while prompt controller tasks run. A request therefore waits for its prompt tasks even if another
    /// thread runs them.
    pub(crate) prompt: Mutex<()>,
    /// Held while a background controller task runs; locked before `prompt`. A write of the embedding program
    /// therefore waits for a running background task.
    pub(crate) background: Mutex<()>,
    /// A weak reference to the manager itself, for controller tasks that outlive a request.
    pub(crate) this: Weak<Self>,
}

impl Deref for ControllerManager {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl ControllerManager {
    /// Runs the prompt controller tasks and starts the background tasks. Called at the end of each request.
    pub(crate) fn run_controllers(&self) {
        self.run_prompt_tasks();
        if self.queues.background.is_empty() && self.queues.background.waiting_len() == 0 {
            return;
        }
        match (Handle::try_current(), self.this.upgrade()) {
            (Ok(runtime), Some(server)) => {
                if !self.queues.running.swap(true, Ordering::AcqRel) {
                    let running = Running(Arc::clone(&self.queues.running));
                    runtime.spawn(run_in_background(server, running));
                }
            }
            _ => self.run_ready_tasks(),
        }
    }

    /// Runs all controller tasks that are ready, including those that they add. Called at the end of each
    /// write of the embedding program.
    pub(crate) fn finish_controllers(&self) {
        self.run_prompt_tasks();
        self.run_ready_tasks();
        // The remaining controller tasks are delayed. A task on the runtime waits until they are due.
        self.run_controllers();
    }

    fn run_prompt_tasks(&self) {
        let _running = self.prompt.lock();
        while let Some(task) = self.queues.prompt.try_get() {
            match &*task {
                PromptTask::Definition(name) => self.sync_definition(name),
                PromptTask::AggregateRoles => self.sync_roles(),
                PromptTask::ReleaseNames(name) => self.release_names(name),
                PromptTask::NamespaceDefaults(name) => self.sync_namespace_defaults(name),
            }
            task.done();
        }
    }

    fn run_ready_tasks(&self) {
        while self.run_ready_task() {}
    }

    /// Runs the next background controller task. Returns false if no task is ready.
    fn run_ready_task(&self) -> bool {
        let _running = self.background.lock();
        let Some(task) = self.queues.background.try_get() else { return false };
        self.run_task(&task);
        task.done();
        true
    }

    fn run_task(&self, task: &BackgroundTask) {
        match task {
            BackgroundTask::DependentsOf { owner, after } => self.check_dependents(owner, after.as_ref()),
            BackgroundTask::Dependent(object) => self.delete_if_ownerless(object),
            BackgroundTask::Terminating(object) => self.propagate_deletion(object),
            BackgroundTask::ForegroundDependents { owner, after } => {
                self.propagate_foreground(owner, Some(after));
            }
            BackgroundTask::DeleteForeground(object) => self.delete_foreground(object),
            BackgroundTask::FinishForeground(object) => self.finish_foreground(object),
            BackgroundTask::Namespace(name) => self.sync_namespace(name),
            BackgroundTask::CustomResources(definition) => self.sync_custom_resources(definition),
        }
        // A background task that deletes a role or a CRD adds prompt tasks.
        self.run_prompt_tasks();
    }
}

/// Resets the flag "background task is running" when the task ends, even if its runtime is shut down.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs background controller tasks until the queue is empty. While all remaining tasks are delayed, this
/// function holds no strong reference to the server, so the server can be dropped.
async fn run_in_background(server: Arc<ControllerManager>, running: Running) {
    let queue = server.queues.background.clone();
    let weak = Arc::downgrade(&server);
    let mut server = Some(server);
    loop {
        let Some(shared) = server.take().or_else(|| weak.upgrade()) else { return };
        if shared.run_ready_task() {
            server = Some(shared);
            tokio::task::yield_now().await;
            continue;
        }
        if queue.waiting_len() == 0 {
            server = Some(shared);
            break;
        }
        drop(shared);
        let Some(task) = queue.get().await else { return };
        let Some(shared) = weak.upgrade() else { return };
        let running = shared.background.lock();
        shared.run_task(&task);
        task.done();
        drop(running);
        server = Some(shared);
    }
    drop(running);
    // A request that added a task before the flag was reset did not start another runner, so check the queue
    // again.
    if let Some(server) = server.or_else(|| weak.upgrade()) {
        server.run_controllers();
    }
}
