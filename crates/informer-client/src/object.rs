//! Representations of an object in a cache.
//!
//! | representation | stores | cost of reading a field |
//! |---|---|---|
//! | [`Lazy`] | header and bytes as received | a scan; a decode on the first typed access |
//! | `Packed` | header and compressed bytes | decompression, then as [`Lazy`] |
//! | [`Typed`] | header and the decoded type | nothing |
//! | [`Dynamic`] | header and JSON text | a scan |
//! | [`Metadata`] | header, annotations, finalizers | nothing; other fields are absent |

mod body;
mod decode_error;
mod dynamic;
mod held_view;
mod interner;
mod lazy;
mod metadata;
#[cfg(feature = "packed")]
mod packed;
#[cfg(feature = "packed")]
mod packing;
mod splice;
mod stored;
mod template;
mod typed;
mod views;
mod weak_table;

use std::borrow::Cow;
use std::sync::Arc;

use informer_cache::{Undecodable, UndecodableLog};
use informer_core::{Header, Labels, Object};
use informer_schema::{Scan, SharedKindSchema, TranscodeError};

pub(crate) use body::has_hidden_field;
use body::{Body, BodyRef, OwnBytes};
pub use decode_error::DecodeError;
pub use dynamic::Dynamic;
pub(crate) use interner::Interner;
pub use lazy::Lazy;
pub use metadata::Metadata;
#[cfg(feature = "packed")]
pub use packed::Packed;
#[cfg(feature = "packed")]
pub(crate) use packing::Packing;
use template::{PartBytes, Template};
pub use typed::Typed;
pub(crate) use views::Views;

use crate::ResourceKind;
use crate::header::RawHeader;
use crate::memory::{Charge, SourceMemory};
use crate::unknown_fields::UnknownFields;

/// A representation of objects that the client can build from the bytes that a server sends.
///
/// The trait separates encodings from representations: a new representation works with every encoding, and a
/// new encoding with every representation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a representation of Kubernetes objects",
    label = "the client cannot build this type from a response",
    note = "for the kind `Pod`, write `Lazy<Pod>`, `Typed<Pod>`, `Packed<Pod>` or `Metadata<Pod>`",
    note = "for a kind that is known only at run time, write `Dynamic`"
)]
pub trait Representation: Object + Sized {
    /// True if this representation contains only metadata, so that the server needs to send only the metadata
    /// of each object.
    const METADATA_ONLY: bool = false;

    /// Returns true if this representation can be built from protobuf. The client then requests protobuf for
    /// built-in kinds; an object can still arrive as JSON. The default is false, with which the
    /// representation receives only JSON. A representation that supports protobuf should implement
    /// [`Object::is_partial`], because an object from a newer server may have protobuf fields that the
    /// built-in schema does not contain, and the representation then lacks these fields.
    fn takes_protobuf() -> bool {
        false
    }

    /// Builds this representation of a received object.
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not fit this representation. The object is then reported as
    /// undecodable, and the list or watch continues.
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError>;

    /// Marks this object as partial. The client calls it for an object that a transform built from a
    /// [partial](Object::is_partial) object, because the new object lacks the same fields. The default
    /// implementation returns the object unchanged. A representation whose objects programs can build should
    /// implement it; otherwise an update of such an object may remove these fields.
    fn into_partial(self: Arc<Self>) -> Arc<Self> {
        self
    }
}

/// The encoding in which an object was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON, which servers support for every kind.
    Json,
    /// Protobuf, which servers support for built-in kinds.
    Protobuf,
}

/// One received object: its decoded header and its undecoded bytes.
pub struct RawObject<'a> {
    pub(crate) header: Header,
    pub(crate) bytes: RawBytes<'a>,
    pub(crate) origin: &'a Arc<Origin>,
}

#[derive(Clone, Copy)]
pub(crate) enum RawBytes<'a> {
    Json { raw: &'a RawHeader<'a>, text: &'a str, cut_managed_fields: bool },
    Protobuf { scan: &'a Scan<'a>, message: &'a [u8], cut_managed_fields: bool },
}

impl<'a> RawObject<'a> {
    /// Returns the header of the object.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the header of the object without decoding the rest of the object.
    pub fn into_header(self) -> Header {
        self.header
    }

    /// Returns the encoding in which the object was received.
    pub fn encoding(&self) -> Encoding {
        match self.bytes {
            RawBytes::Json { .. } => Encoding::Json,
            RawBytes::Protobuf { .. } => Encoding::Protobuf,
        }
    }

    /// Returns the number of received bytes of the object, including managed fields.
    pub fn wire_bytes(&self) -> usize {
        match self.bytes {
            RawBytes::Json { text, .. } => text.len(),
            RawBytes::Protobuf { message, .. } => message.len(),
        }
    }

    /// Returns the object as JSON without the pruned fields; borrowed if it was received as JSON and nothing
    /// was pruned.
    ///
    /// # Errors
    ///
    /// When the object was received as protobuf and cannot be converted to JSON.
    pub fn json(&self) -> Result<Cow<'a, str>, DecodeError> {
        match self.bytes {
            RawBytes::Json { raw, text, cut_managed_fields: true } if raw.layout.has_managed_fields() => {
                Ok(Cow::Owned(raw.layout.cuts([false; 3]).apply(text).into()))
            }
            RawBytes::Json { text, .. } => Ok(Cow::Borrowed(text)),
            RawBytes::Protobuf { .. } => {
                let whole = Body::new(self.own(None)?, None);
                if whole.borrow().is_partial(self.origin) {
                    self.origin.require_json();
                }
                Ok(Cow::Owned(whole.borrow().json(self.origin, &self.header)?.into_owned()))
            }
        }
    }

    /// Returns the data that this object shares with the other objects of its response, such as the kind.
    pub fn origin(&self) -> &Arc<Origin> {
        self.origin
    }

    /// Returns `metadata.annotations`.
    ///
    /// # Errors
    ///
    /// When the annotations are not an object of strings.
    pub fn annotations(&self) -> Result<Labels, DecodeError> {
        match self.bytes {
            RawBytes::Json { raw, text, .. } => {
                raw.metadata.annotations(text).map_err(|error| self.error(error.to_string()))
            }
            RawBytes::Protobuf { scan, .. } => {
                let annotations = scan.annotations().map_err(|error| self.unreadable(&error))?;
                Ok(annotations.into_iter().collect())
            }
        }
    }

    pub(crate) fn finalizers(&self) -> Result<Box<[Box<str>]>, DecodeError> {
        match self.bytes {
            RawBytes::Json { raw, text, .. } => {
                raw.metadata.finalizers(text).map_err(|error| self.error(error.to_string()))
            }
            RawBytes::Protobuf { scan, .. } => {
                let finalizers = scan.finalizers().map_err(|error| self.unreadable(&error))?;
                Ok(finalizers.into_iter().map(Box::from).collect())
            }
        }
    }

    /// Returns `metadata.creationTimestamp`, in its JSON format.
    pub(crate) fn creation_timestamp(&self) -> Result<Option<Box<str>>, DecodeError> {
        match self.bytes {
            RawBytes::Json { raw, .. } => Ok(raw.metadata.creation_timestamp.as_deref().map(Box::from)),
            RawBytes::Protobuf { scan, .. } => {
                scan.creation_timestamp().map_err(|error| self.unreadable(&error))
            }
        }
    }

    /// Returns the bytes to store for this object: without the pruned fields, and with the parts that are
    /// shared with other objects (such as labels) separated.
    pub(crate) fn body(&self) -> Result<Body, DecodeError> {
        let common = self.common()?;
        Ok(Body::new(self.own(common.as_deref())?, common))
    }

    /// Returns the bytes of the object without the pruned fields and without the shared parts in `common`.
    fn own(&self, common: Option<&Template>) -> Result<OwnBytes, DecodeError> {
        let chosen = common.map(Template::chosen);
        Ok(match self.bytes {
            RawBytes::Json { raw, text, cut_managed_fields } => {
                let own = if cut_managed_fields {
                    raw.layout.cuts(chosen.unwrap_or_default()).apply(text)
                } else {
                    text.into()
                };
                OwnBytes::json(own, raw.has_type())
            }
            RawBytes::Protobuf { message, cut_managed_fields: false, .. } => {
                OwnBytes::Protobuf(message.into())
            }
            RawBytes::Protobuf { scan, .. } => {
                let own = match chosen {
                    Some(chosen) => scan.without_templated(chosen),
                    None => scan.without_managed_fields().map(Cow::into_owned),
                };
                OwnBytes::Protobuf(own.map_err(|error| self.unreadable(&error))?.into())
            }
        })
    }

    /// Returns the parts of the metadata that are shared with other objects. If managed fields are not
    /// pruned, no part is shared, so that the bytes are stored unchanged.
    fn common(&self) -> Result<Option<Arc<Template>>, DecodeError> {
        let Some(interner) = self.origin.interner() else { return Ok(None) };
        let runs = match self.bytes {
            RawBytes::Json { raw, text, cut_managed_fields: true } => {
                PartBytes::Json(raw.layout.templated().map(|place| Some(&text[place?])))
            }
            RawBytes::Protobuf { scan, cut_managed_fields: true, .. } => {
                PartBytes::Protobuf(scan.templated().map_err(|error| self.unreadable(&error))?)
            }
            _ => return Ok(None),
        };
        Ok(interner.common(runs))
    }

    fn unreadable(&self, error: &TranscodeError) -> DecodeError {
        self.error(error.problem().to_string())
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

/// Data that all objects of one response share, such as their kind.
#[derive(Debug)]
pub struct Origin {
    kind: ResourceKind,
    undecodable: UndecodableLog,
    wire: Option<SharedKindSchema>,
    views: Option<Arc<Views>>,
    interner: Option<Arc<Interner>>,
    unknown_fields: Option<Arc<UnknownFields>>,
    /// True for objects that a transform built from partial objects.
    of_partial: bool,
    memory: Option<Arc<SourceMemory>>,
    #[cfg(feature = "packed")]
    packing: Arc<Packing>,
}

impl Origin {
    /// Returns an origin for objects of `kind`. Objects that fail to decode on a later access are reported to
    /// `undecodable`.
    pub fn new(kind: ResourceKind, undecodable: UndecodableLog) -> Self {
        Self {
            kind,
            undecodable,
            wire: None,
            views: None,
            interner: None,
            unknown_fields: None,
            of_partial: false,
            memory: None,
            #[cfg(feature = "packed")]
            packing: Arc::default(),
        }
    }

    #[cfg(feature = "packed")]
    pub(crate) fn with_packing(self, packing: Arc<Packing>) -> Self {
        Self { packing, ..self }
    }

    #[cfg(feature = "packed")]
    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn with_memory(self, memory: Option<Arc<SourceMemory>>) -> Self {
        Self { memory, ..self }
    }

    /// Returns the memory in which the objects are counted; `None` without a memory budget.
    pub(crate) fn memory(&self) -> Option<&SourceMemory> {
        self.memory.as_deref()
    }

    /// Counts an object of this size until the result is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Box<Charge>> {
        self.memory.as_ref().map(|memory| Box::new(Charge::new(memory, bytes)))
    }

    pub(crate) fn with_interner(self, interner: Arc<Interner>) -> Self {
        Self { interner: Some(interner), ..self }
    }

    /// Returns true if the objects are Secrets. Memory that is shared between objects must not contain data
    /// of Secrets, because this memory can outlive the Secrets. Annotations contain such data, too: `kubectl
    /// apply` writes the data into `last-applied-configuration`.
    pub(crate) fn is_of_secrets(&self) -> bool {
        is_secret(&self.kind)
    }

    /// Returns the interner for labels, annotations and owner references; `None` if the objects share
    /// nothing.
    pub(crate) fn interner(&self) -> Option<&Interner> {
        self.interner.as_deref()
    }

    pub(crate) fn with_views(self, views: Option<Arc<Views>>) -> Self {
        Self { views, ..self }
    }

    /// Caches a typed view for the next read of the object, if this source caches views. Views of Secrets are
    /// not cached, because a cached view may outlive its object.
    pub(crate) fn keep<K: Send + Sync + 'static>(&self, view: &Arc<K>, body: BodyRef<'_>) {
        if let Some(views) = self.views.as_ref().filter(|_| !self.is_of_secrets()) {
            views.keep(Arc::<K>::clone(view), body);
        }
    }

    /// Adds an object that failed to decode on access to the undecodable objects of its informer. The first
    /// failure of each resourceVersion of an object is also logged.
    pub(crate) fn report(&self, header: &Header, error: &DecodeError) {
        let undecodable = Undecodable::new(Some(header.key().clone()), error.clone())
            .with_version(header.uid(), header.resource_version().clone());
        if self.undecodable.report(undecodable) {
            tracing::warn!(
                kind = error.kind(),
                key = %header.key(),
                version = %header.resource_version(),
                %error,
                "an object cannot be decoded"
            );
        }
    }

    pub(crate) fn with_wire(self, wire: Option<SharedKindSchema>) -> Self {
        Self { wire, ..self }
    }

    pub(crate) fn with_unknown_fields(self, unknown_fields: Arc<UnknownFields>) -> Self {
        Self { unknown_fields: Some(unknown_fields), ..self }
    }

    /// Returns the record of fields that the server sends for this kind and the built-in schema does not
    /// contain; `None` for objects that were not received by a client.
    pub(crate) fn unknown_fields(&self) -> Option<&UnknownFields> {
        self.unknown_fields.as_deref()
    }

    pub(crate) fn note_unknown_fields(&self) {
        self.unknown_fields().into_iter().for_each(UnknownFields::note);
    }

    /// Records that a read needs fields that the built-in schema does not contain, so that the kind is read
    /// as JSON from now on.
    pub(crate) fn require_json(&self) {
        self.unknown_fields().into_iter().for_each(UnknownFields::require_json);
    }

    /// Returns the protobuf schema of the kind; `None` if its objects are received as JSON.
    pub(crate) fn wire(&self) -> Option<&SharedKindSchema> {
        self.wire.as_ref()
    }

    /// Returns a copy of the origin for an object that a transform built from a partial object.
    fn of_partial(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            undecodable: self.undecodable.clone(),
            wire: self.wire.clone(),
            views: self.views.clone(),
            interner: self.interner.clone(),
            unknown_fields: self.unknown_fields.clone(),
            of_partial: true,
            memory: self.memory.clone(),
            #[cfg(feature = "packed")]
            packing: Arc::clone(&self.packing),
        }
    }

    pub(crate) fn is_of_partial(&self) -> bool {
        self.of_partial
    }

    /// Returns the kind of the objects of this origin.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    /// Returns the log to which objects are reported that fail to decode on access.
    pub fn undecodable(&self) -> &UndecodableLog {
        &self.undecodable
    }
}

fn is_secret(kind: &ResourceKind) -> bool {
    kind.gvk().group.is_empty() && kind.kind() == "Secret"
}

/// Formats an object for `Debug`: its key and resourceVersion, but no other values, because they may be
/// secrets.
fn fmt_header(f: &mut std::fmt::Formatter<'_>, form: &str, header: &Header) -> std::fmt::Result {
    write!(f, "{form}({} @{})", header.key(), header.resource_version())
}

#[cfg(all(test, feature = "packed"))]
mod tests;
