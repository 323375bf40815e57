//! The bytes of one object, in the encoding in which they were received.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels};
use informer_schema::{ProtobufDecodeError, Scan, SharedKindSchema, TranscodeError};
use serde::de::DeserializeOwned;

use super::decode_error::{self, DecodeError};
use super::template::Template;
use super::{Encoding, Origin, splice};
use crate::fields;
use crate::header::RawHeader;
use crate::scan::Cursor;

/// The bytes that a representation stores for one object, without the pruned fields and without excess
/// capacity, and the parts of the object that are shared with other objects.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    own: OwnBytes,
    common: Option<Arc<Template>>,
}

#[derive(Debug, Clone)]
pub(crate) enum OwnBytes {
    /// JSON of an object without `apiVersion` and `kind`. Items of lists of built-in kinds lack these
    /// members.
    Json(Box<str>),
    /// JSON of an object with `apiVersion` or `kind`.
    WholeJson(Box<str>),
    /// A protobuf message of an object without the envelope.
    Protobuf(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    WholeJson,
    Protobuf,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyRef<'a> {
    own: Encoded<'a>,
    common: Option<&'a Template>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoded<'a> {
    Json { text: &'a str, has_type: bool },
    Protobuf(&'a [u8]),
}

impl OwnBytes {
    pub(crate) fn json(text: Box<str>, has_type: bool) -> Self {
        if has_type { Self::WholeJson(text) } else { Self::Json(text) }
    }

    fn borrow(&self) -> Encoded<'_> {
        match self {
            Self::Json(text) => Encoded::Json { text, has_type: false },
            Self::WholeJson(text) => Encoded::Json { text, has_type: true },
            Self::Protobuf(message) => Encoded::Protobuf(message),
        }
    }
}

impl Body {
    /// Returns a body that consists of an object's own bytes and the parts in `common` that it shares with
    /// other objects. `own` must not contain the metadata members that are in `common`.
    pub(crate) fn new(own: OwnBytes, common: Option<Arc<Template>>) -> Self {
        Self { own, common }
    }

    pub(crate) fn borrow(&self) -> BodyRef<'_> {
        BodyRef { own: self.own.borrow(), common: self.common.as_deref() }
    }

    #[cfg(feature = "packed")]
    pub(crate) fn common(&self) -> Option<&Arc<Template>> {
        self.common.as_ref()
    }
}

impl BodyFormat {
    pub(crate) fn encoding(self) -> Encoding {
        match self {
            Self::Json | Self::WholeJson => Encoding::Json,
            Self::Protobuf => Encoding::Protobuf,
        }
    }
}

impl<'a> Encoded<'a> {
    pub(crate) fn format(self) -> BodyFormat {
        match self {
            Self::Json { has_type: true, .. } => BodyFormat::WholeJson,
            Self::Json { .. } => BodyFormat::Json,
            Self::Protobuf(_) => BodyFormat::Protobuf,
        }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json { text, .. } => text.as_bytes(),
            Self::Protobuf(message) => message,
        }
    }

    fn scalar<'p>(self, path: impl Iterator<Item = &'p str>, origin: &Origin) -> Option<Cow<'a, str>> {
        match self {
            Self::Json { text, .. } => fields::scalar(text, path),
            Self::Protobuf(message) => origin.wire()?.kind().scalar_at(message, path).ok()?,
        }
    }

    fn annotations(self) -> Labels {
        match self {
            Self::Json { text, .. } => {
                let mut raw = RawHeader::default();
                let scanned = raw.scan(Cursor::new(text));
                scanned.and_then(|()| raw.metadata.annotations(text)).unwrap_or_default()
            }
            Self::Protobuf(message) => {
                let annotations = Scan::of(message).and_then(|scan| scan.annotations());
                annotations.unwrap_or_default().into_iter().collect()
            }
        }
    }
}

impl<'a> BodyRef<'a> {
    /// Returns the body of an object that shares no parts with other objects.
    pub(crate) fn of(own: Encoded<'a>) -> Self {
        Self { own, common: None }
    }

    /// Returns a body from bytes in a known format and the object's shared parts; `None` if the format is
    /// JSON and the bytes are not UTF-8.
    #[cfg(feature = "packed")]
    pub(crate) fn new(format: BodyFormat, bytes: &'a [u8], common: Option<&'a Template>) -> Option<Self> {
        let own = match format {
            BodyFormat::Protobuf => Encoded::Protobuf(bytes),
            _ => Encoded::Json {
                text: std::str::from_utf8(bytes).ok()?,
                has_type: format == BodyFormat::WholeJson,
            },
        };
        Some(Self { own, common })
    }

    pub(crate) fn encoding(self) -> Encoding {
        self.own.format().encoding()
    }

    #[cfg(any(test, feature = "packed"))]
    pub(crate) fn own(self) -> Encoded<'a> {
        self.own
    }

    #[cfg(test)]
    pub(crate) fn common(self) -> Option<&'a Template> {
        self.common
    }

    /// Returns true if the object is incomplete: its bytes have fields that the built-in schema does not
    /// contain (a newer server wrote them), or a transform built it from an incomplete object.
    pub(crate) fn is_partial(self, origin: &Origin) -> bool {
        let Encoded::Protobuf(message) = self.own else { return origin.is_of_partial() };
        let Some(wire) = origin.wire() else { return true };
        let mut messages =
            std::iter::once(message).chain(self.common.into_iter().flat_map(Template::messages));
        messages.any(|message| wire.kind().has_unknown_fields(message))
    }

    /// Returns the approximate number of bytes of the object, including its shared parts.
    pub(crate) fn len(self) -> usize {
        self.own.bytes().len() + self.common.map_or(0, Template::len)
    }

    /// Returns the bytes of the object, including its shared parts.
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self.own {
            Encoded::Json { text, .. } => match self.spliced(text, "") {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            Encoded::Protobuf(message) => self.joined(message),
        }
    }

    /// Decodes the object to the type `K`. A panic of the type's `Deserialize` implementation becomes a
    /// decode error of this object.
    pub(crate) fn decode<K: DeserializeOwned>(
        self,
        origin: &Origin,
        header: &Header,
    ) -> Result<K, DecodeError> {
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode_uncontained(origin, header)));
        let panicked = || DecodeError::new(origin.kind(), header, "", "the decoder of the type panicked");
        decoded.unwrap_or_else(|_| Err(panicked()))
    }

    fn decode_uncontained<K: DeserializeOwned>(
        self,
        origin: &Origin,
        header: &Header,
    ) -> Result<K, DecodeError> {
        match self.own {
            Encoded::Json { .. } => {
                decode_error::decode(&self.typed_json(origin, header)?, origin.kind(), header)
            }
            Encoded::Protobuf(message) => {
                let wire = wire(origin, header)?;
                match wire.kind().decode_complete(&self.joined(message)) {
                    Ok(decoded) => Ok(decoded),
                    Err(ProtobufDecodeError::Newer { .. }) => {
                        origin.require_json();
                        Err(DecodeError::needs_json(origin.kind(), header))
                    }
                    Err(_) => self.decode_by_json(origin, header),
                }
            }
        }
    }

    /// Converts a protobuf object to JSON and decodes the JSON, after decoding the protobuf has failed.
    /// Errors then name the same fields in both encodings, and types whose `Deserialize` implementation
    /// supports only JSON can be decoded.
    #[cold]
    fn decode_by_json<K: DeserializeOwned>(self, origin: &Origin, header: &Header) -> Result<K, DecodeError> {
        decode_error::decode(&self.typed_json(origin, header)?, origin.kind(), header)
    }

    /// Returns the object as JSON. Objects from lists of built-in kinds lack `apiVersion` and `kind`.
    pub(crate) fn json(self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        match self.own {
            Encoded::Json { text, .. } => Ok(self.spliced(text, "")),
            Encoded::Protobuf(message) => self.transcoded(message, origin, header).map(Cow::Owned),
        }
    }

    /// Returns the object as JSON, always with `apiVersion` and `kind`.
    pub(crate) fn typed_json(self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        let gvk = origin.kind().gvk();
        let type_meta = || format!(r#""apiVersion":"{}","kind":"{}""#, gvk.api_version(), gvk.kind);
        match self.own {
            Encoded::Json { text, has_type: true } => Ok(self.spliced(text, "")),
            Encoded::Json { text, .. } => Ok(self.spliced(text, &type_meta())),
            Encoded::Protobuf(message) => {
                let text = self.transcoded(message, origin, header)?;
                let whole = BodyRef::of(Encoded::Json { text: &text, has_type: false });
                Ok(Cow::Owned(whole.spliced(&text, &type_meta()).into_owned()))
            }
        }
    }

    /// Returns the JSON `text` with `members` inserted at the beginning of the object. The labels,
    /// annotations and owners that this object has in common with other objects are stored only once, outside
    /// of `text`; they are inserted at the beginning of its `metadata`.
    fn spliced(self, text: &'a str, members: &str) -> Cow<'a, str> {
        if members.is_empty() && self.common.is_none() {
            return Cow::Borrowed(text);
        }
        let begin = splice::object(text);
        let metadata = self.common.and_then(|_| splice::metadata(text)).unwrap_or(text.len());
        let mut out = String::with_capacity(self.len() + members.len() + 1);
        out.push_str(&text[..begin]);
        splice::push_members(&mut out, members, &text[begin..]);
        out.push_str(&text[begin..metadata]);
        let common: Vec<&str> = self.common.iter().flat_map(|common| common.members()).collect();
        splice::push_members(&mut out, &common.join(","), &text[metadata..]);
        out.push_str(&text[metadata..]);
        Cow::Owned(out)
    }

    /// Returns the protobuf `message` with the shared parts merged into its metadata. The message and the
    /// shared parts were validated when they were received.
    fn joined(self, message: &'a [u8]) -> Cow<'a, [u8]> {
        match self.common {
            None => Cow::Borrowed(message),
            Some(common) => {
                Scan::with_metadata_of(message, common.messages()).map_or(Cow::Borrowed(message), Cow::Owned)
            }
        }
    }

    fn transcoded(self, message: &'a [u8], origin: &Origin, header: &Header) -> Result<String, DecodeError> {
        let json = wire(origin, header)?.kind().message_to_json(&self.joined(message));
        let json = json.map_err(|error| unreadable(origin, header, &error))?;
        String::from_utf8(json)
            .map_err(|_| DecodeError::new(origin.kind(), header, "", "text that is not UTF-8"))
    }

    /// Returns the number, string or boolean at the end of a path; see
    /// [`Object::field`](informer_core::Object::field). `kind` and `apiVersion` are always returned, even if
    /// the bytes lack them.
    pub(crate) fn field(self, path: &FieldPath, origin: &Origin) -> Option<Cow<'a, str>> {
        let mut segments = path.segments();
        match (segments.next(), segments.next()) {
            (Some("kind"), None) => Some(origin.kind().kind().to_owned().into()),
            (Some("apiVersion"), None) => Some(origin.kind().gvk().api_version().into()),
            _ => self.scalar(|| path.segments(), origin),
        }
    }

    pub(crate) fn annotation(self, name: &str, origin: &Origin) -> Option<Cow<'a, str>> {
        self.scalar(|| ["metadata", "annotations", name].into_iter(), origin)
    }

    /// Parses `metadata.annotations`; returns empty annotations if they are invalid.
    pub(crate) fn annotations(self) -> Labels {
        let common = self.common.and_then(|common| common.part("annotations"));
        common.unwrap_or(self.own).annotations()
    }

    /// Reads a member of `metadata` from the object's own bytes or from the shared parts.
    fn scalar<'p, P: Iterator<Item = &'p str>>(
        self,
        path: impl Fn() -> P,
        origin: &Origin,
    ) -> Option<Cow<'a, str>> {
        let mut segments = path();
        let common = self.common.filter(|_| segments.next() == Some("metadata"));
        let part = common.and_then(|common| common.part(segments.next()?));
        let found = part.unwrap_or(self.own).scalar(path(), origin);
        if found.is_none() && self.may_have(path(), origin) {
            origin.require_json();
        }
        found
    }

    /// Returns true if the object may contain the field at `path` although it was not found, because a newer
    /// server sent fields that the built-in schema does not contain.
    fn may_have<'p>(self, path: impl Iterator<Item = &'p str>, origin: &Origin) -> bool {
        let names = origin.wire().filter(|_| matches!(self.own, Encoded::Protobuf(_)));
        names.is_some_and(|wire| !wire.kind().has_path(path)) && self.is_partial(origin)
    }
}

/// Returns true if a protobuf object may contain the field at `path` although the built-in schema has no such
/// field, because a newer server sent it.
pub(crate) fn has_hidden_field(message: &[u8], path: &FieldPath, origin: &Origin) -> bool {
    BodyRef::of(Encoded::Protobuf(message)).may_have(path.segments(), origin)
}

fn wire<'o>(origin: &'o Origin, header: &Header) -> Result<&'o SharedKindSchema, DecodeError> {
    origin.wire().ok_or_else(|| DecodeError::new(origin.kind(), header, "", "the kind has no protobuf form"))
}

fn unreadable(origin: &Origin, header: &Header, error: &TranscodeError) -> DecodeError {
    DecodeError::new(origin.kind(), header, error.path(), error.problem().to_string())
}
