//! Runs tasks that cause other tasks, without recursion.

use std::collections::{HashMap, VecDeque};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

/// The open tasks of each thread that is running some.
///
/// A task may cause others: deleting an object deletes its dependents. The outermost call of a thread runs them in a loop, so that the
/// depth of the stack does not depend on the objects. The queue holds at most two tasks for each stored object.
#[derive(Debug)]
pub(crate) struct TaskQueue<T>(Mutex<HashMap<ThreadId, VecDeque<T>>>);

impl<T> Default for TaskQueue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> TaskQueue<T> {
    /// Runs a task and the tasks that it causes, in the order in which they were caused. A call within a task only queues the new
    /// task.
    pub(crate) fn run(&self, task: T, run: impl Fn(T)) {
        let thread = thread::current().id();
        let mut threads = self.0.lock();
        if let Some(open) = threads.get_mut(&thread) {
            open.push_back(task);
            return;
        }
        threads.insert(thread, VecDeque::from([task]));
        drop(threads);
        // A task that panics must not leave the thread marked as running.
        let running = Running { queue: self, thread };
        while let Some(task) = running.next() {
            run(task);
        }
    }
}

struct Running<'a, T> {
    queue: &'a TaskQueue<T>,
    thread: ThreadId,
}

impl<T> Running<'_, T> {
    fn next(&self) -> Option<T> {
        self.queue.0.lock().get_mut(&self.thread)?.pop_front()
    }
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        let open = self.queue.0.lock().remove(&self.thread);
        drop(open);
    }
}

#[cfg(test)]
mod tests;
