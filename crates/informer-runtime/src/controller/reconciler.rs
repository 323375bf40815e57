use futures_util::future::BoxFuture;

use super::{Context, Outcome, ReconcileError};
use crate::{ReconcileRequest, Request};

/// Changes the actual state of objects towards the desired state.
///
/// Reconciling is level-based: a request names an object, not an event. The reconciler reads the current
/// state, compares it with the desired state, and acts on the difference. It must be idempotent.
///
/// A request is reconciled by one worker at a time. After an error or a panic the request is retried with
/// increasing delays; after a success, [`Outcome`] decides whether it is requeued.
///
/// Async closures with two arguments implement this trait: see
/// [`reconcile`](super::ControllerBuilder::reconcile).
///
/// # Cancel safety
///
/// The future is dropped at an await if the reconcile timeout elapses, or if it does not end after the
/// controller stopped: see [`Context::stopping`](super::Context::stopping).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile `{R}`",
    label = "not a reconciler",
    note = "implement `Reconciler`, or pass an async function: \
            `async fn reconcile(request: {R}, ctx: Context) -> Result<Outcome, ReconcileError>`"
)]
pub trait Reconciler<R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// Reconciles one request: brings the state of the object that the request names closer to the desired
    /// state.
    fn reconcile(
        &self,
        request: R,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;
}

impl<R, F, Fut> Reconciler<R> for F
where
    R: ReconcileRequest,
    F: Fn(R, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, ReconcileError>> + Send,
{
    fn reconcile(
        &self,
        request: R,
        context: Context,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send {
        self(request, context)
    }
}

pub(super) trait DynReconciler<R>: Send + Sync {
    fn call(&self, request: R, context: Context) -> BoxFuture<'_, Result<Outcome, ReconcileError>>;
}

impl<R: ReconcileRequest, T: Reconciler<R>> DynReconciler<R> for T {
    fn call(&self, request: R, context: Context) -> BoxFuture<'_, Result<Outcome, ReconcileError>> {
        Box::pin(self.reconcile(request, context))
    }
}
