//! The Kubernetes source of informers: list and watch requests over HTTP, and the decoding of their
//! responses.
//!
//! This is the crate of `informer` that sends requests to an API server. [`Client`] is an HTTP client that is
//! built from kube's configuration. [`KubeListWatch`] uses this client to implement the source traits of
//! `informer-cache`.
//!
//! Built-in kinds are requested as protobuf. Custom resources, and kinds that the server does not serve as
//! protobuf, are requested as JSON. The response is split into objects while it arrives. A single pass
//! removes `metadata.managedFields` and reads key, resource version, labels and owner references. The
//! representation of an object is a type parameter:
//!
//! | representation | use |
//! |---|---|
//! | [`Lazy<K>`] | the default: keeps the received bytes and decodes them to `K` on access |
//! | `Packed<K>` | the same, compressed (feature `packed`) |
//! | [`Typed<K>`] | decodes on arrival; takes five to ten times the memory |
//! | [`Dynamic`] | kinds without a Rust type |
//! | [`Metadata<K>`] | labels, annotations and owner references only; the server sends nothing else |
//!
//! The typed view of a lazy or packed object is dropped with its last `Arc`. [`ReadOptions::view_bytes`] sets
//! the size of a cache that keeps views alive, so that frequently read objects are decoded once.
//!
//! # Guarantees
//!
//! - In addition to the objects that it returns, a list buffers one object and one network frame. If several
//!   tasks decode a long response, each of them also buffers a batch of about 256 KiB.
//! - An undecodable object is quarantined; it does not affect other objects.
//! - An object that is already in the cache at the listed resource version is not decoded again.
//! - No error, log message or `Debug` output contains a value of an object.
//! - Failed lists and watches are not retried, except once after their credentials were renewed, and up to
//!   three times if an HTTP/2 server closed the connection or the stream without processing the request. The
//!   caller receives the status, `Retry-After` and the cause. [`Client::call`] also repeats idempotent
//!   requests if the server asks for it; see [`CallRetries`].

mod any_transform;
#[cfg(test)]
mod arbitrary;
mod call;
mod client;
mod differences;
mod discovery;
mod factory;
mod fields;
mod header;
mod kind;
mod kube;
mod list_keys;
mod list_watch;
mod memory;
mod object;
mod prefilter;
mod prune;
mod scan;
mod splitter;
mod trace;
mod unknown_fields;
mod watch_stream;

pub use any_transform::AnyTransform;
pub use call::{
    Call, CallError, CallRetries, MAX_CALL_RETRIES, MAX_CALL_RETRY_TIME, MIN_CALL_RETRY_DELAY, PatchFormat,
};
pub use client::{Client, ClientError, ClientOptions, RequestError, ResponseBody, program_name};
pub use differences::{
    ChangedFields, Difference, MAX_CHANGED_FIELDS, PathSegment, changed_fields, differences,
};
pub use discovery::{
    DiscoveredGroup, DiscoveredKind, DiscoveredVersion, Discovery, MAX_MAPPER_AGE, MIN_MAPPER_REFRESH,
    RestMapper,
};
pub use factory::SharedInformerFactory;
pub use header::HeaderError;
pub use kind::{ResourceKind, ResourceScope, StaticKind, StaticResource};
pub use list_keys::{ListKey, ListKeys, ListKeysAt};
pub use list_watch::{
    DiscoveredScope, Encodings, HashKey, HashShares, HashSharesError, KubeListWatch, ListOptionsTweak,
    ListWatchOptions, ReadOptions, SplitLists, StreamingLists,
};
pub use memory::{MemoryBudget, MemoryState, SourceMemoryState};
#[cfg(feature = "packed")]
pub use object::Packed;
pub use object::{DecodeError, Dynamic, Encoding, Lazy, Metadata, Origin, RawObject, Representation, Typed};
pub use prefilter::{Prefilter, ReceivedObject};
pub use prune::Pruning;
pub use splitter::Limits;
#[cfg(feature = "otel")]
pub use trace::OpenTelemetry;
pub use trace::{ParseTraceContextError, TRACE_ANNOTATION, TraceContext, TracePropagation};
pub use watch_stream::WatchChanges;
