//! Skips server-side applies that would change nothing, for clients that enable it.
//!
//! # Lock order
//!
//! The only lock guards the table of applied objects. No other code runs under it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use informer_core::{Gvk, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::Value;

use super::{CachedClient, Fetched, Operation};
use crate::KubeObject;

/// The maximum number of applied objects that a client remembers. If it applies more, the one whose
/// first apply is the oldest is forgotten, and its next apply is sent.
const MAX_REMEMBERED_APPLIES: usize = 10_000;

/// The objects that a program has applied, with the state that the server returned.
#[derive(Default)]
pub(super) struct AppliedObjects {
    hasher: RandomState,
    table: Mutex<AppliedTable>,
}

#[derive(Default)]
struct AppliedTable {
    applied: HashMap<AppliedKey, Applied>,
    /// The keys in the order in which they were added.
    order: VecDeque<AppliedKey>,
}

/// The identity of an applied configuration: an object, a subresource and a field owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AppliedKey {
    kind: Gvk,
    object: ObjectKey,
    subresource: Option<String>,
    owner: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Applied {
    /// The hash of the applied body.
    body: u64,
    /// The state of the object after the apply.
    state: ObjectState,
}

/// The part of an object's metadata that shows whether an apply would change the object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectState {
    uid: Option<String>,
    version: Option<String>,
    /// The hash of the fields that the field owner has applied; `None` if the object has no managed fields,
    /// for example because the cache prunes them.
    managed: Option<u64>,
}

impl ObjectState {
    /// Returns true if the fields that were applied in the state `self` are the same in the state `now`.
    ///
    /// At the same resourceVersion the whole object is the same. At another one, the managed fields decide:
    /// another manager that changes a field takes it from the fields of this owner.
    fn keeps_applied_fields(&self, now: &Self) -> bool {
        let same_version = self.version.is_some() && self.version == now.version;
        let same_fields = self.managed.is_some() && self.managed == now.managed;
        self.uid.is_some() && self.uid == now.uid && (same_version || same_fields)
    }
}

impl AppliedObjects {
    fn state(&self, key: &AppliedKey, meta: &ObjectMeta) -> ObjectState {
        let entries = meta.managed_fields.iter().flatten().filter(|entry| {
            entry.manager.as_deref() == Some(&*key.owner)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().filter(|name| !name.is_empty()) == key.subresource.as_deref()
        });
        let fields = entries.map(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| fields.0.to_string());
            (&entry.api_version, fields)
        });
        let fields: Vec<_> = fields.collect();
        let managed = (!fields.is_empty()).then(|| self.hasher.hash_one(fields));
        ObjectState { uid: meta.uid.clone(), version: meta.resource_version.clone(), managed }
    }

    fn hash(&self, body: &Value) -> u64 {
        self.hasher.hash_one(body.to_string())
    }

    /// Returns true if this body was the last one that was applied.
    fn was_applied(&self, key: &AppliedKey, body: u64) -> bool {
        self.table.lock().applied.get(key).is_some_and(|applied| applied.body == body)
    }

    /// Returns true if this body was the last one that was applied, and the object still has its fields.
    fn is_unchanged(&self, key: &AppliedKey, body: u64, now: &ObjectMeta) -> bool {
        let now = self.state(key, now);
        let table = self.table.lock();
        let applied = table.applied.get(key).filter(|applied| applied.body == body);
        applied.is_some_and(|applied| applied.state.keeps_applied_fields(&now))
    }

    fn remember(&self, key: AppliedKey, body: u64, stored: &ObjectMeta) {
        let applied = Applied { body, state: self.state(&key, stored) };
        let mut table = self.table.lock();
        if table.applied.insert(key.clone(), applied).is_some() {
            return;
        }
        table.order.push_back(key);
        if table.order.len() > MAX_REMEMBERED_APPLIES
            && let Some(oldest) = table.order.pop_front()
        {
            table.applied.remove(&oldest);
        }
    }
}

impl CachedClient {
    /// Returns a client that does not send a server-side apply that would change nothing. Without this
    /// setting each apply is a request, which the server answers without a write.
    ///
    /// An apply is not sent if its body is equal to the last one that this program has applied to the object
    /// under the same field owner, and the cached object still has the applied fields:
    ///
    /// - It has the resourceVersion that the server returned for that apply, or
    /// - the managed fields of the field owner are the same. Another manager that changes an applied field
    ///   takes it from the owner. Caches prune managed fields by default;
    ///   [`Pruning`](informer_client::Pruning) keeps them. Without them, an apply is sent again after each
    ///   change of the object, also of its status.
    ///
    /// The result of an apply that is not sent is the cached object. The first apply after the start of the
    /// program is always sent. A cached object may be older than the one on the server: the next event of
    /// the object shows the change, and the next apply restores the fields.
    ///
    /// The setting has no effect on dry runs, on clients with interceptors, and on
    /// [uncached](super::ClientBuilder::uncached) kinds. For an object that was applied before, the cache
    /// needs an informer of the kind, and creates it otherwise.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient, map: k8s_openapi::api::core::v1::ConfigMap)
    /// # -> Result<(), informer_runtime::WriteError> {
    /// let client = client.skip_unchanged_applies();
    /// client.apply(&map).await?;
    /// client.apply(&map).await?; // not sent, unless the map was changed meanwhile
    /// # Ok(()) }
    /// ```
    pub fn skip_unchanged_applies(&self) -> Self {
        self.with(|settings| settings.skip_unchanged_applies = true)
    }

    /// Returns the cached object if the apply would change nothing.
    pub(super) async fn unchanged<K: KubeObject>(&self, apply: &UnsentApply) -> Option<Fetched<K>> {
        let applied = &self.shared.applied;
        if !applied.was_applied(&apply.key, apply.body) {
            return None;
        }
        // A cache that cannot be read does not fail the apply.
        let object = self.get::<K>(apply.key.object.as_str()).await.ok().flatten()?;
        let is_unchanged = applied.is_unchanged(&apply.key, apply.body, object.meta());
        if is_unchanged {
            tracing::debug!(kind = %apply.key.kind, object = %apply.key.object, "not applied: nothing would change");
        }
        is_unchanged.then_some(object)
    }

    /// Returns the identity of an apply if the client skips unchanged applies.
    pub(super) fn skippable(&self, operation: &Operation) -> Option<UnsentApply> {
        let settings = &self.settings;
        let skips = settings.skip_unchanged_applies
            && !settings.dry_run
            && !self.is_intercepted()
            && !self.shared.uncached.contains(operation.kind.gvk());
        let namespace = settings.namespace_of(operation, operation.namespace.as_deref()).ok()?;
        let object = operation.clone().in_namespace(namespace.as_deref()).key()?;
        let key = AppliedKey {
            kind: operation.kind.gvk().clone(),
            object,
            subresource: operation.subresource.clone(),
            owner: settings.owner().to_owned(),
        };
        skips.then(|| UnsentApply { key, body: self.shared.applied.hash(&operation.body) })
    }

    /// Remembers the state that the server returned for an apply.
    pub(super) fn remember_apply(&self, apply: UnsentApply, stored: &ObjectMeta) {
        self.shared.applied.remember(apply.key, apply.body, stored);
    }
}

/// An apply that may turn out to be unnecessary.
#[derive(Debug)]
pub(super) struct UnsentApply {
    key: AppliedKey,
    body: u64,
}

impl fmt::Debug for AppliedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppliedObjects").field("len", &self.table.lock().applied.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> AppliedKey {
        let kind = Gvk::new("", "v1", "ConfigMap");
        let object = format!("default/{name}").parse().unwrap();
        AppliedKey { kind, object, subresource: None, owner: "web".to_owned() }
    }

    fn meta(version: &str, owner: &str, fields: &str) -> ObjectMeta {
        let entry = json!({"manager": owner, "operation": "Apply", "apiVersion": "v1",
            "fieldsV1": {"f:data": {fields: {}}}});
        let meta = json!({"uid": "u", "resourceVersion": version, "managedFields": [entry]});
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn apply_is_unchanged_at_the_same_version_or_with_the_same_managed_fields() {
        let applied = AppliedObjects::default();
        assert!(!applied.is_unchanged(&key("a"), 1, &meta("7", "web", "f:x")));
        applied.remember(key("a"), 1, &meta("7", "web", "f:x"));
        let is_unchanged = |body, now: &ObjectMeta| applied.is_unchanged(&key("a"), body, now);
        let pruned = |version: &str| ObjectMeta { managed_fields: None, ..meta(version, "web", "f:x") };
        assert!(is_unchanged(1, &pruned("7")), "the same version");
        assert!(is_unchanged(1, &meta("8", "web", "f:x")), "the same managed fields");
        assert!(!is_unchanged(1, &pruned("8")));
        assert!(!is_unchanged(1, &meta("8", "web", "f:y")), "another manager took a field");
        assert!(!is_unchanged(1, &meta("8", "other", "f:x")));
        assert!(!is_unchanged(2, &pruned("7")), "another body");
        let recreated = ObjectMeta { uid: Some("v".to_owned()), ..meta("7", "web", "f:x") };
        assert!(!is_unchanged(1, &recreated));
        assert!(!applied.is_unchanged(&AppliedKey { owner: "x".to_owned(), ..key("a") }, 1, &pruned("7")));
    }

    #[test]
    fn object_without_managed_fields_is_unchanged_only_at_the_same_version() {
        let applied = AppliedObjects::default();
        let pruned = |version: &str| ObjectMeta { managed_fields: None, ..meta(version, "web", "f:x") };
        applied.remember(key("a"), 1, &pruned("7"));
        assert!(applied.is_unchanged(&key("a"), 1, &pruned("7")));
        assert!(!applied.is_unchanged(&key("a"), 1, &pruned("8")));
        let unknown = ObjectMeta { resource_version: None, ..pruned("7") };
        applied.remember(key("a"), 1, &unknown);
        assert!(!applied.is_unchanged(&key("a"), 1, &unknown));
    }

    #[test]
    fn table_of_applied_objects_is_bounded() {
        let applied = AppliedObjects::default();
        for number in 0..=MAX_REMEMBERED_APPLIES {
            applied.remember(key(&number.to_string()), 1, &meta("7", "web", "f:x"));
        }
        let table = applied.table.lock();
        assert_eq!(
            (table.applied.len(), table.order.len()),
            (MAX_REMEMBERED_APPLIES, MAX_REMEMBERED_APPLIES)
        );
        assert!(!table.applied.contains_key(&key("0")));
    }
}
