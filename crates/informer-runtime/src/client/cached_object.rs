//! Objects that a client has read, and edited copies of them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{DecodeError, Lazy, Typed};
use informer_core::{Object, ObjectKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::KubeObject;

/// An object that was read from the cache or the API server. It dereferences to its type; clones share the
/// object.
///
/// To change the object, copy it with [`edit`](Self::edit).
pub struct Fetched<K> {
    base: ViewSource<K>,
    view: Arc<K>,
}

enum ViewSource<K> {
    /// A lazy object in the cache, which is decoded on first access. It is complete except for pruned fields.
    Lazy(Arc<Lazy<K>>),
    /// A compressed object in the cache (the packed representation). It is complete except for pruned fields.
    #[cfg(feature = "packed")]
    Packed(Arc<Packed<K>>),
    /// A typed object in the cache, which was decoded when it arrived. It does not have fields that the type
    /// does not know.
    Typed(Arc<Typed<K>>),
    /// The object as JSON, as the API server sent it, with all fields.
    Whole(Arc<Value>),
    /// An object that an interceptor of the client has changed. Only the typed view is available; the object
    /// on the server may have more fields.
    Partial,
}

impl<K> Clone for ViewSource<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Lazy(lazy) => Self::Lazy(Arc::clone(lazy)),
            #[cfg(feature = "packed")]
            Self::Packed(packed) => Self::Packed(Arc::clone(packed)),
            Self::Typed(typed) => Self::Typed(Arc::clone(typed)),
            Self::Whole(whole) => Self::Whole(Arc::clone(whole)),
            Self::Partial => Self::Partial,
        }
    }
}

impl<K> Fetched<K> {
    /// Returns the object as its type `K`, which all clones share.
    pub fn view(&self) -> &Arc<K> {
        &self.view
    }
}

impl<K: KubeObject> Fetched<K> {
    /// Creates a fetched object from a lazy object of a cache.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be decoded as `K`.
    pub fn of_lazy(lazy: Arc<Lazy<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: lazy.get()?, base: ViewSource::Lazy(lazy) })
    }

    /// Creates a fetched object from a compressed object of a cache. The object is decompressed first.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be decoded as `K`.
    #[cfg(feature = "packed")]
    pub fn of_packed(packed: Arc<Packed<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: packed.get()?, base: ViewSource::Packed(packed) })
    }

    /// Creates a fetched object from a decoded object of a cache.
    ///
    /// # Errors
    ///
    /// Never returns an error; the signature matches [`of_lazy`](Self::of_lazy).
    pub fn of_typed(typed: Arc<Typed<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: typed.get()?, base: ViewSource::Typed(typed) })
    }

    pub(super) fn of_whole(whole: Value) -> Result<Self, serde_json::Error> {
        // The JSON value is cloned and decoded as an owned value, although decoding from a reference would
        // need no copy. Other code decodes owned values, and decoding from a reference would compile the
        // decoder of each type a second time.
        let view = Arc::new(decode(|| serde_json::from_value(whole.clone()))?);
        Ok(Self { view, base: ViewSource::Whole(Arc::new(whole)) })
    }

    pub(super) fn of_partial(part: Value) -> Result<Self, serde_json::Error> {
        Ok(Self { view: Arc::new(decode(|| serde_json::from_value(part))?), base: ViewSource::Partial })
    }

    /// Returns the object as JSON. The JSON has all fields if they are available, otherwise only those that
    /// the type knows.
    pub(super) fn json(&self) -> Result<Value, serde_json::Error> {
        self.whole().map_or_else(|| serde_json::to_value(&*self.view), Ok)
    }

    /// Returns a copy of the object that the program can change and pass to
    /// [`CachedClient::update`](super::CachedClient::update).
    pub fn edit(&self) -> Edited<K> {
        Edited { read: self.clone(), object: K::clone(&self.view) }
    }

    /// Returns the key of the object, which consists of namespace and name; `None` if the object has no valid
    /// name.
    pub fn key(&self) -> Option<ObjectKey> {
        match &self.base {
            ViewSource::Lazy(lazy) => Some(lazy.key().clone()),
            #[cfg(feature = "packed")]
            ViewSource::Packed(packed) => Some(packed.key().clone()),
            ViewSource::Typed(typed) => Some(typed.key().clone()),
            ViewSource::Whole(_) | ViewSource::Partial => {
                let meta = self.view.meta();
                ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref()?).ok()
            }
        }
    }

    /// Returns the complete object as JSON, except for pruned fields. `None` if fields may be missing: only
    /// the typed view is available, or a newer server has sent fields that the protobuf decoder does not
    /// know.
    pub(super) fn whole(&self) -> Option<Value> {
        match &self.base {
            ViewSource::Lazy(lazy) if lazy.is_partial() => None,
            ViewSource::Lazy(lazy) => serde_json::from_str(&lazy.json().ok()?).ok(),
            #[cfg(feature = "packed")]
            ViewSource::Packed(packed) if packed.is_partial() => None,
            #[cfg(feature = "packed")]
            ViewSource::Packed(packed) => serde_json::from_str(&packed.json().ok()?).ok(),
            ViewSource::Typed(_) | ViewSource::Partial => None,
            ViewSource::Whole(whole) => Some(Value::clone(whole)),
        }
    }
}

impl<K> Clone for Fetched<K> {
    fn clone(&self) -> Self {
        Self { base: self.base.clone(), view: Arc::clone(&self.view) }
    }
}

impl<K> Deref for Fetched<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.view
    }
}

impl<K: KubeObject> fmt::Debug for Fetched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.view.meta().resource_version.as_deref().unwrap_or("?");
        match self.key() {
            Some(key) => write!(f, "Fetched({key} @{version})"),
            None => write!(f, "Fetched(@{version})"),
        }
    }
}

/// An edited copy of an object, together with the original, for
/// [`CachedClient::update`](super::CachedClient::update). It dereferences mutably to the type of the object.
#[derive(Clone)]
#[must_use = "pass it to `update` to write the change"]
pub struct Edited<K> {
    read: Fetched<K>,
    object: K,
}

impl<K: KubeObject> Edited<K> {
    /// Returns the object as it was read, without the edits.
    pub fn original(&self) -> &Fetched<K> {
        &self.read
    }

    /// Returns true if the edited copy differs from the object that was read.
    pub fn is_changed(&self) -> bool {
        let text = |object: &K| serde_json::to_value(object).ok();
        text(&self.object) != text(&self.read.view)
    }

    /// Returns the edited object, without the original.
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K: Serialize + DeserializeOwned> Edited<K> {
    /// Returns the original and the edited copy as JSON values of their type, from which the patch of an
    /// update is computed.
    pub(super) fn values(&self) -> Result<(Value, Value), serde_json::Error> {
        Ok((serde_json::to_value(&*self.read.view)?, serde_json::to_value(&self.object)?))
    }
}

impl<K> Deref for Edited<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K> DerefMut for Edited<K> {
    fn deref_mut(&mut self) -> &mut K {
        &mut self.object
    }
}

impl<K: KubeObject> fmt::Debug for Edited<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Edited").field(&self.read).finish()
    }
}

/// Decodes an object. A panic of its `Deserialize` implementation becomes an error, as in caches. The object
/// may be in the response to a write that the server has stored, and the panic must not end the task of the
/// caller.
fn decode<K>(decode: impl FnOnce() -> serde_json::Result<K>) -> serde_json::Result<K> {
    let panicked = |_| Err(serde::de::Error::custom("the decoder of the type panicked"));
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(panicked)
}
