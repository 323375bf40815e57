use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{FieldPath, Header, Labels, Object};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DecodeError, RawObject, Representation};
use crate::memory::Charge;
use crate::{ResourceKind, StaticKind, StaticResource, fields};

/// An object decoded on arrival.
///
/// Reading a field costs nothing. An object takes five to ten times the memory of [`Lazy`](crate::Lazy). This
/// type dereferences to `K`.
pub struct Typed<K> {
    header: Header,
    object: Arc<K>,
    wire_bytes: usize,
    _charge: Option<Box<Charge>>,
}

impl<K> Typed<K> {
    /// Returns the typed object. The return type is that of [`Lazy::get`](crate::Lazy::get), so that generic
    /// code can use both representations.
    ///
    /// # Errors
    ///
    /// This method never fails.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        Ok(Arc::clone(&self.object))
    }
}

impl<K> Deref for Typed<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K: DeserializeOwned + Serialize + Send + Sync + 'static> Representation for Typed<K> {
    fn takes_protobuf() -> bool {
        true
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        let object = raw.body()?.borrow().decode(raw.origin(), raw.header())?;
        let wire_bytes = raw.wire_bytes();
        let charge = raw.origin().charge(held_bytes::<K>(raw.header(), wire_bytes));
        Ok(Self { wire_bytes, object: Arc::new(object), header: raw.header, _charge: charge })
    }
}

impl<K: Serialize + Send + Sync + 'static> Object for Typed<K> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = serde_json::to_value(&*self.object).ok()?;
        fields::of_value(&value, ["metadata", "annotations", name]).map(|text| text.into_owned().into())
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        let value = serde_json::to_value(&*self.object);
        Cow::Owned(value.as_ref().map(fields::annotations).unwrap_or_default())
    }

    /// Serializes the object to find a field, which costs as much as decoding it. Index functions over typed
    /// objects should read the fields of the Rust type instead.
    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        let value = serde_json::to_value(&*self.object).ok()?;
        fields::of_value(&value, path.segments()).map(|text| text.into_owned().into())
    }

    /// Serializes the object. The text has only the fields that the Rust type has.
    fn json(&self) -> Option<Cow<'_, str>> {
        serde_json::to_string(&*self.object).ok().map(Cow::Owned)
    }

    /// Returns an estimate of the memory of this object: decoded types take about five times the size of
    /// their JSON.
    fn held_bytes(&self) -> usize {
        held_bytes::<K>(&self.header, self.wire_bytes)
    }
}

fn held_bytes<K>(header: &Header, wire_bytes: usize) -> usize {
    size_of::<Typed<K>>() + header.held_bytes() + 5 * wire_bytes
}

#[diagnostic::do_not_recommend]
impl<K: StaticResource + 'static> StaticKind for Typed<K> {
    fn resource_kind() -> ResourceKind {
        ResourceKind::of::<K>()
    }
}

impl<K> fmt::Debug for Typed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::fmt_header(f, "Typed", &self.header)
    }
}
