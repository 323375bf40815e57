//! The body of a lazy object, as received or compressed.

use std::borrow::Cow;

use informer_core::Header;

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
            && let Ok(packed) = origin.packing().pack(origin.kind(), body.borrow().own())
        {
            return Self::Packed(Box::new(PackedBody { packed, common: body.into_common() }));
        }
        let _ = origin;
        Self::Plain(body)
    }

    /// Calls a function with the uncompressed body.
    ///
    /// # Errors
    ///
    /// Returns an error if the body cannot be decompressed.
    pub(super) fn with<T>(
        &self,
        origin: &Origin,
        header: &Header,
        read: impl FnOnce(BodyRef<'_>) -> T,
    ) -> Result<T, DecodeError> {
        let _ = (origin, header);
        match self {
            Self::Plain(body) => Ok(read(body.borrow())),
            #[cfg(feature = "packed")]
            Self::Packed(body) => {
                let bytes = body.unpacked(origin, header)?;
                Ok(read(body.body(&bytes, origin, header)?))
            }
        }
    }

    /// Reads a part of the body: borrowed if the body is not compressed. A body that cannot be decompressed
    /// is reported as undecodable.
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
            Self::Packed(_) => {
                let part = self.with(origin, header, |body| read(body).map(Cow::into_owned));
                part.inspect_err(|error| origin.report(header, error)).ok()?.map(Cow::Owned)
            }
        }
    }

    pub(super) fn json<'a>(&'a self, origin: &Origin, header: &Header) -> Result<Cow<'a, str>, DecodeError> {
        match self {
            Self::Plain(body) => body.borrow().json(origin, header),
            #[cfg(feature = "packed")]
            Self::Packed(_) => {
                let json =
                    self.with(origin, header, |body| body.json(origin, header).map(Cow::into_owned))?;
                json.map(Cow::Owned)
            }
        }
    }

    pub(super) fn is_partial(&self, origin: &Origin, header: &Header) -> bool {
        // The bytes of an object in JSON are not read, because its origin determines whether it is partial.
        if self.encoding() == Encoding::Json {
            return origin.is_of_partial();
        }
        self.with(origin, header, |body| body.is_partial(origin)).unwrap_or(true)
    }

    pub(super) fn encoding(&self) -> Encoding {
        match self {
            Self::Plain(body) => body.borrow().encoding(),
            #[cfg(feature = "packed")]
            Self::Packed(body) => body.packed.format().encoding(),
        }
    }

    /// Returns the approximate memory of the body outside of this value.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(body) => body.borrow().len(),
            #[cfg(feature = "packed")]
            Self::Packed(body) => {
                let common = body.common.as_deref().map_or(0, Template::len);
                size_of::<PackedBody>() + body.packed.held_bytes() + common
            }
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

#[cfg(feature = "packed")]
impl PackedBody {
    fn unpacked(&self, origin: &Origin, header: &Header) -> Result<Vec<u8>, DecodeError> {
        let bytes = origin.packing().unpack(&self.packed);
        bytes.map_err(|error| DecodeError::new(origin.kind(), header, "", error.to_string()))
    }

    fn body<'a>(
        &'a self,
        bytes: &'a [u8],
        origin: &Origin,
        header: &Header,
    ) -> Result<BodyRef<'a>, DecodeError> {
        let body = BodyRef::new(self.packed.format(), bytes, self.common.as_deref());
        body.ok_or_else(|| DecodeError::new(origin.kind(), header, "", "text that is not UTF-8".to_owned()))
    }
}
