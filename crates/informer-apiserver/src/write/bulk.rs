//! Many objects at once, as this process loads them.

use std::sync::Arc;

use informer_core::ObjectKey;
use serde_json::Value;

use super::metadata::{self, metadata_of_mut};
use super::{DEFINITIONS, Scope, WriteMode};
use crate::error::ApiError;
use crate::kinds::{Kind, Resource};
use crate::server::Shared;
use crate::storage::{Draft, Expect, draft};

impl Shared {
    /// Writes a batch of objects under one lock.
    pub(crate) fn load(&self, resource: &Arc<Resource>, objects: Vec<Value>) -> Result<usize, ApiError> {
        let kind = &resource.kind;
        let (mut drafts, mut failed) = (Vec::with_capacity(objects.len()), None);
        for object in objects {
            match self.draft_loaded(kind, object) {
                Ok(draft) => drafts.push(draft),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let count = drafts.len();
        // Definitions are served from now on, too; what follows from others follows from all of them at once.
        let defines = kind.is(DEFINITIONS, "CustomResourceDefinition");
        let names = drafts.iter().take(if defines { drafts.len() } else { 1 });
        let names: Vec<String> = names.map(|draft| draft.key().to_owned()).collect();
        let mut expiring = Vec::new();
        let mut storage = self.storage.write();
        for draft in drafts {
            let seen = storage.get(resource.table, draft.key.as_str()).map(|current| current.version);
            let expect = seen.map_or(Expect::Absent, Expect::At);
            let stored = storage.put(resource.table, draft, expect).expect("nothing changes under the lock");
            expiring.extend(kind.expires().then_some(stored));
        }
        drop(storage);
        expiring.iter().for_each(|stored| self.note_written(resource, stored));
        self.announce(resource);
        self.count_all(kind);
        names.iter().for_each(|name| self.after_write(Scope::new(resource, None), name));
        failed.map_or(Ok(count), Err)
    }

    fn draft_loaded(&self, kind: &Kind, object: Value) -> Result<Draft, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let namespace = match (kind.namespaced, namespace) {
            (false, _) => None,
            (true, "") => Some("default".to_owned()),
            (true, namespace) => Some(namespace.to_owned()),
        };
        let mut object = metadata::checked(kind, namespace.as_deref(), object)?;
        if kind.is(DEFINITIONS, "CustomResourceDefinition") {
            // What is loaded may be sloppy; its names are filled in all the same.
            drop(crate::custom::check_definition(&mut object));
        }
        let uid = metadata::text(&object, "uid").to_owned();
        self.fill_new(kind, &mut object, WriteMode::Whole);
        if !uid.is_empty() {
            metadata_of_mut(&mut object).insert("uid".into(), uid.into());
        }
        let name = metadata::text(&object, "name").to_owned();
        metadata::check_name(kind, &name, &object)?;
        let key = ObjectKey::new(namespace.as_deref().unwrap_or_default(), &name);
        Ok(draft(kind, key.map_err(|error| ApiError::bad_request(error.to_string()))?, &object))
    }
}
