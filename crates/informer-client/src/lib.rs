//! The Kubernetes source of informers: list and watch over HTTP, read as bytes.
//!
//! The one crate of `informer` that speaks to an API server. [`Client`] is its HTTP stack on kube's configuration;
//! [`KubeListWatch`] implements the source traits of `informer-cache` on it.
//!
//! Built-in kinds come as protobuf, all others, and those of servers without it, as JSON. A body is cut into objects while it
//! arrives, `metadata.managedFields` is cut away, and key, version, labels and owners
//! are read in the same pass. What an object becomes is a type parameter:
//!
//! | form | for |
//! |---|---|
//! | [`Lazy<K>`] | the default: the bytes themselves, typed on access |
//! | `Packed<K>` | the same, compressed (feature `packed`) |
//! | [`Typed<K>`] | decoded at once, five to ten times the memory |
//! | [`Dynamic`] | kinds without a type |
//! | [`Metadata<K>`] | labels, annotations and owners only, also on the wire |
//!
//! The typed view of a lazy or packed object lasts as long as somebody holds it; [`ReadOptions::view_bytes`] keeps those that are read
//! again and again, within so many bytes.
//!
//! # Guarantees
//!
//! - Memory while listing, beyond the objects that are kept: one object and one network frame; where several tasks decode a backlog,
//!   what they decode, some 256 KiB each.
//! - An object that cannot be read is set aside, and the others flow.
//! - An object that is held already in the very version that is listed is not decoded.
//! - No error, log or `Debug` shows a value of an object.
//! - Nothing is retried: statuses, `Retry-After` and causes reach the caller.

#[cfg(test)]
mod arbitrary;
mod call;
mod client;
mod discovery;
mod factory;
mod fields;
mod header;
mod kind;
mod list_keys;
mod list_watch;
mod object;
mod prune;
mod scan;
mod splitter;
mod unknown_fields;

pub use call::{Call, CallError, PatchFormat};
pub use client::{Client, ClientError, ClientOptions, RequestError, ResponseBody, program_name};
pub use discovery::DiscoveredKind;
pub use factory::SharedInformerFactory;
pub use header::HeaderError;
pub use kind::{ResourceKind, ResourceScope, StaticKind};
pub use list_keys::{ListKey, ListKeys, ListKeysAt};
pub use list_watch::{
    Encodings, HashKey, HashShares, HashSharesError, KubeListWatch, ReadOptions, SplitLists, StreamingLists,
};
#[cfg(feature = "packed")]
pub use object::Packed;
pub use object::{DecodeError, Dynamic, Encoding, Lazy, Metadata, Origin, RawObject, Representation, Typed};
pub use prune::Pruning;
pub use splitter::Limits;
