//! Links from reconciles to the traces in which their objects were written.

use std::sync::Arc;

use informer_client::{Representation, ResourceKind, TRACE_ANNOTATION, TraceContext};

use super::reconciler::DynReconciler;
use super::{Context, Outcome, ReconcileError, Reconciler};
use crate::{ReconcileRequest, Request};

/// Returns the trace context in the cached object of a request.
pub(super) type TraceOf<R> = Arc<dyn Fn(&Context, &R) -> Option<TraceContext> + Send + Sync>;

/// Returns the function that reads the annotation of objects of the reconciled kind.
pub(super) fn trace_of_object<O: Representation>(kind: ResourceKind) -> TraceOf<Request> {
    Arc::new(move |context, request| {
        let informer = context.cache.existing_informer::<O>(kind.gvk())?;
        let object = informer.get(&request.key).ok()??;
        object.annotation(TRACE_ANNOTATION)?.parse().ok()
    })
}

/// Links the span of each reconcile to the trace context in the object's annotation, then calls another
/// reconciler.
pub(super) struct LinkedReconciler<R> {
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
    pub(super) trace_of: TraceOf<R>,
}

impl<R: ReconcileRequest> Reconciler<R> for LinkedReconciler<R> {
    async fn reconcile(&self, request: R, context: Context) -> Result<Outcome, ReconcileError> {
        if let Some(trace) = (self.trace_of)(&context, &request) {
            context.client.api().link_trace(&tracing::Span::current(), &trace);
        }
        self.reconciler.call(request, context).await
    }
}
