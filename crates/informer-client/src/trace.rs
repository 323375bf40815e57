//! Trace contexts in requests and in annotations, as in [W3C Trace Context](https://www.w3.org/TR/trace-context/).

#[cfg(feature = "otel")]
mod opentelemetry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use kube_core::ObjectMeta;

#[cfg(feature = "otel")]
pub use self::opentelemetry::OpenTelemetry;

/// The annotation of an object that contains the trace context of the program that wrote it, as
/// [`TraceContext::annotate`] sets it.
pub const TRACE_ANNOTATION: &str = "informer/traceparent";

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// The flag of a trace that the caller records.
const SAMPLED: u8 = 1;

/// The maximum length of a trace state in bytes. W3C Trace Context requires that systems pass on at least
/// this length.
const MAX_STATE_BYTES: usize = 512;

/// Identifies a span of a distributed trace.
///
/// Parsed from and formatted as the header `traceparent` of W3C Trace Context:
///
/// ```
/// use informer_client::TraceContext;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = header.parse()?;
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), header);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Box<str>,
}

/// The error of a string that is not a `traceparent` of W3C Trace Context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "parse a trace context: {0:?} is not VERSION-TRACE-SPAN-FLAGS in lower-case hexadecimal digits with ids other than 0"
)]
#[non_exhaustive]
pub struct ParseTraceContextError(String);

/// Connects the requests and the reconciles of a program to its traces. Set it with
/// [`Client::trace_propagation`](crate::Client::trace_propagation).
///
/// The feature `otel` has an implementation for OpenTelemetry. Implement the trait for another tracer, or for
/// another version of the crate `tracing-opentelemetry`. The methods are called for each request and for each
/// linked reconcile, under no lock, and must not block.
pub trait TracePropagation: Send + Sync + 'static {
    /// Returns the context of the current span; `None` outside of a trace.
    fn current(&self) -> Option<TraceContext>;

    /// Adds a link to a span of this program. The link refers to the span of another program.
    fn link(&self, span: &tracing::Span, to: &TraceContext);
}

impl TraceContext {
    /// Returns a context; `None` if an id is 0, which is invalid.
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        let flags = if sampled { SAMPLED } else { 0 };
        (trace_id != 0 && span_id != 0).then(|| Self { trace_id, span_id, flags, state: Box::default() })
    }

    /// Sets the vendor-specific state, which is the header `tracestate`. A state of more than 512 bytes, or
    /// with characters that are invalid in a header, is dropped.
    #[must_use]
    pub fn with_state(self, state: impl Into<Box<str>>) -> Self {
        let state = state.into();
        let is_valid = state.len() <= MAX_STATE_BYTES && HeaderValue::from_str(&state).is_ok();
        Self { state: if is_valid { state } else { Box::default() }, ..self }
    }

    /// Returns the id of the trace.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Returns the id of the span.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Returns true if the span is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the vendor-specific state; empty if there is none.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Sets the [annotation](TRACE_ANNOTATION) of an object that is about to be written, without the state.
    ///
    /// Controllers with `link_traces` link their reconciles of the object to this span. A changed annotation
    /// is a change of the object: annotate an object that is created, or that changes anyway. A reconciler
    /// that writes its own trace into the object that it reconciles causes a reconcile with each write.
    pub fn annotate(&self, metadata: &mut ObjectMeta) {
        metadata.annotations.get_or_insert_default().insert(TRACE_ANNOTATION.to_owned(), self.to_string());
    }

    /// Sets the headers `traceparent` and `tracestate`, unless the request has a `traceparent`.
    pub(crate) fn inject(&self, headers: &mut HeaderMap) {
        if headers.contains_key(TRACE_PARENT) {
            return;
        }
        let (parent, state) = (HeaderValue::from_str(&self.to_string()), HeaderValue::from_str(&self.state));
        headers.extend(parent.ok().map(|parent| (TRACE_PARENT, parent)));
        headers.extend(state.ok().filter(|state| !state.is_empty()).map(|state| (TRACE_STATE, state)));
    }
}

impl FromStr for TraceContext {
    type Err = ParseTraceContextError;

    /// Parses a `traceparent`. Further fields of a version newer than 00 are ignored, as the specification
    /// says.
    fn from_str(text: &str) -> Result<Self, ParseTraceContextError> {
        parse(text).ok_or_else(|| ParseTraceContextError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<TraceContext> {
    let mut fields = text.splitn(5, '-');
    let version = hexadecimal(fields.next()?, 2).filter(|version| *version != 0xff)?;
    let trace_id = hexadecimal(fields.next()?, 32)?;
    let span_id = u64::try_from(hexadecimal(fields.next()?, 16)?).ok()?;
    let flags = u8::try_from(hexadecimal(fields.next()?, 2)?).ok()?;
    if version == 0 && fields.next().is_some() {
        return None;
    }
    TraceContext::new(trace_id, span_id, flags & SAMPLED != 0)
}

/// Parses a number of exactly this many lower-case hexadecimal digits.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_digit)).then(|| u128::from_str_radix(text, 16).ok())?
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}
