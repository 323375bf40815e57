use std::error::Error;
use std::fmt;
use std::sync::Arc;

use informer_cache::AnyObject;

use crate::Representation;

type BoxError = Box<dyn Error + Send + Sync>;

/// A transform of objects of any kind and representation, for all informers of a factory or a cache.
///
/// The function receives each object before it is stored, and returns it or another object of the same type.
/// Use [`downcast_ref`](informer_core::Object) to access an object by its type. If the function fails, or
/// returns an object of another type, the object is quarantined as undecodable. To remove fields of all
/// kinds, use [`Pruning`](crate::Pruning), which is cheaper.
///
/// Upstream: [`TransformFunc`](https://pkg.go.dev/k8s.io/client-go/tools/cache#TransformFunc).
///
/// ```
/// use std::sync::Arc;
/// use informer_client::{AnyTransform, Lazy};
/// use informer_core::Object;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// // Config maps are stored without their data, all other objects unchanged.
/// let transform = AnyTransform::new(|object| {
///     let Some(map) = object.downcast_ref::<Lazy<ConfigMap>>() else { return Ok(object) };
///     let mut json: serde_json::Value = serde_json::from_str(&map.json()?)?;
///     json["data"].take();
///     Ok(Arc::new(Lazy::<ConfigMap>::from_json(&json.to_string())?))
/// });
/// let map = Lazy::<ConfigMap>::from_json(r#"{"metadata":{"name":"a"},"data":{"text":"long"}}"#)?;
/// assert_eq!(transform.apply(Arc::new(map))?.field(&"data.text".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct AnyTransform(Arc<dyn Fn(AnyObject) -> Result<AnyObject, BoxError> + Send + Sync>);

/// The error of a transform that returned an object of another type.
#[derive(Debug, thiserror::Error)]
#[error(
    "transform {key}: the transform returned another type than {expected}; return the type of its argument"
)]
struct TypeChanged {
    key: String,
    expected: &'static str,
}

impl AnyTransform {
    /// Creates a transform from a function.
    pub fn new(function: impl Fn(AnyObject) -> Result<AnyObject, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Transforms one object.
    ///
    /// # Errors
    ///
    /// Returns the error of the function, and an error if it returned an object of another type.
    pub fn apply<O: Representation>(&self, object: Arc<O>) -> Result<Arc<O>, BoxError> {
        let is_partial = object.is_partial();
        let transformed = (self.0)(object)?.downcast::<O>().map_err(|other| TypeChanged {
            key: other.key().to_string(),
            expected: std::any::type_name::<O>(),
        })?;
        Ok(if is_partial { transformed.into_partial() } else { transformed })
    }
}

impl fmt::Debug for AnyTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyTransform").finish_non_exhaustive()
    }
}
