use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use informer::client::Client;
use parking_lot::Mutex;

/// A request that a client has sent.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) method: Method,
    /// The path of the request, without its query.
    pub(crate) path: String,
    pub(crate) query: String,
}

impl SentRequest {
    /// Returns true if this request lists the collection with this path.
    pub(crate) fn is_list(&self, collection: &str) -> bool {
        self.method == Method::GET && self.path == collection && !self.query.contains("watch=true")
    }
}

/// The requests of a client, in the order in which they were sent. No server has such a log, so the client
/// keeps it. Clones share one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog(Arc<Mutex<Vec<SentRequest>>>);

impl RequestLog {
    /// Returns a client that sends its requests through `client`, and the log of these requests.
    pub(crate) fn of(client: Client) -> (Client, Self) {
        let log = Self::default();
        let (namespace, requests) = (client.default_namespace().to_owned(), log.clone());
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let (client, requests) = (client.clone(), requests.clone());
            async move {
                let (head, body) = request.into_parts();
                requests.0.lock().push(SentRequest {
                    method: head.method.clone(),
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                });
                let Ok(body) = body.collect().await;
                client.request(Request::from_parts(head, body.to_bytes())).await
            }
        });
        (Client::from_service(service, namespace), log)
    }

    /// Returns the requests that satisfy a condition.
    pub(crate) fn matching(&self, condition: impl Fn(&SentRequest) -> bool) -> Vec<SentRequest> {
        self.0.lock().iter().filter(|request| condition(request)).cloned().collect()
    }

    /// Returns the number of requests that satisfy a condition.
    pub(crate) fn count(&self, condition: impl Fn(&SentRequest) -> bool) -> usize {
        self.0.lock().iter().filter(|request| condition(request)).count()
    }
}
