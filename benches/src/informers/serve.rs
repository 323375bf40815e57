//! The embedded server of a measurement, which encodes the responses to initial lists once.
//!
//! `informer-apiserver` stores JSON and transcodes to protobuf for each response. To exclude that time from
//! measurements, the response to a list or a streaming list is recorded and replayed. Live events pass a
//! gate: while the gate is closed, events are encoded and queued; when it opens, all queued events are sent.
//!
//! The control port reads a command from a line and writes the response as a line; `control.rs` contains the
//! client side.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use informer::client::ResourceKind;
use informer_apiserver::{ApiBody, ApiServer, FaultMatch, History, KindDefinition};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, watch};
use tower::Service;

use super::arguments::Kind;
use super::{Failure, Serve, control, gauge, objects, resource};

/// The number of bytes of each part of a recorded response: as many as a server with a large buffer sends at
/// once.
const CHUNK: usize = 128 << 10;
/// The placeholder for a time in the label of a changed object. When the object is sent, the placeholder is
/// replaced by the current time, which has the same length.
pub(super) const STAMP: &str = "t0000000000000000000";
/// The bytes that mark the end of the initial events of a streaming list, in JSON and in protobuf.
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";
/// A burst counts as completely encoded when no event was encoded for this time.
const QUIET: Duration = Duration::from_millis(300);
/// The timeout for the measured program to open a new watch after all watches have expired.
const PATIENCE: Duration = Duration::from_secs(300);

type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Chunks = BoxStream<'static, Bytes>;

/// The parts of a request that select a recorded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    kind: usize,
    streaming: bool,
    protobuf: bool,
    metadata: bool,
}

impl Shape {
    fn accept(self) -> String {
        let encoding = if self.protobuf { "vnd.kubernetes.protobuf" } else { "json" };
        let form = match (self.metadata, self.streaming) {
            (false, _) => "",
            (true, false) => ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (true, true) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let stream = if self.protobuf && self.streaming { ";stream=watch" } else { "" };
        format!("application/{encoding}{form}{stream}")
    }
}

struct Recording {
    version: u64,
    content_type: HeaderValue,
    chunks: Vec<Bytes>,
}

struct Server {
    api: ApiServer,
    /// The served kinds. The first one is the kind whose objects are changed.
    kinds: Vec<ResourceKind>,
    options: Serve,
    recordings: Mutex<HashMap<Shape, Arc<Recording>>>,
    gate: watch::Sender<bool>,
    /// The number of pieces of live events encoded so far.
    encoded: AtomicU64,
    /// The number of watches whose initial events were sent.
    live: AtomicUsize,
    /// The number of bursts and relists so far, from which the label of each of them is generated.
    bursts: AtomicUsize,
    changed: Mutex<BTreeSet<usize>>,
}

pub(super) async fn serve(options: Serve) -> Result<(), Failure> {
    let history = History { events: 4 * options.objects.max(100_000), bytes: 8 << 30 };
    let kinds: Vec<_> = (0..options.kinds.max(1)).map(|at| resource(options.kind, at)).collect();
    let custom = kinds.iter().filter(|kind| kind.gvk().group == objects::GROUP);
    let custom = custom.map(|kind| KindDefinition::custom(objects::GROUP, "v1", kind.kind()));
    let api = custom.fold(ApiServer::builder().history(history), |builder, kind| builder.kind(kind)).build();
    let mut loaded = 0;
    // Objects are stored without defaulting, so that every program reads exactly the generated objects.
    for (at, kind) in kinds.iter().enumerate() {
        loaded += api.raw().load(&kind.gvr(), (0..options.objects).map(|n| object(&options, at, n)))?;
    }
    let server = Arc::new(Server {
        api,
        kinds,
        options,
        recordings: Mutex::default(),
        gate: watch::Sender::new(true),
        encoded: AtomicU64::new(0),
        live: AtomicUsize::new(0),
        bursts: AtomicUsize::new(0),
        changed: Mutex::default(),
    });
    let (listener, control) =
        (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let (url, control_address) =
        (format!("http://{}", listener.local_addr()?), control.local_addr()?.to_string());
    println!("{}", json!({"server": url, "control": control_address, "objects": loaded}));
    tokio::spawn(accept_control(Arc::clone(&server), control));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(move |request| Arc::clone(&server).respond(request));
            let connection = hyper::server::conn::http1::Builder::new();
            // An error is ignored: it only means that the measured program has disconnected.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Server {
    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let query = request.uri().query().unwrap_or_default();
        let Some(shape) = self.shape(&request) else {
            let response = self.ask(request).await?;
            return Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()));
        };
        if shape.streaming && query.contains("sendInitialEvents=true") {
            let recording = self.recorded(shape).await?;
            let after = self.request(
                shape,
                &format!("watch=true&allowWatchBookmarks=true&resourceVersion={}", recording.version),
            )?;
            let live = self.gated(self.ask(after).await?.into_body());
            return Ok(reply(&recording, live));
        }
        if !shape.streaming && !query.contains("limit=") {
            return Ok(reply(&*self.recorded(shape).await?, stream::empty().boxed()));
        }
        let response = self.ask(request).await?;
        if shape.streaming {
            let (head, body) = response.into_parts();
            return Ok(Response::from_parts(head, streamed(self.gated(body))));
        }
        Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
    }

    fn shape(&self, request: &Request<Incoming>) -> Option<Shape> {
        let query = request.uri().query().unwrap_or_default();
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let kind = self.kinds.iter().position(|kind| kind.gvr().path(None) == request.uri().path())?;
        let streaming = query.contains("watch=true") || query.contains("watch=1");
        let metadata = accept.contains("as=PartialObjectMetadata");
        let protobuf = accept.starts_with("application/vnd.kubernetes.protobuf");
        let is_known = metadata || !accept.contains("as=");
        is_known.then(|| Shape {
            kind,
            streaming,
            metadata,
            protobuf: protobuf && self.has_protobuf(kind, metadata),
        })
    }

    /// Returns whether the API server sends objects of a kind as protobuf. It sends metadata only as JSON.
    fn has_protobuf(&self, kind: usize, metadata: bool) -> bool {
        !metadata && self.kinds[kind].gvk().group != objects::GROUP
    }

    async fn ask<B>(&self, request: Request<B>) -> Result<Response<ApiBody>, Failure>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Failure>,
    {
        Ok(self.api.service().call(request).await?)
    }

    fn request(&self, shape: Shape, query: &str) -> Result<Request<Empty<Bytes>>, Failure> {
        let uri = format!("{}?{query}", self.kinds[shape.kind].gvr().path(None));
        Ok(Request::get(uri).header(header::ACCEPT, shape.accept()).body(Empty::new())?)
    }

    /// Returns the recorded response to a request of this shape. The response is recorded again if an object
    /// changed since the last recording.
    async fn recorded(&self, shape: Shape) -> Result<Arc<Recording>, Failure> {
        let mut recordings = self.recordings.lock().await;
        let version = self.api.version();
        if let Some(recording) = recordings.get(&shape).filter(|recording| recording.version == version) {
            return Ok(Arc::clone(recording));
        }
        recordings.retain(|_, recording| recording.version == version);
        let query = if shape.streaming {
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        } else {
            ""
        };
        let (head, mut body) = self.ask(self.request(shape, query)?).await?.into_parts();
        if head.status != StatusCode::OK {
            return Err(format!("record {shape:?}: the server responded with {}", head.status).into());
        }
        let (mut chunks, mut chunk) = (Vec::new(), BytesMut::with_capacity(2 * CHUNK));
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            chunk.extend_from_slice(&data);
            while chunk.len() >= CHUNK {
                chunks.push(Bytes::copy_from_slice(&chunk.split_to(CHUNK)));
            }
            if shape.streaming && find(&data, INITIAL_END).is_some() {
                break;
            }
        }
        chunks.push(chunk.freeze());
        let content_type = content_type(&head.headers);
        let recording = Arc::new(Recording { version, content_type, chunks });
        recordings.insert(shape, Arc::clone(&recording));
        Ok(recording)
    }

    /// Reads the live events of the watch response `body`. The returned stream forwards them only while the
    /// gate is open.
    fn gated(self: &Arc<Self>, mut body: ApiBody) -> Chunks {
        let (sender, receiver) = mpsc::unbounded_channel();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let frame = tokio::select! {
                    frame = body.frame() => frame,
                    // The measured program has disconnected. This watch must not consume the injected expiry
                    // that is intended for the next watch.
                    () = sender.closed() => break,
                };
                let Some(Ok(frame)) = frame else { break };
                let Ok(data) = frame.into_data() else { continue };
                server.encoded.fetch_add(1, Ordering::Relaxed);
                if sender.send(data).is_err() {
                    break;
                }
            }
        });
        let (server, gate) = (Arc::clone(self), self.gate.subscribe());
        let begun = stream::once(async move {
            server.live.fetch_add(1, Ordering::Relaxed);
            Bytes::new()
        });
        let events = stream::unfold((receiver, gate), |(mut receiver, mut gate)| async move {
            gate.wait_for(|open| *open).await.ok()?;
            let data = receiver.recv().await?;
            gate.wait_for(|open| *open).await.ok()?;
            Some((stamped(data), (receiver, gate)))
        });
        begun.filter(|data| std::future::ready(!data.is_empty())).chain(events).boxed()
    }

    /// Changes `count` objects once each, and sends the changes when all of them are encoded. Their label
    /// identifies the burst.
    async fn burst(&self, count: usize) -> Result<String, Failure> {
        let label = format!("burst-{}", self.bursts.fetch_add(1, Ordering::Relaxed));
        self.gate.send_replace(false);
        self.change((0..count.min(self.options.objects)).map(|n| (n, label.clone()))).await?;
        let mut before = u64::MAX;
        loop {
            let encoded = self.encoded.load(Ordering::Relaxed);
            if encoded == before {
                break;
            }
            before = encoded;
            tokio::time::sleep(QUIET).await;
        }
        self.gate.send_replace(true);
        Ok(label)
    }

    async fn paced(&self, count: usize, a_second: usize) -> Result<String, Failure> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(a_second.max(1))?);
        for n in 0..count {
            ticks.tick().await;
            self.change([(n % self.options.objects, STAMP.to_owned())]).await?;
        }
        Ok("ok".to_owned())
    }

    /// Ends all watches with a 410, waits until a new watch is live, and changes one object. If the measured
    /// program receives the change, it has relisted.
    async fn expire(&self) -> Result<String, Failure> {
        let live = self.live.load(Ordering::Relaxed);
        let fault = self.api.faults().on(FaultMatch::watch(self.kinds[0].gvr().resource)).times(1).expire();
        let again = async {
            while self.live.load(Ordering::Relaxed) == live {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, again).await;
        fault.remove();
        waited.map_err(|_| "the peer did not relist")?;
        let label = format!("relisted-{}", self.bursts.fetch_add(1, Ordering::Relaxed));
        self.change([(0, label.clone())]).await?;
        Ok(label)
    }

    async fn reset(&self) -> Result<(), Failure> {
        let changed = std::mem::take(&mut *self.changed.lock().await);
        let first = changed.into_iter().map(|n| object(&self.options, 0, n));
        self.api.raw().load(&self.kinds[0].gvr(), first)?;
        Ok(())
    }

    async fn change(&self, changes: impl IntoIterator<Item = (usize, String)>) -> Result<(), Failure> {
        let mut numbers = self.changed.lock().await;
        let changed = changes.into_iter().map(|(n, label)| {
            numbers.insert(n);
            let mut object = object(&self.options, 0, n);
            object["metadata"]["labels"]["bench-sent"] = Value::from(label);
            object
        });
        self.api.raw().load(&self.kinds[0].gvr(), changed)?;
        Ok(())
    }

    async fn command(&self, line: &str) -> Result<String, Failure> {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = |or: usize| words.next().map_or(Ok(or), str::parse::<usize>);
        match name {
            "cpu" => Ok(gauge::cpu().as_nanos().to_string()),
            "prepare" => {
                self.reset().await?;
                let has = |word| line.split(' ').any(|other| other == word);
                let mut bytes = 0;
                for kind in 0..self.kinds.len() {
                    let metadata = has("metadata");
                    let protobuf = has("protobuf") && self.has_protobuf(kind, metadata);
                    let shape = Shape { kind, streaming: has("streaming"), protobuf, metadata };
                    bytes += self.recorded(shape).await?.chunks.iter().map(Bytes::len).sum::<usize>();
                }
                Ok(bytes.to_string())
            }
            "burst" => self.burst(number(1000)?).await,
            "paced" => self.paced(number(1000)?, number(100)?).await,
            "expire" => self.expire().await,
            _ => Err(format!("unknown command: {line}").into()),
        }
    }
}

/// Accepts control connections and runs their commands: `cpu` (nanoseconds so far), `prepare [streaming]
/// [protobuf] [metadata]` (restores all objects; returns the bytes of the initial lists), `burst COUNT`
/// (returns its label), `paced COUNT A_SECOND`, `expire` (returns the label of the change after the relist).
async fn accept_control(server: Arc<Server>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let server = Arc::clone(&server);
        tokio::spawn(control::respond(stream, move |line| {
            let server = Arc::clone(&server);
            async move { server.command(&line).await }
        }));
    }
}

fn object(options: &Serve, kind: usize, n: usize) -> Value {
    let content = if kind == 0 { options.kind } else { Kind::Crd };
    let mut object = if options.bare {
        objects::bare(content, options.seed, n)
    } else {
        objects::object(content, options.seed, n)
    };
    // Custom resources need `apiVersion` and `kind` in each object, which are optional for built-in kinds.
    if content == Kind::Crd {
        let resource = resource(options.kind, kind);
        object["apiVersion"] = Value::from(resource.gvr().api_version());
        object["kind"] = Value::from(resource.kind());
    }
    object
}

fn reply(recording: &Recording, live: Chunks) -> Response<Body> {
    let first = stream::iter(recording.chunks.clone());
    let mut response = Response::new(streamed(first.chain(live).boxed()));
    response.headers_mut().insert(header::CONTENT_TYPE, recording.content_type.clone());
    response
}

fn streamed(chunks: Chunks) -> Body {
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

fn content_type(headers: &HeaderMap) -> HeaderValue {
    let json = HeaderValue::from_static("application/json");
    headers.get(header::CONTENT_TYPE).cloned().unwrap_or(json)
}

/// Replaces [`STAMP`] in an event with the current time.
fn stamped(data: Bytes) -> Bytes {
    if find(&data, STAMP.as_bytes()).is_none() {
        return data;
    }
    let mut data = BytesMut::from(&data[..]);
    let now = gauge::stamp();
    while let Some(at) = find(&data, STAMP.as_bytes()) {
        data[at..at + STAMP.len()].copy_from_slice(now.as_bytes());
    }
    data.freeze()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}
