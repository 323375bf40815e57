//! Runs the shipped parser through its public API: a client whose server responds with given frames.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use informer_cache::source::{
    ListPart, ListRequest, ListSource, Listed, SourceContext, SourceError, VersionMatch, WatchEvent,
    WatchRequest, WatchSource,
};
use informer_client::{
    Client, DecodeError, KubeListWatch, RawObject, ReadOptions, Representation, ResourceKind,
};
use informer_core::{Header, Object, ResourceVersion};

/// An object as read by the client: the header, and the JSON after pruning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Probe {
    pub(crate) header: Header,
    pub(crate) json: String,
}

impl Object for Probe {
    fn header(&self) -> &Header {
        &self.header
    }
}

impl Representation for Probe {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let json = raw.json()?.into_owned();
        Ok(Self { header: raw.into_header(), json })
    }
}

/// An object as read by a client that requests protobuf; the content is the same as that of [`Probe`].
pub(crate) struct WireProbe(Probe);

impl Object for WireProbe {
    fn header(&self) -> &Header {
        self.0.header()
    }
}

impl Representation for WireProbe {
    fn takes_protobuf() -> bool {
        true
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        Probe::decode(raw).map(Self)
    }
}

impl Probed for Probe {
    fn probe(&self) -> Probe {
        self.clone()
    }
}

impl Probed for WireProbe {
    fn probe(&self) -> Probe {
        self.0.clone()
    }
}

trait Probed: Representation {
    fn probe(&self) -> Probe;
}

pub(crate) type ProbeResult = Result<Probe, Unreadable>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unreadable;

/// A list as read by the client: the objects in order, the number of undecodable ones, and the result of the
/// list.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadList {
    pub(crate) objects: Vec<Probe>,
    pub(crate) unreadable: usize,
    /// The version of the list, or the error that ended it.
    pub(crate) end: Result<ResourceVersion, String>,
}

/// A watch as read by the client: one line per event, and the error that ended it.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadWatch {
    pub(crate) events: Vec<(&'static str, Option<ProbeResult>)>,
    pub(crate) end: Result<(), String>,
}

pub(crate) fn read_list(frames: Vec<Bytes>, options: ReadOptions) -> ReadList {
    read_from(source::<Probe>(frames, None, options))
}

pub(crate) fn read_gzip(frames: Vec<Bytes>, options: ReadOptions) -> ReadList {
    read_from(source::<Probe>(frames, Some("gzip"), options))
}

pub(crate) fn read_wire_list(frames: Vec<Bytes>) -> ReadList {
    read_from(wire_source(frames))
}

pub(crate) fn read_wire_watch(frames: Vec<Bytes>) -> ReadWatch {
    read_events(wire_source(frames))
}

/// Returns a source with a cached client. Parsing the schema of the built-in kinds for a new client takes
/// longer than reading a body.
fn wire_source(frames: Vec<Bytes>) -> KubeListWatch<WireProbe> {
    type Frames = Arc<parking_lot::Mutex<Vec<Bytes>>>;
    thread_local! {
        static CLIENT: (Client, Frames) = {
            let frames = Frames::default();
            let served = Arc::clone(&frames);
            let service = tower::service_fn(move |_request| {
                let mut response = response(std::mem::take(&mut *served.lock()));
                let protobuf = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
                response.headers_mut().insert(CONTENT_TYPE, protobuf);
                async move { Ok::<_, Infallible>(response) }
            });
            (Client::from_service(service, "default"), frames)
        };
    }
    CLIENT.with(|(client, next)| {
        *next.lock() = frames;
        KubeListWatch::of(client, ResourceKind::new("", "v1", "Pod", "pods"))
    })
}

fn read_from<O: Probed>(source: KubeListWatch<O>) -> ReadList {
    block_on(async {
        let mut list = ReadList {
            objects: Vec::new(),
            unreadable: 0,
            end: Err("the list stream ended without its final item".to_owned()),
        };
        let mut parts = match source.list(first_request()).await {
            Ok(parts) => parts,
            Err(error) => return ReadList { end: Err(told(&error)), ..list },
        };
        while let Some(part) = parts.next().await {
            match part {
                Ok(ListPart::Items(items)) => {
                    list.objects.extend(items.iter().map(|item| item.object().probe()))
                }
                Ok(ListPart::Undecodable(_)) => list.unreadable += 1,
                Ok(ListPart::Rejected(_)) => {}
                Ok(ListPart::End(end)) => list.end = Ok(end.version),
                Err(error) => list.end = Err(told(&error)),
            }
        }
        list
    })
}

/// Returns the objects of a list in another representation, as far as they can be read.
pub(crate) fn objects_of<O: Representation>(frames: Vec<Bytes>, options: ReadOptions) -> Vec<Arc<O>> {
    block_on(async {
        let Ok(mut parts) = source::<O>(frames, None, options).list(first_request()).await else {
            return Vec::new();
        };
        let mut objects = Vec::new();
        while let Some(Ok(part)) = parts.next().await {
            if let ListPart::Items(items) = part {
                objects
                    .extend(items.into_iter().map(|(Listed::Fresh(object) | Listed::Known(object))| object));
            }
        }
        objects
    })
}

fn first_request<O: Object>() -> ListRequest<O> {
    ListRequest {
        version: ResourceVersion::any(),
        version_match: VersionMatch::Unset,
        limit: None,
        continue_token: None,
        context: SourceContext::default(),
    }
}

pub(crate) fn read_watch(frames: Vec<Bytes>, options: ReadOptions) -> ReadWatch {
    read_events(source::<Probe>(frames, None, options))
}

fn read_events<O: Probed>(source: KubeListWatch<O>) -> ReadWatch {
    block_on(async {
        let request = WatchRequest {
            version: ResourceVersion::any(),
            bookmarks: true,
            send_initial_events: false,
            timeout: Duration::from_secs(300),
            context: SourceContext::default(),
        };
        let mut watch = ReadWatch { events: Vec::new(), end: Ok(()) };
        let mut events = match source.watch(request).await {
            Ok(events) => events,
            Err(error) => return ReadWatch { end: Err(told(&error)), ..watch },
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => watch.events.push(told_event(event)),
                Err(error) => watch.end = Err(told(&error)),
            }
        }
        watch
    })
}

fn told(error: &SourceError) -> String {
    // Formatting the error must not panic, and must not return an empty string.
    let text = error.to_string();
    assert!(!text.is_empty(), "an empty error message: {error:?}");
    text
}

fn told_event<O: Probed>(event: WatchEvent<O>) -> (&'static str, Option<ProbeResult>) {
    match event {
        WatchEvent::Added(object) | WatchEvent::Known(object) => ("ADDED", Some(Ok(object.probe()))),
        WatchEvent::Modified(object) => ("MODIFIED", Some(Ok(object.probe()))),
        WatchEvent::Deleted(object) => ("DELETED", Some(Ok(object.probe()))),
        WatchEvent::Undecodable(_) => ("ADDED or MODIFIED", Some(Err(Unreadable))),
        WatchEvent::DeletedUndecodable(_) => ("DELETED", Some(Err(Unreadable))),
        WatchEvent::Rejected { .. } => ("ADDED, MODIFIED or DELETED", None),
        WatchEvent::Bookmark { .. } => ("BOOKMARK", None),
        WatchEvent::Error(_) => ("ERROR", None),
        WatchEvent::Unknown { .. } => ("another", None),
    }
}

fn response(
    frames: Vec<Bytes>,
) -> Response<StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>>> {
    Response::new(StreamBody::new(stream::iter(frames.into_iter().map(|frame| Ok(Frame::data(frame))))))
}

fn source<O: Representation>(
    frames: Vec<Bytes>,
    encoding: Option<&'static str>,
    options: ReadOptions,
) -> KubeListWatch<O> {
    let service = tower::service_fn(move |_request| {
        let frames = frames.clone();
        async move {
            let mut response = response(frames);
            if let Some(encoding) = encoding {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let kind = ResourceKind::new("", "v1", "Pod", "pods");
    KubeListWatch::of(Client::from_service(service, "default"), kind).read_options(options)
}

/// Runs a future that needs no external wake-up.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without I/O needs no resources");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
