//! A fake server that sends the replies of a script one after the other, and records the requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use informer_cache::Undecodable;
use informer_cache::source::{
    ListEnd, ListPart, ListRequest, ListSource, Listed, SourceContext, SourceError, VersionMatch, WatchEvent,
    WatchRequest, WatchSource,
};
use informer_client::{Client, KubeListWatch, Representation};
use informer_core::{Object, ResourceVersion};
use parking_lot::Mutex;

pub(crate) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    steps: Vec<Step>,
}

enum Step {
    Data(Bytes),
    /// The body sends no further data and does not end.
    Stall,
    /// The connection is reset while the body is sent.
    Break,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).header("content-type", "application/json").data(body)
    }

    pub(crate) fn status(code: u16) -> Self {
        let status = StatusCode::from_u16(code).unwrap();
        Self { status, headers: HeaderMap::new(), steps: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub(crate) fn data(mut self, body: impl Into<Bytes>) -> Self {
        self.steps.push(Step::Data(body.into()));
        self
    }

    pub(crate) fn stall(mut self) -> Self {
        self.steps.push(Step::Stall);
        self
    }

    pub(crate) fn break_off(mut self) -> Self {
        self.steps.push(Step::Break);
        self
    }
}

#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<(String, HeaderMap)>>>);

impl Requests {
    pub(crate) fn uris(&self) -> Vec<String> {
        self.0.lock().iter().map(|(uri, _)| uri.clone()).collect()
    }

    pub(crate) fn last_header(&self, name: &str) -> Option<String> {
        let requests = self.0.lock();
        let (_, headers) = requests.last()?;
        Some(headers.get(name)?.to_str().unwrap().to_owned())
    }
}

/// Returns a client for the fake server. The server does not respond to requests after the end of the script.
pub(crate) fn script(replies: impl IntoIterator<Item = Reply>) -> (Client, Requests) {
    let requests = Requests::default();
    let replies: Arc<Mutex<VecDeque<Reply>>> = Arc::new(Mutex::new(replies.into_iter().collect()));
    let seen = requests.clone();
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        // Informers send these requests with each list; the script contains no replies to them.
        let reply = if ["/version", "/openapi/v3"].contains(&request.uri().path()) {
            Some(Reply::status(404))
        } else {
            seen.0.lock().push((request.uri().to_string(), request.headers().clone()));
            replies.lock().pop_front()
        };
        async move {
            let Some(reply) = reply else { std::future::pending().await };
            let steps = stream::iter(reply.steps).then(|step| async move {
                match step {
                    Step::Data(data) => Ok(Frame::data(data)),
                    Step::Stall => std::future::pending().await,
                    Step::Break => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                }
            });
            let mut response = Response::new(StreamBody::new(steps));
            (*response.status_mut(), *response.headers_mut()) = (reply.status, reply.headers);
            Ok::<_, Infallible>(response)
        }
    });
    (Client::from_service(service, "default"), requests)
}

pub(crate) fn first_list<O: Object>() -> ListRequest<O> {
    ListRequest {
        version: ResourceVersion::any(),
        version_match: VersionMatch::Unset,
        limit: Some(500),
        continue_token: None,
        context: SourceContext::default(),
    }
}

pub(crate) fn watch_from<O: Object>(version: &str) -> WatchRequest<O> {
    WatchRequest {
        version: version.into(),
        bookmarks: true,
        send_initial_events: false,
        timeout: Duration::from_secs(300),
        context: SourceContext::default(),
    }
}

pub(crate) struct Read<O> {
    pub(crate) items: Vec<Listed<O>>,
    pub(crate) undecodable: Vec<Undecodable>,
    /// The number of objects that the prefilter rejected.
    pub(crate) rejected: usize,
    pub(crate) end: ListEnd,
}

impl<O: Object> std::fmt::Debug for Read<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read").field("items", &self.items).field("end", &self.end).finish_non_exhaustive()
    }
}

impl<O: Object> Read<O> {
    pub(crate) fn keys(&self) -> Vec<&str> {
        self.items.iter().map(|item| item.object().key().as_str()).collect()
    }
}

pub(crate) async fn list<O: Representation>(
    source: &KubeListWatch<O>,
    request: ListRequest<O>,
) -> Result<Read<O>, SourceError> {
    let mut parts = source.list(request).await?;
    let (mut items, mut undecodable, mut rejected) = (Vec::new(), Vec::new(), 0);
    loop {
        match parts.next().await.expect("a list ends with its end or an error")? {
            ListPart::Items(more) => items.extend(more),
            ListPart::Rejected(count) => rejected += count,
            ListPart::Undecodable(one) => undecodable.push(one),
            ListPart::End(end) => {
                assert!(parts.next().await.is_none(), "nothing follows the end");
                return Ok(Read { items, undecodable, rejected, end });
            }
        }
    }
}

/// Reads a watch until it ends. Returns its events in `Debug` format, and the error with which it failed, if
/// any.
pub(crate) async fn watch<O: Representation>(
    source: &KubeListWatch<O>,
    request: WatchRequest<O>,
) -> (Vec<String>, Result<(), SourceError>) {
    let mut seen = Vec::new();
    let mut events = match source.watch(request).await {
        Ok(events) => events,
        Err(error) => return (seen, Err(error)),
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => seen.push(show(&event)),
            Err(error) => return (seen, Err(error)),
        }
    }
    (seen, Ok(()))
}

pub(crate) fn show<O: Object>(event: &WatchEvent<O>) -> String {
    format!("{event:?}")
}
