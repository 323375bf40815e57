//! The built-in controllers: garbage collection, namespaces, CRDs and aggregated roles.
//!
//! A write only adds a key to a work queue. There are two queues, which are processed after the write:
//!
//! - *Prompt* tasks run before the response: for example, a created CRD is served.
//! - *Background* tasks delete any number of objects. A task on the tokio runtime of the request runs them
//!   and yields after each. Writes of the embedding program, and requests outside of a runtime, run them
//!   before they return.

pub(crate) mod crds;
mod garbage;
mod namespaces;
mod roles;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::pipeline::{BackgroundTask, Pipeline, PromptTask};
use crds::NameCache;

/// Maximum number of objects that one background task deletes before it is queued again.
pub(crate) const MAX_DELETIONS_PER_TASK: usize = 256;

/// Runs the controllers on top of the write pipeline.
#[derive(Debug)]
pub(crate) struct ControllerManager {
    pub(crate) pipeline: Pipeline,
    /// The names of CRDs. Locked from the check of names until one is accepted, so that no two CRDs get the
    /// same name.
    pub(crate) crd_names: Mutex<NameCache>,
    /// Held while prompt tasks run: a request waits for its tasks, even if another thread runs them.
    pub(crate) prompt: Mutex<()>,
    /// Held while a background task runs, before `prompt`: a write of the embedding program waits for it.
    pub(crate) background: Mutex<()>,
    /// The manager itself, for tasks that outlive a request.
    pub(crate) this: Weak<Self>,
}

impl Deref for ControllerManager {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl ControllerManager {
    /// Called at the end of a request. Runs the prompt tasks and starts the background tasks.
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

    /// Called at the end of a write of the embedding program. Runs all tasks that are ready, including those
    /// that they add.
    pub(crate) fn finish_controllers(&self) {
        self.run_prompt_tasks();
        self.run_ready_tasks();
        // Delayed tasks need a timer.
        self.run_controllers();
    }

    fn run_prompt_tasks(&self) {
        let _running = self.prompt.lock();
        while let Some(task) = self.queues.prompt.try_get() {
            match &*task {
                PromptTask::Definition(name) => self.sync_definition(name),
                PromptTask::AggregateRoles => self.sync_roles(),
                PromptTask::ReleaseNames(name) => self.release_names(name),
            }
            task.done();
        }
    }

    fn run_ready_tasks(&self) {
        while self.run_ready_task() {}
    }

    /// Runs the next background task; returns false if none is ready.
    fn run_ready_task(&self) -> bool {
        let _running = self.background.lock();
        let Some(task) = self.queues.background.try_get() else { return false };
        self.run_task(&task);
        task.done();
        true
    }

    fn run_task(&self, task: &BackgroundTask) {
        match task {
            BackgroundTask::DependentsOf(uid) => self.check_dependents(uid),
            BackgroundTask::Dependent(object) => self.delete_if_ownerless(object),
            BackgroundTask::Terminating(object) => self.propagate_deletion(object),
            BackgroundTask::DeleteForeground(object) => self.delete_foreground(object),
            BackgroundTask::FinishForeground(object) => self.finish_foreground(object),
            BackgroundTask::Namespace(name) => self.sync_namespace(name),
            BackgroundTask::CustomResources(definition) => self.sync_custom_resources(definition),
        }
        // Deleting a role or a CRD causes prompt tasks.
        self.run_prompt_tasks();
    }
}

/// Resets the flag when the task ends, even if its runtime is shut down.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs background tasks until none is left. While all of them are delayed, it does not keep the server
/// alive.
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
    // A task that was added before the flag was reset found it set.
    if let Some(server) = server.or_else(|| weak.upgrade()) {
        server.run_controllers();
    }
}
