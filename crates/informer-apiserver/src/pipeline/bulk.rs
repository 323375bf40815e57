//! Bulk load of objects by the embedding program.

use std::sync::Arc;

use informer_core::ObjectKey;
use serde_json::Value;

use crate::admission::Scope;
use crate::model::error::ApiError;
use crate::model::kinds::core::service::allocation::UsedAddresses;
use crate::model::metadata;
use crate::model::object_meta;
use crate::model::object_meta::metadata_of_mut;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use crate::pipeline::{DEFINITIONS, Pipeline};
use crate::registry::Resource;
use crate::registry::storage::{Draft, Expect};

impl Pipeline {
    /// Writes a batch of objects while holding the storage lock once. Existing objects are replaced.
    pub(crate) fn load(
        &self,
        resource: &Arc<Resource>,
        objects: Vec<Value>,
        mode: WriteMode,
    ) -> Result<usize, ApiError> {
        let kind = &resource.kind;
        let allocating = kind.is("", "Service").then(|| self.allocations.lock());
        let mut taken = allocating.as_ref().map(|in_flight| self.taken(in_flight));
        let (mut drafts, mut failed) = (Vec::with_capacity(objects.len()), None);
        for object in objects {
            match self.draft_loaded(resource, object, mode, taken.as_mut()) {
                Ok(draft) => drafts.push(draft),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let count = drafts.len();
        // Each loaded CRD needs its own follow-up, which serves it, and so does each namespace, for its
        // default objects. For other kinds one follow-up per batch is enough.
        let each = kind.is(DEFINITIONS, "CustomResourceDefinition") || kind.is("", "Namespace");
        let names = drafts.iter().take(if each { drafts.len() } else { 1 });
        let names: Vec<String> = names.map(|draft| draft.key().to_owned()).collect();
        let mut expiring = Vec::new();
        let mut storage = self.storage.write();
        for draft in drafts {
            let seen = storage.get(resource.table, draft.key.as_str()).map(|current| current.version);
            let expect = seen.map_or(Expect::Absent, Expect::At);
            let stored = storage
                .put(resource.table, draft, expect)
                .expect("the lock is held, so the version is current");
            expiring.extend(kind.expires().then_some(stored));
        }
        drop((storage, allocating));
        expiring.iter().for_each(|stored| self.note_written(resource, stored));
        self.announce(resource);
        self.recount_quotas(kind);
        names.iter().for_each(|name| self.after_write(Scope::new(resource, None), name));
        failed.map_or(Ok(count), Err)
    }

    fn draft_loaded(
        &self,
        resource: &Arc<Resource>,
        object: Value,
        mode: WriteMode,
        taken: Option<&mut UsedAddresses>,
    ) -> Result<Draft, ApiError> {
        let kind = &resource.kind;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let namespace = match (kind.namespaced, namespace) {
            (false, _) => None,
            (true, "") => Some("default".to_owned()),
            (true, namespace) => Some(namespace.to_owned()),
        };
        let scope = Scope::of_program(resource, namespace.as_deref(), mode);
        let mut object = metadata::checked(&self.schema, kind, namespace.as_deref(), object)?;
        self.decode(scope, &mut object, mode)?;
        let uid = object_meta::text(&object, "uid").to_owned();
        self.fill_new(kind, &mut object, mode);
        if !uid.is_empty() {
            metadata_of_mut(&mut object).insert("uid".into(), uid.into());
        }
        if mode != WriteMode::Raw {
            kind.admit_loaded(&mut object);
        }
        let name = object_meta::text(&object, "name").to_owned();
        self.prepare_and_validate_new(scope, (&name, &mut object), mode, taken.as_deref())?;
        if let Some(taken) = taken {
            as_value(&mut object, |service: &Value| taken.note(service));
        }
        let key = ObjectKey::new(namespace.as_deref().unwrap_or_default(), &name);
        let key = key.map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(scope.draft(key, &mut object))
    }
}
