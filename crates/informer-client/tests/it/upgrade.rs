//! Tests with a server that is upgraded, and then serializes the same objects differently.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use informer_cache::handler::on_event;
use informer_cache::{InformerRun, SharedInformer};
use informer_client::{Client, Encodings, KubeListWatch, Lazy, StreamingLists};
use informer_core::Object;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The state of the fake server: its version, the JSON of its only pod, and a signal that ends open watches
/// as expired.
#[derive(Default)]
struct Server {
    version: AtomicUsize,
    written: AtomicUsize,
    expire: Notify,
    requests: Mutex<Vec<String>>,
}

fn pod(written: usize) -> String {
    let metadata = r#"{"name":"web","namespace":"a","uid":"u","resourceVersion":"3"}"#;
    format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"spec":{{"nodeName":"n{written}"}}}}"#)
}

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
const END_MARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":
    {"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

impl Server {
    /// Returns the beginning of the response body for a request, and true if the body then stays open until
    /// the test ends all watches as expired.
    fn respond(&self, uri: &http::Uri) -> (String, bool) {
        self.requests.lock().push(uri.to_string());
        let pod = pod(self.written.load(Ordering::SeqCst));
        let query = uri.query().unwrap_or_default();
        if uri.path() == "/version" {
            (format!(r#"{{"gitVersion":"v1.{}.0"}}"#, self.version.load(Ordering::SeqCst)), false)
        } else if query.contains("sendInitialEvents=true") {
            (format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\n{END_MARK}\n"), true)
        } else if query.contains("watch=true") {
            (String::new(), true)
        } else {
            let head = r#""kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"}"#;
            (format!("{{{head},\"items\":[{pod}]}}"), false)
        }
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let (server, (text, watches)) = (Arc::clone(&server), server.respond(request.uri()));
            async move {
                let end = stream::once(async move {
                    if watches {
                        server.expire.notified().await;
                    }
                    if watches { EXPIRED.to_owned() } else { String::new() }
                });
                let frames =
                    stream::iter([text]).chain(end).map(|text| Ok::<_, Infallible>(Frame::data(text.into())));
                let mut response =
                    Response::new(StreamBody::new(frames.map(|frame: Result<Frame<Bytes>, _>| frame)));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert("content-type", json);
                Ok::<_, Infallible>(response)
            }
        });
        Client::from_service(service, "default")
    }

    fn lists(&self) -> usize {
        let lists =
            |uri: &&String| uri.contains("limit=") || uri.contains("sendInitial") || !uri.contains("watch=");
        self.requests.lock().iter().filter(|uri| !uri.starts_with("/version")).filter(lists).count()
    }

    /// Ends the open watch as expired, and waits until the result of the following list is in the cache.
    async fn relist(&self, informer: &SharedInformer<Lazy<Pod>>) {
        let lists = self.lists();
        self.expire.notify_one();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(self.lists(), lists + 1);
        assert!(informer.has_synced());
    }
}

type Events = Arc<Mutex<Vec<String>>>;

async fn informer(
    server: &Arc<Server>,
    lists: StreamingLists,
) -> (SharedInformer<Lazy<Pod>>, InformerRun, Events) {
    let source = KubeListWatch::all(server.client()).encodings(Encodings::Json).streaming_lists(lists);
    let informer = SharedInformer::new(source);
    let events = Events::default();
    let log = Arc::clone(&events);
    informer.add_handler(on_event(move |event| log.lock().push(format!("{event}")))).unwrap();
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
    (informer, run, events)
}

fn node(informer: &SharedInformer<Lazy<Pod>>) -> String {
    let pod = informer.indexer().get("a/web").unwrap();
    pod.field(&"spec.nodeName".parse().unwrap()).unwrap().into_owned()
}

#[tokio::test(start_paused = true)]
async fn first_list_after_a_server_upgrade_decodes_all_objects_once() {
    for lists in [StreamingLists::Off, StreamingLists::On] {
        let server = Arc::<Server>::default();
        let (informer, run, events) = informer(&server, lists).await;
        server.written.store(1, Ordering::SeqCst);
        server.relist(&informer).await;
        assert_eq!(node(&informer), "n0", "same server version: the cached object is kept");
        server.version.store(1, Ordering::SeqCst);
        server.relist(&informer).await;
        assert_eq!(node(&informer), "n1", "new server version: the object is decoded again");
        server.written.store(2, Ordering::SeqCst);
        server.relist(&informer).await;
        assert_eq!(node(&informer), "n1", "only the first list after the upgrade");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(*events.lock(), ["added a/web @3 (initial)", "updated a/web @3 -> @3"]);
        assert_eq!(informer.state().reflector.server_changes, 1);
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn server_upgrade_while_the_informer_was_stopped_is_detected() {
    let server = Arc::<Server>::default();
    let (informer, run, events) = informer(&server, StreamingLists::Off).await;
    run.stop().await;
    server.version.store(1, Ordering::SeqCst);
    server.written.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
    assert_eq!((node(&informer).as_str(), events.lock().len()), ("n1", 2));
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_lists_share_one_version_request() {
    let server = Arc::<Server>::default();
    let client = server.client();
    let make = |_| {
        SharedInformer::new(
            KubeListWatch::<Lazy<Pod>>::all(client.clone()).streaming_lists(StreamingLists::Off),
        )
    };
    let informers: Vec<_> = (0..20).map(make).collect();
    let _runs: Vec<_> = informers.iter().map(SharedInformer::start).collect();
    for informer in &informers {
        informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
    }
    assert_eq!(server.requests.lock().iter().filter(|uri| *uri == "/version").count(), 1);
}
