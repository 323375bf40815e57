//! The program that starting processes run, and its replacement by another one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::Program;

/// The programs of a run.
pub(super) struct Rollout {
    current: Mutex<Current>,
}

struct Current {
    program: Program,
    /// The program that replaces the current one.
    next: Option<Program>,
    /// Stops the processes of the program. Each process has a receiver until it has ended.
    processes: watch::Sender<()>,
}

impl Rollout {
    pub(super) fn new(program: &Program, next: Option<&Program>) -> Self {
        let (processes, _) = watch::channel(());
        let current = Current { program: Arc::clone(program), next: next.map(Arc::clone), processes };
        Self { current: Mutex::new(current) }
    }

    /// Returns true until the first call of [`restart`](Self::restart), if there is another program.
    pub(super) fn is_pending(&self) -> bool {
        self.current.lock().next.is_some()
    }

    /// Returns the program that a starting process runs. The receiver changes when the process must stop, and
    /// the process drops it at its end.
    pub(super) fn start(&self) -> (Program, watch::Receiver<()>) {
        let current = self.current.lock();
        (Arc::clone(&current.program), current.processes.subscribe())
    }

    /// Stops the running processes, and waits until they have ended. Processes that start later run the next
    /// program, or the same if there is none.
    pub(super) async fn restart(&self) {
        let old = {
            let mut current = self.current.lock();
            if let Some(next) = current.next.take() {
                current.program = next;
            }
            std::mem::replace(&mut current.processes, watch::channel(()).0)
        };
        old.send_replace(());
        old.closed().await;
    }
}
