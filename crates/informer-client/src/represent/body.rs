//! The bytes of one object, in the encoding in which they came.

use std::borrow::Cow;

use informer_core::{FieldPath, Header, Labels};
use informer_schema::{Scan, SharedKind, TranscodeError};
use serde::de::DeserializeOwned;

use super::decode_error::{self, DecodeError};
use super::{Encoding, Origin};
use crate::fields;

/// The bytes that a form keeps, without what was pruned, in an allocation of their own size.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Text that does not say its `apiVersion` and `kind`, as items of built-in lists.
    Json(Box<str>),
    /// Text that says its kind itself.
    WholeJson(Box<str>),
    /// A message without envelope.
    Protobuf(Box<[u8]>),
}

/// How the bytes of a body are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    WholeJson,
    Protobuf,
}

/// The same, lent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyRef<'a> {
    Json { text: &'a str, has_type: bool },
    Protobuf(&'a [u8]),
}

impl Body {
    pub(crate) fn json(text: Box<str>, has_type: bool) -> Self {
        if has_type { Self::WholeJson(text) } else { Self::Json(text) }
    }

    pub(crate) fn borrow(&self) -> BodyRef<'_> {
        match self {
            Self::Json(text) => BodyRef::Json { text, has_type: false },
            Self::WholeJson(text) => BodyRef::Json { text, has_type: true },
            Self::Protobuf(message) => BodyRef::Protobuf(message),
        }
    }
}

impl Form {
    pub(crate) fn encoding(self) -> Encoding {
        match self {
            Self::Json | Self::WholeJson => Encoding::Json,
            Self::Protobuf => Encoding::Protobuf,
        }
    }
}

impl<'a> BodyRef<'a> {
    /// Bytes of a known form; `None` where they should be text and are not.
    #[cfg(feature = "packed")]
    pub(crate) fn new(form: Form, bytes: &'a [u8]) -> Option<Self> {
        Some(match form {
            Form::Protobuf => Self::Protobuf(bytes),
            _ => Self::Json { text: std::str::from_utf8(bytes).ok()?, has_type: form == Form::WholeJson },
        })
    }

    pub(crate) fn form(self) -> Form {
        match self {
            Self::Json { has_type: true, .. } => Form::WholeJson,
            Self::Json { .. } => Form::Json,
            Self::Protobuf(_) => Form::Protobuf,
        }
    }

    pub(crate) fn encoding(self) -> Encoding {
        self.form().encoding()
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json { text, .. } => text.as_bytes(),
            Self::Protobuf(message) => message,
        }
    }

    /// The typed object.
    pub(crate) fn decode<K: DeserializeOwned>(
        self,
        origin: &Origin,
        header: &Header,
    ) -> Result<K, DecodeError> {
        match self {
            Self::Json { .. } => {
                decode_error::decode(&self.typed_json(origin, header)?, origin.kind(), header)
            }
            Self::Protobuf(message) => {
                let wire = wire(origin, header)?;
                wire.kind().decode_message(message).or_else(|_| self.decode_by_json(origin, header))
            }
        }
    }

    /// Reads once more what failed, as JSON: errors name the same fields in both encodings, and a type that asks for JSON
    /// itself gets it.
    #[cold]
    fn decode_by_json<K: DeserializeOwned>(self, origin: &Origin, header: &Header) -> Result<K, DecodeError> {
        decode_error::decode(&self.typed_json(origin, header)?, origin.kind(), header)
    }

    /// The object as JSON; items of lists of built-in kinds do not say what they are.
    pub(crate) fn json(self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        let message = match self {
            Self::Json { text, .. } => return Ok(Cow::Borrowed(text)),
            Self::Protobuf(message) => message,
        };
        let json = wire(origin, header)?.kind().message_to_json(message);
        let json = json.map_err(|error| unreadable(origin, header, &error))?;
        let text = String::from_utf8(json);
        text.map(Cow::Owned)
            .map_err(|_| DecodeError::new(origin.kind(), header, "", "text that is not UTF-8"))
    }

    /// The object as JSON with `apiVersion` and `kind`.
    pub(crate) fn typed_json(self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        let text = self.json(origin, header)?;
        if !matches!(self, Self::Json { has_type: true, .. })
            && let Some(rest) = text.trim_start().strip_prefix('{')
        {
            let gvk = origin.kind().gvk();
            let (api_version, kind) = (gvk.api_version(), &gvk.kind);
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            return Ok(format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"{comma}{rest}"#).into());
        }
        Ok(text)
    }

    /// The scalar at the end of a path; see [`Object::field`](informer_core::Object::field). Every object says its kind
    /// here, whether its bytes do or not.
    pub(crate) fn field(self, path: &FieldPath, origin: &Origin) -> Option<Cow<'a, str>> {
        let mut segments = path.segments();
        match (segments.next(), segments.next()) {
            (Some("kind"), None) => Some(origin.kind().kind().to_owned().into()),
            (Some("apiVersion"), None) => Some(origin.kind().gvk().api_version().into()),
            _ => self.scalar(path.segments(), origin),
        }
    }

    /// `metadata.annotations`; none where they cannot be read.
    pub(crate) fn annotations(self) -> Labels {
        match self {
            Self::Json { text, .. } => {
                let mut raw = crate::header::RawHeader::default();
                let scanned = raw.scan(crate::scan::Cursor::new(text), false);
                scanned.and_then(|()| raw.metadata.annotations(text)).unwrap_or_default()
            }
            Self::Protobuf(message) => {
                let annotations = Scan::of(message).and_then(|scan| scan.annotations());
                annotations.unwrap_or_default().into_iter().collect()
            }
        }
    }

    /// The scalar at the end of a path in the bytes.
    pub(crate) fn scalar<'p>(
        self,
        path: impl IntoIterator<Item = &'p str>,
        origin: &Origin,
    ) -> Option<Cow<'a, str>> {
        match self {
            Self::Json { text, .. } => fields::scalar(text, path),
            Self::Protobuf(message) => origin.wire()?.kind().scalar_at(message, path).ok()?,
        }
    }
}

fn wire<'o>(origin: &'o Origin, header: &Header) -> Result<&'o SharedKind, DecodeError> {
    origin.wire().ok_or_else(|| DecodeError::new(origin.kind(), header, "", "the kind has no protobuf form"))
}

fn unreadable(origin: &Origin, header: &Header, error: &TranscodeError) -> DecodeError {
    DecodeError::new(origin.kind(), header, error.path(), error.problem().to_string())
}
