//! Lists the objects of a controller owner, with an index that the first list adds.

use std::sync::Arc;

use informer_core::Object;
use informer_store::{IndexFn, IndexFnError};

use super::{CacheInformer, ListOptions};
use crate::ReadError;

/// The name of the index of objects by the uid of their controller owner. The prefix `owner:` keeps it
/// distinct from the names of indexes that the program adds itself.
const CONTROLLER_INDEX: &str = "owner:controller-uid";

impl<O: Object> CacheInformer<O> {
    /// Returns the cached objects whose controller owner has this uid, unordered: those in a namespace, or
    /// all if `namespace` is `None` or the kind is cluster-scoped.
    ///
    /// The first call adds an index. It and calls at the same time scan the objects; later calls use the
    /// index. Only programs that call this method pay for the memory of the index.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace is not cached.
    pub(crate) fn controlled_by(&self, uid: &str, namespace: Option<&str>) -> Result<Vec<Arc<O>>, ReadError> {
        let namespace = namespace.filter(|_| !self.kind().is_cluster_scoped());
        let indexed = match namespace {
            Some(namespace) => self.informer_for(Some(namespace))?.by_index(CONTROLLER_INDEX, uid),
            None => self.by_index(CONTROLLER_INDEX, uid),
        };
        let mut objects = match indexed {
            Ok(objects) => objects,
            Err(_) => {
                // An error means that another call adds the index. Both calls scan the objects.
                drop(self.add_index(CONTROLLER_INDEX, ByControllerUid));
                self.select(&ListOptions {
                    namespace: namespace.map(str::to_owned),
                    ..ListOptions::default()
                })?
            }
        };
        let in_namespace =
            |object: &O| namespace.is_none_or(|namespace| object.key().namespace() == Some(namespace));
        objects.retain(|object| {
            object.controller().is_some_and(|owner| owner.uid() == uid) && in_namespace(object)
        });
        Ok(objects)
    }
}

/// Computes the uid of an object's controller owner. An object without one has no value in the index.
struct ByControllerUid;

impl<O: Object> IndexFn<O> for ByControllerUid {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        object.controller().into_iter().for_each(|owner| emit(owner.uid()));
        Ok(())
    }
}
