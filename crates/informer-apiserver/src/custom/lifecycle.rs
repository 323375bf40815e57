//! How definitions come to be served and go again.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value, json};

use super::definition::{Served, kinds};
use crate::convert::Converter;
use crate::kinds::{Defined, Kind, Resource};
use crate::server::{Shared, parse};
use crate::storage::draft;
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

    /// Registers the kinds of a definition. They share one table; what is stored is in one version. Where another definition
    /// of the same name was served, its watches end, and so does its history: as upstream, whose caches start anew.
    pub(crate) fn serve(&self, spec: &Value) {
        let all = kinds(spec);
        let Some(stored) = all.iter().find(|served| served.stored).map(|served| served.kind.clone()) else {
            return;
        };
        let stored = Arc::new(stored);
        let (group, plural) = (stored.gvr.group.clone(), stored.gvr.resource.clone());
        let mut registry = self.registry.write();
        let before = registry.definition(&group, &plural);
        if before.as_ref().is_some_and(|before| before.spec == *spec) {
            return;
        }
        let known = all.iter().find_map(|served| registry.get(&served.kind.gvr));
        let (table, changed) = match (&before, known) {
            (Some(before), _) => (before.table, before.changed.clone()),
            (None, Some(known)) => (known.table, known.changed.clone()),
            (None, None) => (self.storage.write().add_table(), tokio::sync::watch::Sender::default()),
        };
        registry.retain(|kind| !(kind.is_custom() && is_of(kind, &stored)));
        let shaped: Vec<Kind> = all.iter().map(|served| served.kind.clone()).collect();
        let mut versions = Vec::new();
        for Served { kind, stored: is_stored, served } in all {
            let stored_as = (!is_stored).then(|| Arc::clone(&stored));
            let converter = Converter::new(&spec["conversion"]).map(Arc::new);
            let resource = Resource { kind, table, changed: changed.clone(), stored_as, converter };
            versions.push(if served { registry.add(resource) } else { Arc::new(resource) });
        }
        let defined = Defined { spec: spec.clone(), table, changed: changed.clone(), versions };
        registry.define(&group, &plural, Some(defined));
        drop(registry);
        if before.is_some() {
            self.reshape(table, &shaped);
            changed.send_replace(());
        }
    }

    /// Fits what is stored to a changed definition, with the versions that it has: what a schema does not know any more is not
    /// shown any more, and what has a default now has it.
    fn reshape(&self, table: usize, kinds: &[Kind]) {
        let live = self.storage.read().live(table);
        let shaped = live.iter().filter_map(|stored| {
            let Value::Object(mut object) = parse(stored.as_slice()) else { return None };
            let kind = kinds.iter().find(|kind| object["apiVersion"] == kind.api_version)?;
            kind.schema.as_ref()?.shape(&mut object);
            Some((draft(kind, stored.key.clone(), &object), stored.version))
        });
        let shaped: Vec<_> = shaped.collect();
        self.storage.write().reshape(table, shaped);
    }

    /// Takes a definition away: its objects first.
    fn wind_up(&self, resource: &Arc<Resource>, mut definition: Value) {
        let spec = &definition["spec"];
        let gvrs: Vec<Gvr> = kinds(spec).into_iter().map(|served| served.kind.gvr).collect();
        let stored = |gvr: &&Gvr| self.resource(gvr).is_ok_and(|resource| resource.stored_as.is_none());
        let served = gvrs.iter().find(stored).or(gvrs.iter().find(|gvr| self.resource(gvr).is_ok()));
        let served = served.and_then(|gvr| self.resource(gvr).ok());
        let left = served.as_ref().map_or(0, |served| self.delete_all(served));
        if left > 0 {
            // Whoever removes the last of them comes back here.
            return;
        }
        if let Some(served) = served {
            let mut registry = self.registry.write();
            registry.retain(|kind| !gvrs.contains(&kind.gvr));
            registry.define(&served.kind.gvr.group, &served.kind.gvr.resource, None);
            drop(registry);
            self.storage.write().close(served.table);
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
    // What is loaded, or what a webhook has made of it, may have none.
    let versions = object.get("spec").and_then(|spec| spec["versions"].as_array());
    let stored: Vec<Value> = versions
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
