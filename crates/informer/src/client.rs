//! The Kubernetes client that informers use: connections, representations of objects, lists and watches,
//! kinds.
//!
//! | for | see |
//! |---|---|
//! | connections to an API server | [`Client`], [`ClientOptions`] |
//! | how a cache holds its objects | [`Lazy`] (the default), [`Typed`], [`Dynamic`], [`Metadata`], and `Packed` (feature `packed`) |
//! | which objects and fields a cache holds | [`ReadOptions`], [`Prefilter`], [`Pruning`] |
//! | the source of a shared informer | [`KubeListWatch`] |
//! | changes of objects without a cache | [`Client::watch`], [`WatchChanges`] |
//! | kinds, static or discovered at run time | [`ResourceKind`], [`RestMapper`], [`Discovery`] |
//! | single requests | [`Call`], [`Client::call`] |
//! | what changed between two states of an object | [`differences`], [`changed_fields`] |
//! | trace contexts of requests and objects | [`Client::trace_propagation`], [`TraceContext`] |
//! | logs, exec, attach, port-forward, evictions | [`Client::kube_api`] |
//!
//! Controllers read and write through the client of the [runtime](crate::runtime), which is built on this
//! one.

#[cfg(feature = "otel")]
pub use informer_client::OpenTelemetry;
#[cfg(feature = "packed")]
pub use informer_client::Packed;
pub use informer_client::{
    AnyTransform, Call, CallError, CallRetries, ChangedFields, Client, ClientError, ClientOptions,
    DecodeError, Difference, DiscoveredGroup, DiscoveredKind, DiscoveredScope, DiscoveredVersion, Discovery,
    Dynamic, Encoding, Encodings, HashKey, HashShares, HashSharesError, HeaderError, KubeListWatch, Lazy,
    Limits, ListOptionsTweak, ListWatchOptions, MemoryBudget, MemoryState, Metadata, Origin,
    ParseTraceContextError, PatchFormat, PathSegment, Prefilter, Pruning, RawObject, ReadOptions,
    ReceivedObject, Representation, RequestError, ResourceKind, ResourceScope, ResponseBody, RestMapper,
    SourceMemoryState, SplitLists, StaticKind, StaticResource, StreamingLists, TRACE_ANNOTATION,
    TraceContext, TracePropagation, Typed, WatchChanges, changed_fields, differences, program_name,
};
