use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{TraceContext, TracePropagation};

/// Propagates the traces that the layer of the crate `tracing-opentelemetry` records.
///
/// The program must use the version of `tracing-opentelemetry` with which this crate was built, because the
/// layer of another version is not found. Without a layer, requests have no trace context.
///
/// Needs the feature `otel`.
///
/// ```
/// use informer_client::{Client, OpenTelemetry};
///
/// # fn example(client: Client) {
/// let client = client.trace_propagation(OpenTelemetry);
/// # drop(client);
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenTelemetry;

impl TracePropagation for OpenTelemetry {
    fn current(&self) -> Option<TraceContext> {
        let context = tracing::Span::current().context();
        let span = context.span();
        let span = span.span_context();
        let trace_id = u128::from_be_bytes(span.trace_id().to_bytes());
        let span_id = u64::from_be_bytes(span.span_id().to_bytes());
        let context = TraceContext::new(trace_id, span_id, span.is_sampled())?;
        Some(context.with_state(span.trace_state().header()))
    }

    fn link(&self, span: &tracing::Span, to: &TraceContext) {
        let flags = if to.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let state: TraceState = to.state().parse().unwrap_or_default();
        let (trace, id) = (TraceId::from(to.trace_id()), SpanId::from(to.span_id()));
        span.add_link(SpanContext::new(trace, id, flags, true, state));
    }
}
