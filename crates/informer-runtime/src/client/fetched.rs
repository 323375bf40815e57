//! Objects that were read, and copies of them to be changed.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{DecodeError, Lazy, Typed};
use informer_core::{Object, ObjectKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::KubeObject;

/// An object as the cache or the server gave it. It dereferences to the type; clones share it.
///
/// Change a copy of it with [`edit`](Self::edit).
pub struct Fetched<K> {
    base: Base<K>,
    view: Arc<K>,
}

/// Where the view comes from.
enum Base<K> {
    /// The text in the cache, pruned and otherwise whole.
    Lazy(Arc<Lazy<K>>),
    /// The same, compressed.
    #[cfg(feature = "packed")]
    Packed(Arc<Packed<K>>),
    /// Decoded when it arrived: what the type does not know is gone.
    Typed(Arc<Typed<K>>),
    /// As the server sent it.
    Whole(Arc<Value>),
    /// A changed view of an object that may have more fields.
    Part,
}

impl<K> Clone for Base<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Lazy(lazy) => Self::Lazy(Arc::clone(lazy)),
            #[cfg(feature = "packed")]
            Self::Packed(packed) => Self::Packed(Arc::clone(packed)),
            Self::Typed(typed) => Self::Typed(Arc::clone(typed)),
            Self::Whole(whole) => Self::Whole(Arc::clone(whole)),
            Self::Part => Self::Part,
        }
    }
}

impl<K> Fetched<K> {
    /// The typed object.
    pub fn view(&self) -> &Arc<K> {
        &self.view
    }
}

impl<K: KubeObject> Fetched<K> {
    /// An object of a cache.
    ///
    /// # Errors
    ///
    /// When it does not fit the type.
    pub fn of_lazy(lazy: Arc<Lazy<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: lazy.get()?, base: Base::Lazy(lazy) })
    }

    /// An object of a cache that holds it compressed: as [`of_lazy`](Self::of_lazy), and unpacked first.
    ///
    /// # Errors
    ///
    /// When it does not fit the type.
    #[cfg(feature = "packed")]
    pub fn of_packed(packed: Arc<Packed<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: packed.get()?, base: Base::Packed(packed) })
    }

    /// An object of a cache that decodes when objects arrive.
    ///
    /// # Errors
    ///
    /// None; as [`of_lazy`](Self::of_lazy).
    pub fn of_typed(typed: Arc<Typed<K>>) -> Result<Self, DecodeError> {
        Ok(Self { view: typed.get()?, base: Base::Typed(typed) })
    }

    pub(super) fn of_whole(whole: Value) -> Result<Self, serde_json::Error> {
        let view = Arc::new(K::deserialize(&whole)?);
        Ok(Self { view, base: Base::Whole(Arc::new(whole)) })
    }

    /// An object that may lack fields.
    pub(super) fn of_part(part: Value) -> Result<Self, serde_json::Error> {
        Ok(Self { view: Arc::new(K::deserialize(part)?), base: Base::Part })
    }

    /// The object as JSON: all of it if that is held, otherwise the fields that the type knows.
    pub(super) fn json(&self) -> Result<Value, serde_json::Error> {
        self.whole().map_or_else(|| serde_json::to_value(&*self.view), Ok)
    }

    /// A copy to be changed.
    pub fn edit(&self) -> Edited<K> {
        Edited { read: self.clone(), object: K::clone(&self.view) }
    }

    /// The key.
    pub fn key(&self) -> Option<ObjectKey> {
        match &self.base {
            Base::Lazy(lazy) => Some(lazy.key().clone()),
            #[cfg(feature = "packed")]
            Base::Packed(packed) => Some(packed.key().clone()),
            Base::Typed(typed) => Some(typed.key().clone()),
            Base::Whole(_) | Base::Part => {
                let meta = self.view.meta();
                ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref()?).ok()
            }
        }
    }

    /// The whole object as JSON, except what the cache has pruned. `None` if the held object may
    /// lack fields: only the typed view is held, or a newer server has sent fields that a protobuf reader
    /// does not know.
    pub(super) fn whole(&self) -> Option<Value> {
        match &self.base {
            Base::Lazy(lazy) if lazy.is_partial() => None,
            Base::Lazy(lazy) => serde_json::from_str(&lazy.json().ok()?).ok(),
            #[cfg(feature = "packed")]
            Base::Packed(packed) if packed.is_partial() => None,
            #[cfg(feature = "packed")]
            Base::Packed(packed) => serde_json::from_str(&packed.json().ok()?).ok(),
            Base::Typed(_) | Base::Part => None,
            Base::Whole(whole) => Some(Value::clone(whole)),
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

/// A changed copy of an object that was read, and the object itself: what [`CachedClient::update`](super::CachedClient::update) takes. It
/// dereferences to the type, to be changed.
#[derive(Clone)]
#[must_use = "a change that is not handed to `update` changes nothing"]
pub struct Edited<K> {
    read: Fetched<K>,
    object: K,
}

impl<K: KubeObject> Edited<K> {
    /// The object as it was read.
    pub fn original(&self) -> &Fetched<K> {
        &self.read
    }

    /// True where the copy is not what was read.
    pub fn is_changed(&self) -> bool {
        let text = |object: &K| serde_json::to_value(object).ok();
        text(&self.object) != text(&self.read.view)
    }

    /// The changed object.
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K: Serialize + DeserializeOwned> Edited<K> {
    /// The typed values: as read, and as changed.
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
