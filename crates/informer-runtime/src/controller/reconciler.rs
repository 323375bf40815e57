use futures_util::future::BoxFuture;

use super::{Context, Outcome, ReconcileError};
use crate::{ReconcileRequest, Request};

/// Makes things as they should be.
///
/// It is told *which* object to look at, never what happened: it looks at what is, compares it with what should be, and acts upon the
/// difference. It may be asked any number of times, and has to come to the same result.
///
/// One request is worked on by one worker at a time. An error or a panic brings the request back, later each time; an
/// [`Outcome`] says what a success comes to.
///
/// Async closures of two arguments are reconcilers, too: see
/// [`reconcile`](super::ControllerBuilder::reconcile).
///
/// # Cancel safety
///
/// The future is dropped at an await where it exceeds the reconcile timeout, and where it does not end after the
/// controller stopped: see [`Context::stopping`](super::Context::stopping).
pub trait Reconciler<R: ReconcileRequest = Request>: Send + Sync + 'static {
    /// Looks at one request.
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

/// A reconciler without its type.
pub(super) trait DynReconciler<R>: Send + Sync {
    fn call(&self, request: R, context: Context) -> BoxFuture<'_, Result<Outcome, ReconcileError>>;
}

impl<R: ReconcileRequest, T: Reconciler<R>> DynReconciler<R> for T {
    fn call(&self, request: R, context: Context) -> BoxFuture<'_, Result<Outcome, ReconcileError>> {
        Box::pin(self.reconcile(request, context))
    }
}
