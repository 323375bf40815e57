//! Schema of the built-in Kubernetes kinds, and the encoders, decoders and patches that use it. The schema is
//! one text file, the *schema table* (`src/builtin.txt`), which is generated from the Go types and from a
//! kube-apiserver of Kubernetes.
//!
//! [`Schema::builtin`] contains the fields of each kind with their JSON names, types and protobuf field
//! numbers, the merge strategies of lists, and the resources of a server with their printer columns.
//!
//! ```
//! use informer_core::Gvk;
//! use informer_schema::{ListType, Schema};
//!
//! let schema = Schema::builtin();
//! let pod = schema.kind(&Gvk::new("", "v1", "Pod")).ok_or("no such kind")?;
//! let spec = pod.field("spec").and_then(|field| field.message()).ok_or("no spec")?;
//! let containers = spec.field("containers").ok_or("no containers")?;
//! assert_eq!(containers.number(), Some(2));
//! assert_eq!(containers.merge_key(), Some("name"));
//! assert_eq!(containers.list_type(), Some(ListType::Map));
//! assert_eq!(pod.resource().ok_or("not served")?.short_names().collect::<Vec<_>>(), ["po"]);
//! # Ok::<(), &str>(())
//! ```
//!
//! | task | API |
//! |---|---|
//! | convert objects between JSON and protobuf, byte for byte as a server does | [`Schema::to_json`], [`Schema::to_protobuf`], [`KindSchema::message_to_json`] |
//! | read and write envelopes and watch frames | [`Envelope`], [`enclose`], [`envelope_head`], [`frame`], [`write_frame`], [`Schema::watch_event_to_json`] |
//! | split the body of a list into objects while it arrives | [`ListSplitter`] |
//! | read the metadata of an object without decoding it, and remove its managed fields | [`Scan`] |
//! | read one field | [`KindSchema::scalar`] |
//! | find fields of a newer server | [`KindSchema::has_unknown_fields`], [`KindSchema::has_path`] |
//! | decode a type of `k8s-openapi`, or any other `Deserialize` type | [`Schema::decode`], [`KindSchema::decode_message`] |
//! | find unknown fields and duplicate keys (strict decoding) | [`KindSchema::strict_problems`] |
//! | apply a strategic merge patch | [`strategic_merge`] |
//! | parse a duration as Go does | [`read_duration`] |
//! | parse and format a timestamp as Go does | [`canonical_time`], [`canonical_micro_time`] |
//!
//! # Features
//!
//! `server` (on by default) adds what only a server needs: writing protobuf, strategic merge patches, strict
//! decoding, and parsing of times and durations. Clients build without it.
//!
//! # Bad input
//!
//! Functions that read input never panic. For invalid input they return an error that contains the path of
//! the field, but never a value, which could be secret. Memory use is limited by the size of the input:
//! decoded data takes a small multiple of its bytes, and JSON at most [`MAX_GROWTH`] times as many. Nesting
//! is limited by [`MAX_DEPTH`] and [`MAX_JSON_DEPTH`], lengths by [`MAX_INPUT`] and by the limit of a
//! [`ListSplitter`]. Protobuf is read as the format allows it (fields in any order, split messages, unknown
//! fields) and written as Go writes it.
//!
//! This crate depends neither on tokio nor on HTTP and has no global state: create one [`Schema`] and share
//! it.

mod de;
mod duration;
mod envelope;
mod error;
mod list;
#[cfg(feature = "server")]
mod merge;
mod quantity;
mod scan;
mod schema;
#[cfg(feature = "server")]
mod strict;
mod text;
mod time;
mod transcode;
mod unknown;
mod wire;

pub use de::ProtobufDecodeError;
#[cfg(feature = "server")]
pub use duration::parse::{DurationError, read_duration};
pub use envelope::{
    ENVELOPE_TAIL, Envelope, MAGIC, block_head, enclose, envelope_head, frame, frame_length, watch_event,
    write_frame,
};
pub use error::{Problem, TranscodeError};
pub use list::{ListSegment, ListSplitter};
#[cfg(feature = "server")]
pub use merge::{MergeError, strategic_merge};
pub use quantity::canonical_quantity;
pub use scan::{ProtobufHeaderError, Scan};
pub use schema::extra::{ExtraField, ExtraFieldError};
pub use schema::field::{BaseType, Field, ListType, PatchStrategy, Shape};
pub use schema::kind::{KindSchema, Message};
pub use schema::resource::{Column, Names, Resource, ResponseKind, SubresourceInfo};
pub use schema::{Schema, SharedKindSchema};
#[cfg(feature = "server")]
pub use strict::{MAX_STRICT_PROBLEMS, StrictProblem};
pub use text::{MAX_INPUT, MAX_JSON_DEPTH};
#[cfg(feature = "server")]
pub use time::parse::{TimeError, canonical_micro_time, canonical_time};
pub use transcode::{MAX_DEPTH, MAX_GROWTH};
