//! Splits the body of a list or watch response into objects while it arrives in network frames, whose
//! boundaries can be anywhere.
//!
//! There are splitters for three formats: [`list`] (one object with `items`), [`frames`] (concatenated
//! values, a watch) and [`lengths`] (a watch in protobuf). Each splitter receives network frames and returns
//! slices. A slice refers to the frame if the frame contains the complete value, and to a buffer otherwise.
//! `informer-schema` splits a list in protobuf.
//!
//! # Invariants
//!
//! 1. At most one unfinished value is buffered; a value that fits into a frame is never copied.
//! 2. A value that exceeds its size limit ends the response with an error, before more bytes than the limit
//!    are buffered.

pub(crate) mod frames;
pub(crate) mod lengths;
pub(crate) mod list;
mod value;

use std::fmt;

use crate::scan::Span;

/// Limits of size and depth for the parts of a response. Exceeding a limit ends the response with an error
/// that names it.
///
/// ```
/// use informer_client::Limits;
///
/// let limits = Limits { object_bytes: 1 << 20, ..Limits::default() };
/// assert!(limits.object_bytes < Limits::default().object_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of an object, in bytes. The default is 64 MiB: etcd stores at most 1.5 MiB for one
    /// object, and aggregated servers may send more. The limit prevents an object that never ends from
    /// filling the memory.
    pub object_bytes: usize,
    /// The maximum size of the uncompressed response to one list request, in bytes. The default is 64 GiB,
    /// enough for a million objects of the largest usual size. The limit ends an endless list.
    pub page_bytes: u64,
    /// The maximum nesting depth of an object: the number of open brackets. The default is 1000; API servers
    /// allow 10,000 and `serde_json` allows 128.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { object_bytes: 64 << 20, page_bytes: 64 << 30, depth: 1000 }
    }
}

/// The bytes of one value of a response body, and the offsets of the objects and arrays in its outer levels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) spans: &'a [Span],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    /// The body is not JSON, or contains another JSON value than the expected one.
    #[error("not JSON: expected {expected} at byte {at}{}", FirstByte(.seen))]
    Syntax { at: u64, expected: &'static str, seen: Option<u8> },
    /// A member of the list is invalid, for example because its key occurs twice.
    #[error("{member} {problem}")]
    Member { member: &'static str, problem: &'static str },
    #[error("{what} is over the limit of {limit} bytes (Limits::{name})")]
    Large { what: &'static str, limit: u64, name: &'static str },
    #[error("a value is nested over the limit of {limit} brackets (Limits::depth)")]
    Deep { limit: usize },
    #[error("the closing bracket at byte {at} does not match the opening bracket")]
    Mismatch { at: u64 },
}

/// The first byte of invalid input, for error messages. At most one byte is shown, because the input may be
/// part of a secret.
struct FirstByte<'a>(&'a Option<u8>);

impl fmt::Display for FirstByte<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => write!(f, ", found {:?}", char::from(*byte)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
