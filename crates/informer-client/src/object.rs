//! What an object becomes: the forms that a cache can hold, behind one seam.
//!
//! | form | holds | a read of a field costs |
//! |---|---|---|
//! | [`Lazy`] | header and bytes as they came | a scan; a decode on the first typed access |
//! | `Packed` | header and compressed bytes | unpacking, then as [`Lazy`] |
//! | [`Typed`] | header and the decoded type | nothing |
//! | [`Dynamic`] | header and a tree of values | a lookup |
//! | [`Metadata`] | header, annotations, finalizers | nothing; the rest is not there |

mod body;
mod decode_error;
mod dynamic;
mod interner;
mod lazy;
mod metadata;
#[cfg(feature = "packed")]
mod packed;
#[cfg(feature = "packed")]
mod packing;
mod splice;
mod table;
mod template;
mod typed;
mod views;

use std::borrow::Cow;
use std::sync::Arc;

use informer_cache::{Undecodable, UndecodableLog};
use informer_core::{Header, Labels, Object};
use informer_schema::{Scan, SharedKindSchema, TranscodeError};

use body::{Body, BodyRef, Own};
pub use decode_error::DecodeError;
pub use dynamic::Dynamic;
pub(crate) use interner::Interner;
pub use lazy::Lazy;
pub use metadata::Metadata;
#[cfg(feature = "packed")]
pub use packed::Packed;
#[cfg(feature = "packed")]
pub(crate) use packing::Packing;
use template::{Runs, Template};
pub use typed::Typed;
pub(crate) use views::Views;

use crate::ResourceKind;
use crate::header::RawHeader;
use crate::unknown_fields::UnknownFields;

/// A form of objects that the client can make from what a server sends.
///
/// The seam between the wire and the cache: other encodings and other forms are other implementations of the
/// two sides of it, and nothing else knows of them.
pub trait Representation: Object + Sized {
    /// True if the server need only send the metadata of each object.
    const METADATA_ONLY: bool = false;

    /// Returns true if objects may come as protobuf. The client asks for it then where the kind is built in;
    /// an object is still JSON where the server answers so. False by default: such a form sees JSON alone. A
    /// form that takes protobuf should implement [`Object::is_partial`].
    fn takes_protobuf() -> bool {
        false
    }

    /// Makes the object.
    ///
    /// # Errors
    ///
    /// When the object cannot be read as this form needs it. It is set aside then, and the others go on.
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError>;

    /// Marks an object that a transform made of a [partial](Object::is_partial) one as partial, too: it lacks
    /// the same fields. Does nothing by default. A form that programs can make should implement it; otherwise
    /// an update of such an object may remove these fields.
    fn into_partial(self: Arc<Self>) -> Arc<Self> {
        self
    }
}

/// How the bytes of an object are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Text, of any kind.
    Json,
    /// Protobuf, of built-in kinds.
    Protobuf,
}

/// One object as it came: its header, read, and its bytes.
pub struct RawObject<'a> {
    pub(crate) header: Header,
    pub(crate) bytes: RawBytes<'a>,
    pub(crate) origin: &'a Arc<Origin>,
}

/// The bytes of an object, with what a scan found in them.
#[derive(Clone, Copy)]
pub(crate) enum RawBytes<'a> {
    Json { raw: &'a RawHeader<'a>, text: &'a str, cut_managed_fields: bool },
    Protobuf { scan: &'a Scan<'a>, message: &'a [u8], cut_managed_fields: bool },
}

impl<'a> RawObject<'a> {
    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Takes the header out.
    pub fn into_header(self) -> Header {
        self.header
    }

    /// How it came.
    pub fn encoding(&self) -> Encoding {
        match self.bytes {
            RawBytes::Json { .. } => Encoding::Json,
            RawBytes::Protobuf { .. } => Encoding::Protobuf,
        }
    }

    /// How many bytes it was, with its managed fields.
    pub fn wire_bytes(&self) -> usize {
        match self.bytes {
            RawBytes::Json { text, .. } => text.len(),
            RawBytes::Protobuf { message, .. } => message.len(),
        }
    }

    /// The object as JSON without what was pruned; borrowed where it came so and nothing was.
    ///
    /// # Errors
    ///
    /// When it came as protobuf, and cannot be written as JSON.
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

    /// `metadata.finalizers`.
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

    /// `metadata.creationTimestamp`, as JSON has it.
    pub(crate) fn creation_timestamp(&self) -> Result<Option<Box<str>>, DecodeError> {
        match self.bytes {
            RawBytes::Json { raw, .. } => Ok(raw.metadata.creation_timestamp.as_deref().map(Box::from)),
            RawBytes::Protobuf { scan, .. } => {
                scan.creation_timestamp().map_err(|error| self.unreadable(&error))
            }
        }
    }

    /// Returns the bytes without what is cut, and apart from them what other objects have, too.
    pub(crate) fn body(&self) -> Result<Body, DecodeError> {
        let common = self.common()?;
        Ok(Body::new(self.own(common.as_deref())?, common))
    }

    /// Returns the bytes without what is cut, and without what is common.
    fn own(&self, common: Option<&Template>) -> Result<Own, DecodeError> {
        let chosen = common.map(Template::chosen);
        Ok(match self.bytes {
            RawBytes::Json { raw, text, cut_managed_fields } => {
                let own = match cut_managed_fields {
                    true => raw.layout.cuts(chosen.unwrap_or_default()).apply(text),
                    false => text.into(),
                };
                Own::json(own, raw.has_type())
            }
            RawBytes::Protobuf { message, cut_managed_fields: false, .. } => Own::Protobuf(message.into()),
            RawBytes::Protobuf { scan, .. } => {
                let own = match chosen {
                    Some(chosen) => scan.without_templated(chosen),
                    None => scan.without_managed_fields().map(Cow::into_owned),
                };
                Own::Protobuf(own.map_err(|error| self.unreadable(&error))?.into())
            }
        })
    }

    /// What other objects have, too. Where nothing is cut, bytes stay together as they came.
    fn common(&self) -> Result<Option<Arc<Template>>, DecodeError> {
        let Some(interner) = self.origin.interner() else { return Ok(None) };
        let runs = match self.bytes {
            RawBytes::Json { raw, text, cut_managed_fields: true } => {
                Runs::Json(raw.layout.templated().map(|place| Some(&text[place?])))
            }
            RawBytes::Protobuf { scan, cut_managed_fields: true, .. } => {
                Runs::Protobuf(scan.templated().map_err(|error| self.unreadable(&error))?)
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

/// What the objects of one answer have in common.
#[derive(Debug)]
pub struct Origin {
    kind: ResourceKind,
    undecodable: UndecodableLog,
    wire: Option<SharedKindSchema>,
    views: Option<Arc<Views>>,
    interner: Option<Arc<Interner>>,
    unknown_fields: Option<Arc<UnknownFields>>,
    /// True for objects that were made of partial ones.
    of_partial: bool,
    #[cfg(feature = "packed")]
    packing: Arc<Packing>,
}

impl Origin {
    /// Returns an origin; objects that turn out to be unreadable are reported to `undecodable`.
    pub fn new(kind: ResourceKind, undecodable: UndecodableLog) -> Self {
        Self {
            kind,
            undecodable,
            wire: None,
            views: None,
            interner: None,
            unknown_fields: None,
            of_partial: false,
            #[cfg(feature = "packed")]
            packing: Arc::default(),
        }
    }

    /// Returns an origin of objects that are packed together with others.
    #[cfg(feature = "packed")]
    pub(crate) fn with_packing(self, packing: Arc<Packing>) -> Self {
        Self { packing, ..self }
    }

    #[cfg(feature = "packed")]
    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Returns an origin of objects that share what they have in common with others.
    pub(crate) fn with_interner(self, interner: Arc<Interner>) -> Self {
        Self { interner: Some(interner), ..self }
    }

    /// Returns true for Secrets. Memory that objects share must not hold their data after they are deleted.
    /// Annotations contain that data, too: `kubectl apply` writes it into `last-applied-configuration`.
    pub(crate) fn is_of_secrets(&self) -> bool {
        is_secret(&self.kind)
    }

    /// What the objects share their parts through, where they do.
    pub(crate) fn interner(&self) -> Option<&Interner> {
        self.interner.as_deref()
    }

    /// Returns an origin of objects whose typed views are kept as long as there is room.
    pub(crate) fn with_views(self, views: Option<Arc<Views>>) -> Self {
        Self { views, ..self }
    }

    /// Keeps a typed view for the next read of the object, if views are kept. Those of Secrets are not: a
    /// view may outlive its object.
    pub(crate) fn keep<K: Send + Sync + 'static>(&self, view: &Arc<K>, body: BodyRef<'_>) {
        if let Some(views) = self.views.as_ref().filter(|_| !self.is_of_secrets()) {
            views.keep(Arc::<K>::clone(view), body);
        }
    }

    /// Reports an object that could not be read when it was asked for; the first time for each version it is
    /// also logged.
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

    /// Returns an origin of objects in protobuf, whose fields `wire` knows.
    pub(crate) fn with_wire(self, wire: Option<SharedKindSchema>) -> Self {
        Self { wire, ..self }
    }

    /// Returns the origin with a record of unknown fields, for objects of a client.
    pub(crate) fn with_unknown_fields(self, unknown_fields: Arc<UnknownFields>) -> Self {
        Self { unknown_fields: Some(unknown_fields), ..self }
    }

    /// Returns the record of unknown fields; `None` for objects without a client.
    pub(crate) fn unknown_fields(&self) -> Option<&UnknownFields> {
        self.unknown_fields.as_deref()
    }

    /// Records that an object has unknown fields.
    pub(crate) fn note_unknown_fields(&self) {
        self.unknown_fields().into_iter().for_each(UnknownFields::note);
    }

    /// Records that a read needs fields that the table does not know.
    pub(crate) fn require_json(&self) {
        self.unknown_fields().into_iter().for_each(UnknownFields::require_json);
    }

    /// What is known of the kind's protobuf form, where objects came so.
    pub(crate) fn wire(&self) -> Option<&SharedKindSchema> {
        self.wire.as_ref()
    }

    /// The same origin, of an object that was made of a partial one.
    fn of_partial(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            undecodable: self.undecodable.clone(),
            wire: self.wire.clone(),
            views: self.views.clone(),
            interner: self.interner.clone(),
            unknown_fields: self.unknown_fields.clone(),
            of_partial: true,
            #[cfg(feature = "packed")]
            packing: Arc::clone(&self.packing),
        }
    }

    /// Returns true for objects that were made of partial ones.
    pub(crate) fn is_of_partial(&self) -> bool {
        self.of_partial
    }

    /// Returns the kind of the objects.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    /// Where late failures are reported.
    pub fn undecodable(&self) -> &UndecodableLog {
        &self.undecodable
    }
}

fn is_secret(kind: &ResourceKind) -> bool {
    kind.gvk().group.is_empty() && kind.kind() == "Secret"
}

/// What a `Debug` of an object may show.
fn fmt_header(f: &mut std::fmt::Formatter<'_>, form: &str, header: &Header) -> std::fmt::Result {
    write!(f, "{form}({} @{})", header.key(), header.resource_version())
}

#[cfg(all(test, feature = "packed"))]
mod tests;
