//! How definitions come to be served and go again.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value, json};

use super::definition::{Served, kinds};
use crate::kinds::{Kind, Resource};
use crate::server::{Shared, parse};
use crate::write::{DeleteOptions, Scope};

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

impl Shared {
    /// Follows a change of a definition: serves what it defines, or takes it away. Done before the change is answered, so
    /// that nobody has to wait for it.
    pub(crate) fn follow_definition(&self, name: &str) {
        let Ok(resource) = self.resource(&definitions()) else { return };
        let Ok(stored) = self.find(&resource, None, name) else { return };
        let definition = parse(stored.as_slice());
        match definition["metadata"]["deletionTimestamp"].is_string() {
            true => self.wind_up(&resource, definition),
            false => self.establish(&resource, definition),
        }
    }

    fn establish(&self, resource: &Arc<Resource>, mut definition: Value) {
        self.serve(&definition["spec"]);
        let accepted = definition["spec"]["names"].clone();
        let established = definition["status"]["conditions"].is_array();
        if established && definition["status"]["acceptedNames"] == accepted {
            return;
        }
        definition["status"]["acceptedNames"] = accepted;
        for done in [false, true] {
            let (status, reason) =
                if done { ("True", "InitialNamesAccepted") } else { ("False", "Installing") };
            definition["status"]["conditions"] = json!([
                self.condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                self.condition("Established", status, reason, "the initial names have been accepted"),
            ]);
            self.write_definition(resource, &definition);
        }
    }

    fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({
            "type": kind, "status": status, "lastTransitionTime": self.now(), "reason": reason, "message": message,
        })
    }

    fn write_definition(&self, resource: &Arc<Resource>, definition: &Value) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let (Ok(current), Value::Object(mut object)) = (self.find(resource, None, name), definition.clone())
        else {
            return;
        };
        self.own_status(resource, &current, &mut object);
        // A definition that changes meanwhile is followed by whoever does that.
        drop(self.settle(Scope::new(resource, None), &current, &object));
    }

    /// Registers the kinds of a definition. They share one table; what is stored is in one version.
    pub(crate) fn serve(&self, spec: &Value) {
        let all = kinds(spec);
        let Some(stored) = all.iter().find(|served| served.stored).map(|served| served.kind.clone()) else {
            return;
        };
        let stored = Arc::new(stored);
        let mut registry = self.registry.write();
        let known = all.iter().find_map(|served| registry.get(&served.kind.gvr));
        let (table, changed) = match known {
            Some(known) => (known.table, known.changed.clone()),
            None => (self.storage.write().add_table(), tokio::sync::watch::Sender::default()),
        };
        registry.retain(|kind| !(kind.is_custom() && is_of(kind, &stored)));
        for Served { kind, stored: is_stored, .. } in all.into_iter().filter(|served| served.served) {
            let stored_as = (!is_stored).then(|| Arc::clone(&stored));
            registry.add(Resource { kind, table, changed: changed.clone(), stored_as });
        }
    }

    /// Takes a definition away: its objects first.
    fn wind_up(&self, resource: &Arc<Resource>, mut definition: Value) {
        let spec = &definition["spec"];
        let gvrs: Vec<Gvr> = kinds(spec).into_iter().map(|served| served.kind.gvr).collect();
        let served = gvrs.iter().find_map(|gvr| self.resource(gvr).ok());
        let left = served.as_ref().map_or(0, |served| self.delete_all(served));
        if left > 0 {
            // Whoever removes the last of them comes back here.
            return;
        }
        if let Some(served) = served {
            self.registry.write().retain(|kind| !gvrs.contains(&kind.gvr));
            self.storage.write().disconnect(served.table);
            self.announce(&served);
        }
        let kept = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> = kept.into_iter().filter(|name| name != CLEANUP_FINALIZER).collect();
        definition["metadata"]["finalizers"] = kept.into();
        self.write_definition(resource, &definition);
    }

    /// Deletes the objects of a kind; answers how many are left.
    fn delete_all(&self, resource: &Arc<Resource>) -> usize {
        let live = self.storage.read().live(resource.table);
        for stored in live.iter() {
            let marked = parse(stored.as_slice())["metadata"]["deletionTimestamp"].is_string();
            if !marked {
                let scope = Scope::new(resource, stored.key.namespace());
                drop(self.delete(scope, stored.key.name(), &DeleteOptions::now()));
            }
        }
        self.storage.read().live(resource.table).iter().count()
    }
}

fn is_of(kind: &Kind, stored: &Kind) -> bool {
    kind.gvr.group == stored.gvr.group && kind.gvr.resource == stored.gvr.resource
}

/// What the server decides about a new definition.
pub(crate) fn fill_new_definition(object: &mut Map<String, Value>) {
    let stored: Vec<Value> = object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    object.insert(
        "status".into(),
        json!({
            "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
        }),
    );
}

/// Marks a definition that is being deleted, so that its watchers see why.
pub(crate) fn mark_definition(object: &mut Map<String, Value>, now: &str) {
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": now,
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    let conditions = object.get_mut("status").and_then(|status| status["conditions"].as_array_mut());
    if let Some(conditions) = conditions.filter(|all| all.iter().all(|one| one["type"] != "Terminating")) {
        conditions.push(condition);
    }
}
