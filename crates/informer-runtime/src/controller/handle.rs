use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::engine::Engine;
use super::{ControllerError, ControllerState};
use crate::source::Source;
use crate::{ReconcileCause, ReconcileRequest, Request};

/// A handle to a controller, which adds sources and requests and reads its state. It is available before the
/// controller is added to its manager. Cheap to clone.
pub struct ControllerHandle<R: ReconcileRequest = Request> {
    shared: Arc<HandleInner<R>>,
}

struct HandleInner<R: ReconcileRequest> {
    engine: OnceLock<Arc<Engine<R>>>,
    /// Sources that were added through this handle before the controller was added to its manager.
    early: Mutex<Vec<Arc<dyn Source<R>>>>,
}

impl<R: ReconcileRequest> ControllerHandle<R> {
    pub(super) fn new() -> Self {
        Self { shared: Arc::new(HandleInner { engine: OnceLock::new(), early: Mutex::default() }) }
    }

    /// Removes and returns the sources that were added through this handle so far. The controller takes them
    /// when it is added to its manager; later ones are passed to it directly.
    pub(super) fn take_early(&self) -> Vec<Arc<dyn Source<R>>> {
        std::mem::take(&mut *self.shared.early.lock())
    }

    pub(super) fn set(&self, engine: &Arc<Engine<R>>) {
        let _ = self.shared.engine.set(Arc::clone(engine));
    }

    /// Adds a source. Before the controller's sources start, the new source is added to them. After that it
    /// starts immediately, concurrently with reconciles, and the future resolves when the source has synced.
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot be started or does not sync in time. The controller keeps
    /// running without the source.
    ///
    /// # Cancel safety
    ///
    /// The source is added when the future is first polled; dropping the future after that only ends the
    /// wait.
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

    /// Adds a request with priority 0. The call has no effect before the controller is added to its manager
    /// and after it stopped.
    pub fn enqueue(&self, request: R) {
        if let Some(engine) = self.shared.engine.get() {
            engine.enqueue(request, ReconcileCause::Enqueued);
        }
    }

    /// Returns the state of the controller; `None` before it is added to its manager.
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
