//! Trace contexts of OpenTelemetry in requests, in objects, and in linked reconciles.
#![cfg(all(feature = "otel", feature = "runtime", feature = "testing"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use http::{HeaderMap, Request};
use informer::client::{Call, Client, OpenTelemetry, ResourceKind, TRACE_ANNOTATION, TraceContext};
use informer::prelude::*;
use informer::{Gvr, ObjectKey};
use informer_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use opentelemetry::trace::{SpanContext, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use parking_lot::Mutex;
use tower::ServiceExt;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

/// The headers of the requests that the server has received, with their methods and paths.
type Requests = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// Returns a client of an embedded server that propagates traces, and the requests of the client.
fn traced_client(server: &ApiServer) -> (Client, Requests) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let service = server.service().map_request(move |request: Request<_>| {
        let path = format!("{} {}", request.method(), request.uri().path());
        seen.lock().push((path, request.headers().clone()));
        request
    });
    (Client::from_service(service, "default").trace_propagation(OpenTelemetry), requests)
}

/// Records all spans of this thread until the guard is dropped.
fn record_spans() -> (SdkTracerProvider, InMemorySpanExporter, tracing::subscriber::DefaultGuard) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    (provider, exporter, guard)
}

fn get(name: &str) -> Call {
    Call::get(&ResourceKind::of::<ConfigMap>(), &ObjectKey::new("default", name).unwrap())
}

fn parent(requests: &Requests, path: &str) -> Option<TraceContext> {
    let requests = requests.lock();
    let (_, headers) = requests.iter().find(|(seen, _)| seen == path)?;
    headers.get("traceparent").map(|header| header.to_str().unwrap().parse().unwrap())
}

fn same(span: &SpanContext, context: &TraceContext) -> bool {
    u128::from_be_bytes(span.trace_id().to_bytes()) == context.trace_id()
        && u64::from_be_bytes(span.span_id().to_bytes()) == context.span_id()
}

#[tokio::test(start_paused = true)]
async fn request_in_a_span_has_its_trace_context_and_others_have_none() {
    let (_provider, exporter, _guard) = record_spans();
    let (client, requests) = traced_client(&ApiServer::builder().build());
    client.call(get("outside")).await.unwrap_err();
    let span = tracing::info_span!("program");
    client.call(get("inside")).instrument(span).await.unwrap_err();
    assert_eq!(parent(&requests, "GET /api/v1/namespaces/default/configmaps/outside"), None);
    let sent = parent(&requests, "GET /api/v1/namespaces/default/configmaps/inside").unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let program = spans.iter().find(|span| span.name == "program").unwrap();
    assert!(same(&program.span_context, &sent) && sent.is_sampled());
}

#[tokio::test(start_paused = true)]
async fn reconcile_is_linked_to_the_span_that_wrote_the_object() {
    let (_provider, exporter, _guard) = record_spans();
    let server = ApiServer::builder().build();
    let (client, requests) = traced_client(&server);
    let written = async {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("web".to_owned());
        let trace = client.trace_context().unwrap();
        trace.annotate(&mut map.metadata);
        let kind = ResourceKind::of::<ConfigMap>();
        client
            .call(Call::create(&kind, Some("default")).body(serde_json::to_vec(&map).unwrap()))
            .await
            .unwrap();
        trace
    };
    let written = written.instrument(tracing::info_span!("writer")).await;
    let stored = server.get(&Gvr::new("", "v1", "configmaps"), "default", "web").unwrap();
    assert_eq!(stored["metadata"]["annotations"][TRACE_ANNOTATION], written.to_string());

    let controller = Controller::new::<ConfigMap>("maps").link_traces().reconcile(|_, ctx| async move {
        let _absent = ctx.client.api().call(get("other")).await;
        Ok(Outcome::Done)
    });
    let manager = Manager::new(client).controller(controller);
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    while parent(&requests, "GET /api/v1/namespaces/default/configmaps/other").is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    handle.stop();
    running.await.unwrap().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let reconcile = spans.iter().find(|span| span.name == "reconcile").unwrap();
    let links: Vec<_> = reconcile.links.iter().map(|link| link.span_context.clone()).collect();
    assert!(links.len() == 1 && same(&links[0], &written) && links[0].is_remote(), "{links:?}");
    // The requests of the reconcile belong to its own trace.
    let inner = parent(&requests, "GET /api/v1/namespaces/default/configmaps/other").unwrap();
    assert!(same(&reconcile.span_context, &inner));
    assert_ne!(inner.trace_id(), written.trace_id());
}
