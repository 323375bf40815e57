//! Cuts a body into its objects while it arrives, at whatever borders.
//!
//! Shapes of body: [`list`] (one object whose `items` are wanted one by one), [`frames`] (values one after
//! the other, a watch) and [`lengths`] (a watch in protobuf). All are fed network frames and hand out slices:
//! of the frame where a value lies in one frame whole, of a buffer where it does not. A list in protobuf is
//! cut by `informer-schema`.
//!
//! # Invariants
//!
//! 1. What is buffered is one unfinished value, never more; a value that fits into a frame is never copied.
//! 2. A value over its limit ends the body before it is buffered beyond the limit.

pub(crate) mod frames;
pub(crate) mod lengths;
pub(crate) mod list;
mod value;

use std::fmt;

use crate::scan::Span;

/// How large and how deep the parts of an answer may be. Beyond a limit the answer ends in an error that
/// names it.
///
/// ```
/// use informer_client::Limits;
///
/// let limits = Limits { object_bytes: 1 << 20, ..Limits::default() };
/// assert!(limits.object_bytes < Limits::default().object_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest object, in bytes. 64 MiB by default: etcd stores at most 1.5 MiB of one, aggregated
    /// servers may send more, and a line that never ends must not fill the memory.
    pub object_bytes: usize,
    /// The largest answer to one list request, in bytes, without compression. 64 GiB by default, which is a
    /// million objects of the largest usual size: it ends lists that never do.
    pub page_bytes: u64,
    /// How many brackets may be open at once. 1000 by default; servers themselves stop at 10,000 and
    /// `serde_json` at 128.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { object_bytes: 64 << 20, page_bytes: 64 << 30, depth: 1000 }
    }
}

/// The bytes of one value, and where the outer containers in it stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) spans: &'a [Span],
}

/// A body that cannot be cut into objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    /// Something else than JSON, or than the JSON that belongs there.
    #[error("not JSON: expected {expected} at byte {at}{}", Seen(.seen))]
    Syntax { at: u64, expected: &'static str, seen: Option<u8> },
    /// The text of a member around the objects is not what it must be.
    #[error("{member} {problem}")]
    Member { member: &'static str, problem: &'static str },
    #[error("{what} is over the limit of {limit} bytes (Limits::{name})")]
    Large { what: &'static str, limit: u64, name: &'static str },
    #[error("a value is nested over the limit of {limit} brackets (Limits::depth)")]
    Deep { limit: usize },
    #[error("a bracket at byte {at} does not match the one that it closes")]
    Mismatch { at: u64 },
}

/// One byte is shown of what came instead, and no more: it may be part of a secret.
struct Seen<'a>(&'a Option<u8>);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => write!(f, ", found {:?}", char::from(*byte)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
