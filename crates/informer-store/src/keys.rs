use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey};

type KeyFn<O> = dyn Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync;
type TransformFn<O> = dyn Fn(Arc<O>) -> Arc<O> + Send + Sync;

/// The transform and the key function, which write handles apply to an object before it is stored.
pub(crate) struct Keys<O> {
    key: Arc<KeyFn<O>>,
    transform: Option<Arc<TransformFn<O>>>,
}

impl<O: Object> Default for Keys<O> {
    fn default() -> Self {
        Self { key: Arc::new(|object: &O| Ok(object.key().clone())), transform: None }
    }
}

impl<O> Keys<O> {
    pub(crate) fn set_key(
        &mut self,
        key: impl Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync + 'static,
    ) {
        self.key = Arc::new(key);
    }

    pub(crate) fn set_transform(&mut self, transform: impl Fn(Arc<O>) -> Arc<O> + Send + Sync + 'static) {
        self.transform = Some(Arc::new(transform));
    }

    pub(crate) fn key_of(&self, object: &O) -> Result<ObjectKey, KeyError> {
        (self.key)(object)
    }

    pub(crate) fn transformed(&self, object: Arc<O>) -> Arc<O> {
        match &self.transform {
            Some(transform) => transform(object),
            None => object,
        }
    }
}
