use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::engine::Engine;
use super::{ControllerError, ControllerState};
use crate::source::Source;
use crate::{ReconcileRequest, Request};

/// A controller, for those who want to add to it or look into it. It can be had before the controller is given to its manager. Cheap
/// to clone.
pub struct ControllerHandle<R: ReconcileRequest = Request> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: ReconcileRequest> {
    engine: OnceLock<Arc<Engine<R>>>,
    /// Sources that came before the engine.
    early: Mutex<Vec<Arc<dyn Source<R>>>>,
}

impl<R: ReconcileRequest> ControllerHandle<R> {
    pub(super) fn new() -> Self {
        Self { shared: Arc::new(Shared { engine: OnceLock::new(), early: Mutex::default() }) }
    }

    /// Takes the sources that came early; what comes from now on goes to the engine.
    pub(super) fn take_early(&self) -> Vec<Arc<dyn Source<R>>> {
        std::mem::take(&mut *self.shared.early.lock())
    }

    pub(super) fn set(&self, engine: &Arc<Engine<R>>) {
        let _ = self.shared.engine.set(Arc::clone(engine));
    }

    /// Adds a source. Before the controller's sources start it only waits for them to; after that it starts at once, beside the
    /// reconciles, and this resolves when it is synced.
    ///
    /// # Errors
    ///
    /// When the source cannot be started or is not synced in time. The controller goes on without it.
    ///
    /// # Cancel safety
    ///
    /// The source is added when the future is first polled; dropping it after that only ends the wait.
    pub async fn watch(&self, source: impl Source<R>) -> Result<(), ControllerError> {
        let source: Arc<dyn Source<R>> = Arc::new(source);
        match self.shared.engine.get() {
            Some(engine) => Arc::clone(engine).watch(source).await,
            None => {
                self.shared.early.lock().push(source);
                Ok(())
            }
        }
    }

    /// Adds a request, with priority 0. Does nothing before the controller is given to its manager and after it stopped.
    pub fn enqueue(&self, request: R) {
        if let Some(engine) = self.shared.engine.get() {
            engine.queue.add(request);
        }
    }

    /// What the controller does; `None` before it is given to its manager.
    pub fn state(&self) -> Option<ControllerState> {
        self.shared.engine.get().map(|engine| engine.state())
    }
}

impl<R: ReconcileRequest> Clone for ControllerHandle<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R: ReconcileRequest> fmt::Debug for ControllerHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("state", &self.state()).finish()
    }
}
