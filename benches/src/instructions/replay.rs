//! Records the responses of the embedded API server, and replays them to a client. The counts of a client
//! thus contain no work of the server.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Frame};
use informer_apiserver::{ApiBody, ApiService};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tower::Service;

type FrameResult = Result<Frame<Bytes>, Infallible>;
type ReplayedBody = StreamBody<BoxStream<'static, FrameResult>>;
type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<ReplayedBody>, Infallible>> + Send>>;

/// A request with its response.
#[derive(Clone, Debug)]
struct Exchange {
    target: String,
    status: StatusCode,
    content_type: Option<HeaderValue>,
    frames: Vec<Bytes>,
    /// True if the response body has ended.
    ended: bool,
    /// The number of frames before [`Recorder::mark`]; `None` if the request was sent after it, or if the
    /// body had ended. Later frames are replayed only when [`Replay::release`] permits it.
    marked: Option<usize>,
}

/// A service that forwards requests to the embedded API server, and records its responses.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    service: ApiService,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    pub(crate) fn new(service: ApiService) -> Self {
        Self { service, exchanges: Arc::default() }
    }

    /// Ends the part of the recording that is replayed without [`Replay::release`].
    pub(crate) fn mark(&self) {
        for exchange in self.exchanges.lock().iter_mut().filter(|exchange| !exchange.ended) {
            exchange.marked = Some(exchange.frames.len());
        }
    }

    /// Returns a service that replays the responses that have been recorded so far.
    pub(crate) fn replay(&self) -> Replay {
        let exchanges = self.exchanges.lock().iter().cloned().collect();
        Replay { exchanges: Arc::new(Mutex::new(exchanges)), gate: Arc::new(Semaphore::new(0)) }
    }

    fn recorded(&self, at: usize, mut body: ApiBody) -> BoxStream<'static, FrameResult> {
        let exchanges = Arc::clone(&self.exchanges);
        Box::pin(stream::poll_fn(move |context| {
            loop {
                let frame = std::task::ready!(Pin::new(&mut body).poll_frame(context));
                let mut exchanges = exchanges.lock();
                match frame {
                    Some(Ok(frame)) => {
                        let Ok(data) = frame.into_data() else { continue };
                        exchanges[at].frames.push(data.clone());
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Some(Err(_)) | None => {
                        exchanges[at].ended = true;
                        return Poll::Ready(None);
                    }
                }
            }
        }))
    }
}

impl Service<Request<Full<Bytes>>> for Recorder {
    type Response = Response<ReplayedBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> ResponseFuture {
        let recorder = self.clone();
        let target = target(&request);
        let response = self.service.call(request);
        Box::pin(async move {
            let (head, body) = response.await?.into_parts();
            let content_type = head.headers.get(header::CONTENT_TYPE).cloned();
            let at = {
                let mut exchanges = recorder.exchanges.lock();
                let (status, frames) = (head.status, Vec::new());
                exchanges.push(Exchange { target, status, content_type, frames, ended: false, marked: None });
                exchanges.len() - 1
            };
            let body = recorder.recorded(at, body);
            Ok(Response::from_parts(head, StreamBody::new(body)))
        })
    }
}

/// A service that responds to each request with the recorded response to the same request.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    exchanges: Arc<Mutex<VecDeque<Exchange>>>,
    /// Has a permit for each released frame.
    gate: Arc<Semaphore>,
}

impl Replay {
    /// Permits this number of frames that were recorded after the mark, or the end of their body.
    pub(crate) fn release(&self, frames: usize) {
        self.gate.add_permits(frames);
    }

    fn respond(&self, request: &Request<Full<Bytes>>) -> Response<ReplayedBody> {
        let target = target(request);
        let mut exchanges = self.exchanges.lock();
        let at = exchanges.iter().position(|exchange| exchange.target == target);
        let Some(exchange) = at.and_then(|at| exchanges.remove(at)) else {
            eprintln!("the request {target} was not recorded");
            let mut response = Response::new(StreamBody::new(body(Vec::new(), true, None, &self.gate)));
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let Exchange { status, content_type, frames, ended, marked, .. } = exchange;
        let mut response = Response::new(StreamBody::new(body(frames, ended, marked, &self.gate)));
        *response.status_mut() = status;
        if let Some(content_type) = content_type {
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        }
        response
    }
}

impl Service<Request<Full<Bytes>>> for Replay {
    type Response = Response<ReplayedBody>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<ReplayedBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        std::future::ready(Ok(self.respond(&request)))
    }
}

fn body(
    frames: Vec<Bytes>,
    ended: bool,
    marked: Option<usize>,
    gate: &Arc<Semaphore>,
) -> BoxStream<'static, FrameResult> {
    let frames = frames.into_iter().enumerate();
    Box::pin(stream::unfold((frames, Arc::clone(gate)), move |(mut frames, gate)| async move {
        let next = frames.next();
        if next.is_none() && !ended {
            return std::future::pending().await;
        }
        let is_gated = marked.is_some_and(|marked| next.as_ref().is_none_or(|(at, _)| *at >= marked));
        if is_gated {
            gate.acquire().await.ok()?.forget();
        }
        next.map(|(_, data)| (Ok(Frame::data(data)), (frames, gate)))
    }))
}

/// Returns the method and the path of a request with its query, without the timeout, which is random.
fn target(request: &Request<Full<Bytes>>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let query: Vec<_> = query.split('&').filter(|part| !part.starts_with("timeoutSeconds=")).collect();
    format!("{} {}?{}", request.method(), request.uri().path(), query.join("&"))
}
