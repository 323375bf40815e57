//! Tests of calls: truncated responses, invalid parameters, retries and warnings.

use std::sync::Arc;
use std::time::Duration;

use informer_cache::source::{ListRequest, SourceErrorKind};
use informer_client::{
    Call, CallError, KubeListWatch, Lazy, MAX_CALL_RETRIES, MAX_CALL_RETRY_TIME, PatchFormat, ResourceKind,
    TraceContext, TracePropagation,
};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::script::{Reply, first_list, list, script};

fn too_long() -> String {
    "x".repeat(1 << 16)
}

fn pods() -> Call {
    Call::list(&ResourceKind::of::<Pod>(), Some("default"))
}

async fn failed(call: Call, reply: Reply) -> CallError {
    script([reply]).0.call(call).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn call_with_truncated_response_fails_with_connection_error() {
    let error = failed(pods(), Reply::ok("{").break_off()).await;
    assert_eq!(error.kind(), SourceErrorKind::Connection);
    assert_eq!(error.to_string(), "list pods in namespace default: the response was cut off");
}

#[tokio::test(start_paused = true)]
async fn call_with_too_long_query_is_rejected_before_it_is_sent() {
    let (client, requests) = script([Reply::ok("{}")]);
    let error = client.call(pods().query("labelSelector", too_long())).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods in namespace default: the request URL of "));
    assert!(requests.uris().is_empty());
}

#[tokio::test(start_paused = true)]
async fn too_long_continue_token_is_an_error() {
    let (client, requests) = script([Reply::ok("{}")]);
    let next = ListRequest { continue_token: Some(too_long()), ..first_list() };
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), next).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods: the request URL of "));
    assert!(requests.uris().is_empty());
}

/// Reports the same trace for each request.
struct OneTrace;

impl TracePropagation for OneTrace {
    fn current(&self) -> Option<TraceContext> {
        TraceContext::new(7, 8, true)
    }

    fn link(&self, _: &tracing::Span, _: &TraceContext) {}
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_client_and_its_clones_have_the_trace_context() {
    let (client, requests) = script([Reply::ok("{}"), Reply::ok("{}")]);
    let traced = client.clone().trace_propagation(OneTrace);
    assert_eq!(traced.trace_context(), TraceContext::new(7, 8, true));
    traced.clone().call(pods()).await.unwrap();
    let parent = format!("00-{:032x}-{:016x}-01", 7, 8);
    assert_eq!(requests.last_header("traceparent"), Some(parent));
    assert_eq!(client.trace_context(), None, "only the returned client propagates traces");
    client.call(pods()).await.unwrap();
    assert_eq!(requests.last_header("traceparent"), None);
}

fn busy(code: u16, seconds: &str) -> Reply {
    Reply::status(code).header("retry-after", seconds).data("busy")
}

#[tokio::test(start_paused = true)]
async fn idempotent_call_is_sent_again_after_retry_after() {
    let (client, requests) = script([busy(429, "2"), busy(503, "3"), Reply::ok("{}")]);
    let begin = tokio::time::Instant::now();
    assert_eq!(client.call(pods()).await.unwrap(), "{}");
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    assert_eq!(requests.uris().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn rejected_call_fails_at_once_if_it_must_not_be_sent_again() {
    let (kind, key) = (ResourceKind::of::<Pod>(), "default/web".parse().unwrap());
    let calls = [
        Call::create(&kind, Some("default")).body("{}"),
        Call::create_under(&kind, &key).subresource("eviction").body("{}"),
        Call::patch(&kind, &key, PatchFormat::Json).body("[]"),
        Call::get(&kind, &key).without_retries(),
    ];
    for call in calls {
        let (client, requests) = script([busy(429, "2"), Reply::ok("{}")]);
        let begin = tokio::time::Instant::now();
        let error = client.call(call).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
        assert_eq!((begin.elapsed(), requests.uris().len()), (Duration::ZERO, 1));
    }
    let (client, requests) = script([Reply::status(503).data("down"), Reply::ok("{}")]);
    assert_eq!(client.call(pods()).await.unwrap_err().retry_after(), None);
    assert_eq!(requests.uris().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_call_end_after_their_number_or_their_time() {
    for (seconds, requests_sent, waited) in [("1", 1 + MAX_CALL_RETRIES, 5), ("4", 3, 8), ("60", 1, 0)] {
        let (client, requests) = script((0..10).map(|_| busy(429, seconds)));
        let begin = tokio::time::Instant::now();
        let error = client.call(pods()).await.unwrap_err();
        assert!(error.to_string().contains("429"), "{error}");
        assert_eq!(requests.uris().len() as u32, requests_sent, "{seconds}");
        assert_eq!(begin.elapsed(), Duration::from_secs(waited), "{seconds}");
        assert!(begin.elapsed() <= MAX_CALL_RETRY_TIME);
    }
}

#[tokio::test(start_paused = true)]
async fn warnings_of_the_server_are_logged_once_per_text_and_client() {
    let reply = |warning| Reply::ok("{}").header("warning", warning);
    let deprecated = r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#;
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (client, _) =
        script([reply(deprecated), reply(deprecated), reply(r#"299 - "unknown field \"spec.x\"""#)]);
    for _ in 0..3 {
        client.clone().call(pods()).await.unwrap();
    }
    let warnings = ["v1 ComponentStatus is deprecated in v1.19+", "unknown field \"spec.x\""];
    assert_eq!(log.warnings(), warnings);
    let (other, _) = script([reply(deprecated)]);
    other.call(pods()).await.unwrap();
    assert_eq!(log.warnings().len(), 3, "another client logs it again");
}

/// A subscriber that collects the field `warning` of log entries.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn warnings(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Visit for Log {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "warning" {
            self.0.lock().push(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
