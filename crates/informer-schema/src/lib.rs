//! What the built-in Kubernetes kinds are made of, as one generated table, and what follows from it.
//!
//! [`Schema::builtin`] holds names, types and numbers: the fields of each kind in both encodings, how lists are merged,
//! which resources a server has and which columns it prints.
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
//! | to | there is |
//! |---|---|
//! | turn objects into the other encoding, byte for byte as a server | [`Schema::to_json`], [`Schema::to_protobuf`], [`KindSchema::message_to_json`] |
//! | read and write what stands around them | [`Envelope`], [`enclose`], [`envelope_head`], [`frame`], [`write_frame`], [`Schema::watch_event_to_json`] |
//! | cut a list into objects as it comes in | [`ListSplitter`] |
//! | know an object without decoding it, and drop its managed fields | [`Scan`] |
//! | read one field | [`KindSchema::scalar`] |
//! | find out whether a newer server wrote more than the table knows | [`KindSchema::has_unknown_fields`], [`KindSchema::has_path`] |
//! | read a type of `k8s-openapi`, or any other of serde | [`Schema::decode`], [`KindSchema::decode_message`] |
//! | find members that a kind does not have, or that are there twice | [`KindSchema::strict_problems`] |
//! | apply a strategic merge patch | [`strategic_merge`] |
//! | read a length of time as Go does | [`read_duration`] |
//! | read an instant as Go does, and write it as it does | [`canonical_time`], [`canonical_micro_time`] |
//!
//! # Bad input
//!
//! Whatever the bytes are, readers return an error that names the field and no value; none panics. Memory is bounded by the input:
//! what is found in it takes a small multiple of its bytes, and JSON at most [`MAX_GROWTH`] times as many. Nesting is bounded by [`MAX_DEPTH`] and [`MAX_JSON_DEPTH`], lengths by
//! [`MAX_INPUT`] and by the limit of a [`ListSplitter`]. Protobuf is read as the format allows it (fields in any order, messages in
//! pieces, unknown fields); it is written as Go writes it.
//!
//! This crate knows neither tokio nor HTTP, and keeps no state of its own: who needs the table makes one [`Schema`] and
//! shares it.

mod de;
mod duration;
mod envelope;
mod error;
mod field;
mod kind;
mod list;
mod merge;
mod quantity;
mod resource;
mod scan;
mod schema;
mod strict;
mod text;
mod time;
mod transcode;
mod unknown;
mod wire;

pub use de::ProtobufDecodeError;
pub use duration::{DurationError, read_duration};
pub use envelope::{
    ENVELOPE_TAIL, Envelope, MAGIC, block_head, enclose, envelope_head, frame, frame_length, watch_event,
    write_frame,
};
pub use error::{Problem, TranscodeError};
pub use field::{BaseType, Field, ListType, PatchStrategy, Shape};
pub use kind::{KindSchema, Message};
pub use list::{ListSegment, ListSplitter};
pub use merge::{MergeError, strategic_merge};
pub use quantity::canonical_quantity;
pub use resource::{Column, Names, Resource, ResponseKind, SubresourceInfo};
pub use scan::{ProtobufHeaderError, Scan};
pub use schema::extra::{ExtraField, ExtraFieldError};
pub use schema::{Schema, SharedKindSchema};
pub use strict::{MAX_STRICT_PROBLEMS, StrictProblem};
pub use text::{MAX_INPUT, MAX_JSON_DEPTH};
pub use time::{TimeError, canonical_micro_time, canonical_time};
pub use transcode::{MAX_DEPTH, MAX_GROWTH};
