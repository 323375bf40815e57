//! The shipped reader, asked through its public API: a client whose server answers with given frames.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Response;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use informer_cache::source::{
    ListPart, ListRequest, Listed, Lister, SourceContext, SourceError, VersionMatch, WatchEvent,
    WatchRequest, Watcher,
};
use informer_client::{
    Client, DecodeError, KubeListWatch, RawObject, ReadOptions, Representation, ResourceKind,
};
use informer_core::{Header, Object, ResourceVersion};

/// An object as the client reads it: the header, and the text after pruning.
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
        let json = raw.json().into_owned();
        Ok(Self { header: raw.into_header(), json })
    }
}

/// What became of one object.
pub(crate) type Seen = Result<Probe, Unreadable>;

/// An object that was set aside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unreadable;

/// A list as it was read: the objects in order, how many were set aside, and whether it came to its end.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadList {
    pub(crate) objects: Vec<Probe>,
    pub(crate) unreadable: usize,
    /// The version of the list, or the error that ended it.
    pub(crate) end: Result<ResourceVersion, String>,
}

/// A watch as it was read: an event a line, and the error that ended it, if one did.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadWatch {
    pub(crate) events: Vec<(&'static str, Option<Seen>)>,
    pub(crate) end: Result<(), String>,
}

/// Reads a body as the answer to a list request.
pub(crate) fn read_list(frames: Vec<Bytes>, options: ReadOptions) -> ReadList {
    read_from(source(frames, None, options))
}

/// Reads a compressed body as the answer to a list request.
pub(crate) fn read_gzip(frames: Vec<Bytes>, options: ReadOptions) -> ReadList {
    read_from(source(frames, Some("gzip"), options))
}

fn read_from(source: KubeListWatch<Probe>) -> ReadList {
    block_on(async {
        let mut list = ReadList {
            objects: Vec::new(),
            unreadable: 0,
            end: Err("the list ended without an end".to_owned()),
        };
        let mut parts = match source.list(first_request()).await {
            Ok(parts) => parts,
            Err(error) => return ReadList { end: Err(told(&error)), ..list },
        };
        while let Some(part) = parts.next().await {
            match part {
                Ok(ListPart::Items(items)) => list.objects.extend(items.into_iter().map(probe)),
                Ok(ListPart::Undecodable(_)) => list.unreadable += 1,
                Ok(ListPart::End(end)) => list.end = Ok(end.version),
                Err(error) => list.end = Err(told(&error)),
            }
        }
        list
    })
}

/// The objects of a list in another form, as far as they were read.
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

/// Reads a body as the answer to a watch request.
pub(crate) fn read_watch(frames: Vec<Bytes>, options: ReadOptions) -> ReadWatch {
    block_on(async {
        let request = WatchRequest {
            version: ResourceVersion::any(),
            bookmarks: true,
            send_initial_events: false,
            timeout: Duration::from_secs(300),
            context: SourceContext::default(),
        };
        let mut watch = ReadWatch { events: Vec::new(), end: Ok(()) };
        let mut events = match source::<Probe>(frames, None, options).watch(request).await {
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
    // An error says what it is about, whatever came; this runs its formatting, too.
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without words: {error:?}");
    text
}

fn told_event(event: WatchEvent<Probe>) -> (&'static str, Option<Seen>) {
    match event {
        WatchEvent::Added(object) => ("ADDED", Some(Ok(Probe::clone(&object)))),
        WatchEvent::Modified(object) => ("MODIFIED", Some(Ok(Probe::clone(&object)))),
        WatchEvent::Deleted(object) => ("DELETED", Some(Ok(Probe::clone(&object)))),
        WatchEvent::Undecodable(_) => ("ADDED or MODIFIED", Some(Err(Unreadable))),
        WatchEvent::DeletedUndecodable(_) => ("DELETED", Some(Err(Unreadable))),
        WatchEvent::Bookmark { .. } => ("BOOKMARK", None),
        WatchEvent::Error(_) => ("ERROR", None),
        WatchEvent::Unknown { .. } => ("another", None),
    }
}

fn probe(listed: Listed<Probe>) -> Probe {
    match listed {
        Listed::Fresh(object) | Listed::Known(object) => Probe::clone(&object),
    }
}

fn source<O: Representation>(
    frames: Vec<Bytes>,
    encoding: Option<&'static str>,
    options: ReadOptions,
) -> KubeListWatch<O> {
    let service = tower::service_fn(move |_request| {
        let frames = frames.clone();
        async move {
            let frames = frames.into_iter().map(|frame| Ok::<_, Infallible>(Frame::data(frame)));
            let mut answer = Response::new(StreamBody::new(stream::iter(frames)));
            if let Some(encoding) = encoding {
                answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let kind = ResourceKind::new("", "v1", "Pod", "pods");
    KubeListWatch::of(Client::from_service(service, "default"), kind).read_options(options)
}

/// Runs a future that waits for nothing but itself.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without I/O needs nothing that could be missing");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}
