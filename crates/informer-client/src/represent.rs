//! What an object becomes: the forms that a cache can hold, behind one seam.
//!
//! | form | holds | a read of a field costs |
//! |---|---|---|
//! | [`Lazy`] | header and text | a scan; a decode on the first typed access |
//! | [`Typed`] | header and the decoded type | nothing |
//! | [`Dynamic`] | header and a tree of values | a lookup |
//! | [`Metadata`] | header, annotations, finalizers | nothing; the rest is not there |

mod decode_error;
mod dynamic;
mod lazy;
mod metadata;
mod typed;

use std::borrow::Cow;
use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_core::{Header, Labels, Object};

pub use decode_error::DecodeError;
pub use dynamic::Dynamic;
pub use lazy::Lazy;
pub use metadata::Metadata;
pub use typed::Typed;

use crate::ResourceKind;
use crate::header::RawHeader;
use crate::prune::Cuts;

/// A form of objects that the client can make from what a server sends.
///
/// The seam between the wire and the cache: other encodings and other forms are other implementations of the two sides of
/// it, and nothing else knows of them.
pub trait Representation: Object + Sized {
    /// True where the server need only send the metadata of each object.
    const METADATA_ONLY: bool = false;

    /// Makes the object.
    ///
    /// # Errors
    ///
    /// When the object cannot be read as this form needs it. It is set aside then, and the others go on.
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError>;
}

/// One object as it came: its header, read, and its text.
pub struct RawObject<'a> {
    pub(crate) header: Header,
    pub(crate) raw: &'a RawHeader<'a>,
    pub(crate) text: &'a str,
    pub(crate) cuts: &'a Cuts,
    pub(crate) origin: &'a Arc<Origin>,
}

impl RawObject<'_> {
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Takes the header out.
    pub fn into_header(self) -> Header {
        self.header
    }

    /// The object as JSON without what was pruned; borrowed where nothing was.
    pub fn json(&self) -> Cow<'_, str> {
        match self.cuts.is_empty() {
            true => Cow::Borrowed(self.text),
            false => Cow::Owned(self.cuts.apply(self.text).into()),
        }
    }

    /// Where the object comes from.
    pub fn origin(&self) -> &Arc<Origin> {
        self.origin
    }

    /// `metadata.annotations`.
    ///
    /// # Errors
    ///
    /// When they are not an object of strings.
    pub fn annotations(&self) -> Result<Labels, DecodeError> {
        let annotations = self.raw.metadata.annotations(self.text);
        annotations.map_err(|error| self.error(error.to_string()))
    }

    fn error(&self, problem: String) -> DecodeError {
        DecodeError::new(self.origin.kind(), &self.header, "", problem)
    }
}

impl std::fmt::Debug for RawObject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawObject").field("key", self.header.key()).finish_non_exhaustive()
    }
}

/// What the objects of one answer have in common.
#[derive(Debug)]
pub struct Origin {
    kind: ResourceKind,
    undecodable: UndecodableLog,
}

impl Origin {
    /// An origin; objects that turn out to be unreadable are reported to `undecodable`.
    pub fn new(kind: ResourceKind, undecodable: UndecodableLog) -> Self {
        Self { kind, undecodable }
    }

    /// The kind of the objects.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    /// Where late failures are reported.
    pub fn undecodable(&self) -> &UndecodableLog {
        &self.undecodable
    }
}

/// What a `Debug` of an object may show.
fn fmt_header(f: &mut std::fmt::Formatter<'_>, form: &str, header: &Header) -> std::fmt::Result {
    write!(f, "{form}({} @{})", header.key(), header.resource_version())
}
