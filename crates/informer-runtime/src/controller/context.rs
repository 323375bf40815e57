mod finalize;
mod read;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use finalize::{CleanupError, Finalization};
pub use read::LookupError;

use crate::{Causes, OwnedKey, Services};

/// The context of a reconcile: the [`Services`] of its manager, its id, and its cancellation.
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) shared: Arc<ControllerContext>,
    pub(super) id: ReconcileId,
    pub(super) owned_key: Option<Arc<OwnedKey>>,
    pub(super) causes: Option<Arc<Causes>>,
}

#[derive(Debug)]
pub(super) struct ControllerContext {
    pub(super) controller: Arc<str>,
    pub(super) services: Services,
    pub(super) cancel: CancellationToken,
}

#[cfg(feature = "testing")]
impl Context {
    /// Creates a context without a running controller, for [`TestContext`](crate::testing::TestContext).
    pub(crate) fn detached(controller: &str, services: Services, causes: Causes) -> Self {
        let (controller, cancel) = (controller.into(), CancellationToken::new());
        let shared = Arc::new(ControllerContext { controller, services, cancel });
        Self {
            shared,
            id: ReconcileId { run: 0, number: 0 },
            owned_key: None,
            causes: Some(Arc::new(causes)),
        }
    }

    /// Returns the context of another reconcile of the same controller.
    pub(crate) fn with_number(&self, number: u64) -> Self {
        let id = ReconcileId { number, ..self.id };
        Self { id, ..self.clone() }
    }
}

impl Context {
    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Returns the id of this reconcile, which is a field of its tracing span.
    pub fn reconcile_id(&self) -> ReconcileId {
        self.id
    }

    /// Returns the events that have enqueued this request, oldest first, for logs and debugging. The result
    /// is empty unless the controller [records causes](super::ControllerOptions::record_causes).
    ///
    /// A reconciler must not decide by them: they may be incomplete, and after a restart of the program every
    /// object is listed. A reconcile has no causes if an earlier one has already reported them, because an
    /// event arrived just as that one began.
    pub fn causes(&self) -> &Causes {
        static NONE: Causes = Causes::none();
        self.causes.as_deref().unwrap_or(&NONE)
    }

    /// Returns a token that is cancelled when the controller has stopped and its drain time
    /// ([`drain_within`](super::ControllerOptions::drain_within)) has elapsed. The reconcile then has some
    /// seconds to clean up before its future is dropped.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.cancel
    }
}

impl Context {
    /// Returns the key that this replica owns while the context exists, if the controller is
    /// [sharded](super::ControllerBuilder::sharded). `ctx.client` checks the key before each write. For other
    /// writes, call [`check`](OwnedKey::check) before each write, and send the returned fence (a fencing
    /// token) along if the target of the write can reject older tokens.
    pub fn owned_key(&self) -> Option<&OwnedKey> {
        self.owned_key.as_deref()
    }
}

impl Deref for Context {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.shared.services
    }
}

/// Identifies a reconcile by a random number for the run of the controller and a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReconcileId {
    pub(super) run: u64,
    pub(super) number: u64,
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.run, self.number)
    }
}

impl fmt::Debug for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
