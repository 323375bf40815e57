use std::marker::PhantomData;

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{Lazy, Typed};
use informer_store::{IndexFn, IndexFnError};
use serde::de::DeserializeOwned;

/// Creates an index function that computes the index values from the typed object. Each state of an object is
/// decoded once, when it is stored. For a field or a label, [`field`](informer_store::field) and
/// [`label`](informer_store::label) are cheaper.
///
/// ```
/// use informer_runtime::typed;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let by_image = typed(|pod: &Pod| {
///     pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|each| each.image.clone()).collect()
/// });
/// # let _ = by_image;
/// ```
pub fn typed<K, F: Fn(&K) -> Vec<String>>(function: F) -> TypedIndex<K, F> {
    TypedIndex { function, kind: PhantomData }
}

/// The index function that [`typed`] returns. It decodes each object before it computes the index values.
pub struct TypedIndex<K, F> {
    function: F,
    kind: PhantomData<fn(&K)>,
}

/// Implements `IndexFn` of `TypedIndex` for a representation that provides the typed object.
macro_rules! index {
    ($representation:ident) => {
        impl<K, F> IndexFn<$representation<K>> for TypedIndex<K, F>
        where
            K: DeserializeOwned + Send + Sync + 'static,
            F: Fn(&K) -> Vec<String> + Send + Sync + 'static,
        {
            fn index(
                &self,
                object: &$representation<K>,
                emit: &mut dyn FnMut(&str),
            ) -> Result<(), IndexFnError> {
                let values = (self.function)(&*object.get()?);
                values.iter().for_each(|value| emit(value));
                Ok(())
            }
        }
    };
}

index!(Lazy);
index!(Typed);
#[cfg(feature = "packed")]
index!(Packed);

impl<K, F> std::fmt::Debug for TypedIndex<K, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TypedIndex(..)")
    }
}
