//! The namespace controller: deletes all objects in a namespace that is being deleted, then removes the
//! finalizer of the namespace.

use serde_json::{Value, json};

use crate::admission::Scope;
use crate::controllers::{ControllerManager, MAX_OBJECTS_PER_TASK};
use crate::model::json::parse;
use crate::model::kinds::core::namespace::{
    FINALIZER as NAMESPACE_FINALIZER, finalizers as namespace_finalizers,
};
use crate::model::object_meta::metadata_of_mut;
use crate::model::write_options::WriteMode;
use crate::pipeline::DeleteOptions;
use crate::pipeline::ready::ready;
use crate::registry::select::Filter;

impl ControllerManager {
    /// Deletes a batch of the objects in a namespace that is being deleted. Objects with finalizers remain;
    /// each queues the namespace again when it is removed.
    pub(crate) fn sync_namespace(&self, name: &str) {
        let Ok(resource) = self.resource(&informer_core::Gvr::new("", "v1", "namespaces")) else { return };
        let Ok(stored) = self.find(&resource, None, name) else { return };
        if !stored.terminating {
            return;
        }
        match self.delete_contents(name) {
            Contents::ToDelete => self.empty_namespace(name),
            Contents::Held => {}
            Contents::Empty => {
                let Value::Object(mut object) = parse(stored.as_slice()) else { return };
                let left =
                    namespace_finalizers(&object).into_iter().filter(|name| name != NAMESPACE_FINALIZER);
                let left: Vec<String> = left.collect();
                let spec = if left.is_empty() { json!({}) } else { json!({"finalizers": left}) };
                object.insert("spec".into(), spec);
                metadata_of_mut(&mut object).remove("resourceVersion");
                // An error of this update means that the namespace was removed in the meantime, so it is
                // ignored.
                let scope = Scope::new(&resource, None);
                drop(ready(self.update(scope, name, Value::Object(object), WriteMode::Finalize)));
            }
        }
    }

    fn delete_contents(&self, name: &str) -> Contents {
        let resources: Vec<_> = self.registry.read().iter().filter(|r| r.kind.namespaced).cloned().collect();
        let prefix = Filter::namespace(Some(name)).prefix();
        let (mut deletions, mut deleted, mut contents) = (0, false, Contents::Empty);
        for resource in &resources {
            let live = self.storage.read().live(resource.table);
            let inside = live.from(&prefix).take_while(|stored| stored.key.as_str().starts_with(&prefix));
            for stored in inside {
                if deletions == MAX_OBJECTS_PER_TASK {
                    // If no object could be deleted, another attempt would fail, too.
                    return if deleted { Contents::ToDelete } else { Contents::Held };
                }
                if !stored.terminating {
                    deletions += 1;
                    let scope = Scope::new(resource, Some(name));
                    deleted |= ready(self.delete(scope, stored.key.name(), &DeleteOptions::now())).is_ok();
                }
                if self.storage.read().get(resource.table, stored.key.as_str()).is_some() {
                    contents = Contents::Held;
                }
            }
        }
        contents
    }
}

enum Contents {
    Empty,
    /// Only objects with finalizers remain, so the namespace must wait for other controllers.
    Held,
    ToDelete,
}
