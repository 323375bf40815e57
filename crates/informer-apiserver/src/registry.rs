//! The state of a server: objects with their resourceVersions, history, indexes and watches, and the served
//! kinds with their conversions.

pub(crate) mod conversion;
pub(crate) mod expiry;
mod resources;
pub(crate) mod select;
pub(crate) mod storage;

use std::sync::Arc;
use std::time::Duration;

use informer_core::Gvr;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) use resources::{Defined, GroupKnown, Registry, Resource};

use crate::clock::Clock;
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::managed_fields::Type;
use crate::model::metadata::{check_path_name, wire_time};
use crate::webhook::Webhooks;
use expiry::Expiry;
use storage::{Storage, Stored, WireBytes, Wiring};

/// Timeout of a read that waits for a resourceVersion the server has not reached, as in kube-apiserver.
pub(crate) const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The objects, the served kinds and the clock of a server.
///
/// # Lock order
///
/// `registry` is locked before `storage`. Neither lock is held across an await, or while code outside of this
/// module runs. Watchers only take a read lock on `storage`, to copy references.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) storage: RwLock<Storage>,
    pub(crate) registry: RwLock<Registry>,
    /// The resourceVersion of the last commit. Reads that need a later one wait for its change.
    pub(crate) version: watch::Sender<u64>,
    pub(crate) webhooks: Webhooks,
    pub(crate) schema: Arc<informer_schema::Schema>,
    /// Total size in bytes of the cached protobuf encodings.
    pub(crate) wires: WireBytes,
    pub(crate) expiry: Expiry,
    pub(crate) require_namespaces: bool,
    pub(crate) controllers: Controllers,
}

/// Selects the controllers of kube-controller-manager that the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Deletes the contents of terminating namespaces and then removes them. Without this controller they
    /// stay `Terminating`, as with a real kube-apiserver without kube-controller-manager.
    pub namespaces: bool,
    /// Runs the garbage collector, which deletes the dependents of deleted owners and implements
    /// `propagationPolicy`.
    pub garbage: bool,
    /// Aggregates ClusterRoles: sets the rules of ClusterRoles with an `aggregationRule`.
    pub roles: bool,
    /// Maintains the status of ResourceQuotas. Without this controller, a quota has no effect until a client
    /// writes its status, and deletions do not decrease the usage.
    pub quotas: bool,
}

impl Controllers {
    /// Runs no controllers, as in envtest.
    pub const NONE: Self = Self { namespaces: false, garbage: false, roles: false, quotas: false };
}

impl Default for Controllers {
    /// All controllers.
    fn default() -> Self {
        Self { namespaces: true, garbage: true, roles: true, quotas: true }
    }
}

impl Store {
    pub(crate) fn wiring(&self) -> Wiring<'_> {
        Wiring { schema: &self.schema, kept: &self.wires }
    }

    pub(crate) fn resource(&self, gvr: &Gvr) -> Result<Arc<Resource>, ApiError> {
        self.registry.read().get(gvr).ok_or_else(ApiError::unknown_resource)
    }

    /// Notifies the watchers of a resource, and all waiting reads, of a commit.
    pub(crate) fn announce(&self, resource: &Resource) {
        resource.changed.send_replace(());
        self.announce_version();
    }

    pub(crate) fn announce_version(&self) {
        // The version is sent under the storage lock, so that concurrent commits send their versions in
        // ascending order.
        let storage = self.storage.read();
        self.version.send_replace(storage.version());
    }

    pub(crate) fn announce_everything(&self) {
        self.announce_version();
        self.announce_all();
    }

    /// Ends all watches, which clients then resume with new requests.
    pub(crate) fn end_watches(&self) {
        let mut storage = self.storage.write();
        (0..storage.tables()).for_each(|table| storage.disconnect(table));
        drop(storage);
        self.announce_all();
    }

    pub(crate) fn announce_all(&self) {
        for resource in self.registry.read().iter() {
            resource.changed.send_replace(());
        }
    }

    /// Discards the event history.
    pub(crate) fn compact(&self) {
        let mut storage = self.storage.write();
        let version = storage.version();
        storage.compact(version);
    }

    /// Moves the clock forward.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.expire();
    }

    /// Returns an error if the server has not reached the resourceVersion `wanted`.
    pub(crate) fn has_reached(&self, wanted: u64) -> Result<(), ApiError> {
        let current = self.storage.read().version();
        if current >= wanted {
            return Ok(());
        }
        let mut error = ApiError::too_large(wanted, current);
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = 0;
        }
        Err(error)
    }

    /// Waits until the server has reached the resourceVersion `wanted`, for at most [`FRESHNESS_WAIT`].
    pub(crate) async fn reach(&self, wanted: u64) -> Result<(), ApiError> {
        if self.storage.read().version() >= wanted {
            return Ok(());
        }
        let mut version = self.version.subscribe();
        let deadline = self.clock.elapsed() + FRESHNESS_WAIT;
        tokio::select! {
            reached = version.wait_for(|version| *version >= wanted) => {
                if reached.is_ok() {
                    return Ok(());
                }
            }
            () = self.clock.sleep_until(deadline) => {}
        }
        Err(ApiError::too_large(wanted, self.storage.read().version()))
    }

    /// Returns the stored object, or a 404 error.
    pub(crate) fn find(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        let found = self.find_if_exists(resource, namespace, name)?;
        found.ok_or_else(|| ApiError::not_found(&resource.kind, name))
    }

    /// Returns the stored object, if it exists. An invalid name is an error.
    pub(crate) fn find_if_exists(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<Stored>>, ApiError> {
        check_path_name(name)?;
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Ok(self.storage.read().get(resource.table, &key).cloned())
    }

    pub(crate) fn now(&self) -> String {
        wire_time(self.clock.timestamp())
    }

    pub(crate) fn message(&self, kind: &KindDefinition) -> Option<informer_schema::Message<'_>> {
        let known = self.schema.kind_by_api_version(&kind.api_version, &kind.kind);
        known.filter(|_| !kind.is_custom()).map(informer_schema::KindSchema::message)
    }

    pub(crate) fn field_type<'a>(&'a self, kind: &'a KindDefinition) -> Type<'a> {
        static ANYTHING: Value = Value::Null;
        match (self.message(kind), &kind.schema) {
            (Some(message), _) => Type::message(message),
            (None, Some(schema)) => Type::custom(schema.root(), &self.schema),
            (None, None) => Type::custom(&ANYTHING, &self.schema),
        }
    }
}
