//! The body of a lazy object, as received or compressed.

use std::borrow::Cow;

use informer_core::{Header, Labels};

use super::body::{Body, BodyRef};
use super::{DecodeError, Encoding, Origin};
#[cfg(feature = "packed")]
use super::{packing, template::Template};

/// The body of one object. It is compressed if the [memory budget](crate::MemoryBudget) of its source demands
/// it. The variant of a compressed body is boxed, so that other objects do not grow.
#[derive(Clone)]
pub(crate) enum Stored {
    Plain(Body),
    #[cfg(feature = "packed")]
    Packed(Box<PackedBody>),
}

/// Access to a stored body.
///
/// Reading a body fails only if it is compressed and cannot be decompressed. The bytes were compressed by
/// this process, so that the reason is a lack of memory, corrupted memory or a defect of this crate.
pub(super) trait ReadBody {
    /// Calls a function with the uncompressed body.
    ///
    /// # Errors
    ///
    /// Returns an error if the body cannot be decompressed.
    fn with<T>(
        &self,
        origin: &Origin,
        header: &Header,
        read: impl FnOnce(BodyRef<'_>) -> T,
    ) -> Result<T, DecodeError>;

    /// Returns the encoding of the body.
    fn encoding(&self) -> Encoding;

    /// Calls a function with the uncompressed body, for methods that cannot return an error. A body that
    /// cannot be decompressed is reported to the informer of the object, which counts it as undecodable.
    fn scan<T>(&self, origin: &Origin, header: &Header, read: impl FnOnce(BodyRef<'_>) -> T) -> Option<T> {
        self.with(origin, header, read).inspect_err(|error| origin.report(header, error)).ok()
    }

    /// Returns `metadata.annotations`; none if the body cannot be read.
    fn annotations(&self, origin: &Origin, header: &Header) -> Labels {
        self.scan(origin, header, |body| body.annotations()).unwrap_or_default()
    }

    /// Returns true if the object is partial, or if the body cannot be read.
    fn is_partial(&self, origin: &Origin, header: &Header) -> bool {
        // The bytes of an object in JSON are not read, because its origin determines whether it is partial.
        if self.encoding() == Encoding::Json {
            return origin.is_of_partial();
        }
        self.scan(origin, header, |body| body.is_partial(origin)).unwrap_or(true)
    }
}

/// A compressed body, with the parts that it shares with other objects.
#[cfg(feature = "packed")]
#[derive(Clone)]
pub(crate) struct PackedBody {
    packed: packing::PackedBytes,
    common: Option<std::sync::Arc<Template>>,
}

impl Stored {
    /// Stores a body of `origin`. A body that cannot be compressed is stored as it is.
    pub(super) fn new(body: Body, origin: &Origin) -> Self {
        #[cfg(feature = "packed")]
        if origin.memory().is_some_and(crate::memory::SourceMemory::compresses)
            && let Ok(packed) = PackedBody::new(&body, origin)
        {
            return Self::Packed(Box::new(packed));
        }
        let _ = origin;
        Self::Plain(body)
    }

    /// Reads a part of the body: borrowed if the body is not compressed. The error of a body that cannot be
    /// decompressed is reported, as [`ReadBody::scan`] does.
    pub(super) fn read<'a, B: ToOwned + ?Sized>(
        &'a self,
        origin: &Origin,
        header: &Header,
        read: impl for<'b> FnOnce(BodyRef<'b>) -> Option<Cow<'b, B>>,
    ) -> Option<Cow<'a, B>> {
        let _ = (origin, header);
        match self {
            Self::Plain(body) => read(body.borrow()),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.read(origin, header, read).map(Cow::Owned),
        }
    }

    /// Returns the object as JSON. If the object is partial, the kind is read as JSON from now on.
    pub(super) fn json<'a>(&'a self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        match self {
            Self::Plain(body) => json(body.borrow(), origin, header),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.json(origin, header).map(Cow::Owned),
        }
    }

    /// Returns the object as JSON, always with `apiVersion` and `kind`. If the object is partial, the kind is
    /// read as JSON from now on.
    pub(super) fn typed_json<'a>(
        &'a self,
        origin: &Origin,
        header: &Header,
    ) -> Result<Cow<'a, str>, DecodeError> {
        match self {
            Self::Plain(body) => typed_json(body.borrow(), origin, header),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.typed_json(origin, header).map(Cow::Owned),
        }
    }

    /// Returns the approximate memory of the body outside of this value.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(body) => body.borrow().len(),
            #[cfg(feature = "packed")]
            Self::Packed(body) => size_of::<PackedBody>() + body.len(),
        }
    }

    #[cfg(test)]
    pub(super) fn borrow(&self) -> BodyRef<'_> {
        match self {
            Self::Plain(body) => body.borrow(),
            #[cfg(feature = "packed")]
            Self::Packed(_) => panic!("a compressed body cannot be borrowed"),
        }
    }
}

impl ReadBody for Stored {
    fn with<T>(
        &self,
        origin: &Origin,
        header: &Header,
        read: impl FnOnce(BodyRef<'_>) -> T,
    ) -> Result<T, DecodeError> {
        let _ = (origin, header);
        match self {
            Self::Plain(body) => Ok(read(body.borrow())),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.with(origin, header, read),
        }
    }

    fn encoding(&self) -> Encoding {
        match self {
            Self::Plain(body) => body.borrow().encoding(),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.encoding(),
        }
    }
}

fn json<'a>(body: BodyRef<'a>, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
    require_json_if_partial(body, origin);
    body.json(origin, header)
}

fn typed_json<'a>(body: BodyRef<'a>, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
    require_json_if_partial(body, origin);
    body.typed_json(origin, header)
}

fn require_json_if_partial(body: BodyRef<'_>, origin: &Origin) {
    if body.is_partial(origin) {
        origin.require_json();
    }
}

#[cfg(feature = "packed")]
impl PackedBody {
    pub(super) fn new(body: &Body, origin: &Origin) -> Result<Self, packing::PackError> {
        let packed = origin.packing().pack(origin.kind(), body.borrow().own())?;
        Ok(Self { packed, common: body.common().cloned() })
    }

    /// Reads a part of the body. The error of a body that cannot be decompressed is reported, as
    /// [`ReadBody::scan`] does.
    pub(super) fn read<B: ToOwned + ?Sized>(
        &self,
        origin: &Origin,
        header: &Header,
        read: impl for<'b> FnOnce(BodyRef<'b>) -> Option<Cow<'b, B>>,
    ) -> Option<B::Owned> {
        self.scan(origin, header, |body| read(body).map(Cow::into_owned))?
    }

    /// Returns the object as JSON. If the object is partial, the kind is read as JSON from now on.
    pub(super) fn json(&self, origin: &Origin, header: &Header) -> Result<String, DecodeError> {
        self.with(origin, header, |body| json(body, origin, header).map(Cow::into_owned))?
    }

    /// Returns the object as JSON, always with `apiVersion` and `kind`. If the object is partial, the kind is
    /// read as JSON from now on.
    pub(super) fn typed_json(&self, origin: &Origin, header: &Header) -> Result<String, DecodeError> {
        self.with(origin, header, |body| typed_json(body, origin, header).map(Cow::into_owned))?
    }

    /// Returns the approximate memory of the body outside of this value.
    pub(super) fn len(&self) -> usize {
        self.packed.held_bytes() + self.common.as_deref().map_or(0, Template::len)
    }

    /// Truncates the compressed bytes, so that they cannot be decompressed.
    #[cfg(test)]
    pub(super) fn truncate(&mut self) {
        self.packed.truncate();
    }
}

#[cfg(feature = "packed")]
impl ReadBody for PackedBody {
    fn with<T>(
        &self,
        origin: &Origin,
        header: &Header,
        read: impl FnOnce(BodyRef<'_>) -> T,
    ) -> Result<T, DecodeError> {
        let failed = |problem: String| DecodeError::new(origin.kind(), header, "", problem);
        let bytes = origin.packing().unpack(&self.packed).map_err(|error| failed(error.to_string()))?;
        let body = BodyRef::new(self.packed.format(), &bytes, self.common.as_deref());
        Ok(read(body.ok_or_else(|| failed("text that is not UTF-8".to_owned()))?))
    }

    fn encoding(&self) -> Encoding {
        self.packed.format().encoding()
    }
}
