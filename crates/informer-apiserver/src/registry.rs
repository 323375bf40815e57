//! The stored objects and the served kinds: versions, history, indexes, watches, and conversion between versions.

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
use crate::model::kinds::Kind;
use crate::model::managed_fields::Type;
use crate::model::metadata::{check_path_name, wire_time};
use crate::webhook::Webhooks;
use expiry::Expiry;
use storage::{Storage, Stored, WireBytes, Wiring};

/// How long a read waits for a version that the server has not reached, as in kube-apiserver.
pub(crate) const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// The objects, the kinds and the clock of a server.
///
/// # Lock order
///
/// `registry` before `storage`; neither is held while code of the layers above runs, nor across an await. Watchers lock `storage`
/// for reading, and only to copy references.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) storage: RwLock<Storage>,
    pub(crate) registry: RwLock<Registry>,
    /// The version of the last commit, for reads that wait for one.
    pub(crate) version: watch::Sender<u64>,
    /// How webhooks of admission and conversion are called.
    pub(crate) webhooks: Webhooks,
    /// The fields of the built-in kinds.
    pub(crate) schema: informer_schema::Schema,
    /// The size of cached protobuf encodings.
    pub(crate) wires: WireBytes,
    pub(crate) expiry: Expiry,
    /// Rejects objects in namespaces that do not exist.
    pub(crate) require_namespaces: bool,
    pub(crate) controllers: Controllers,
}

/// Which of the cluster's own controllers are played by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Empties namespaces that are deleted, and lets them go. Without it they stay `Terminating`, as beside a real
    /// kube-apiserver without kube-controller-manager.
    pub namespaces: bool,
    /// Deletes what deleted owners leave behind, and does what `propagationPolicy` asks for.
    pub garbage: bool,
    /// Gives ClusterRoles with an `aggregationRule` the rules of the roles that they select.
    pub roles: bool,
    /// Keeps the status of quotas: how much is in use. Without it a quota bounds nothing until somebody writes its status, and what
    /// is deleted is never taken out of that.
    pub quotas: bool,
}

impl Controllers {
    /// None of them, as in envtest.
    pub const NONE: Self = Self { namespaces: false, garbage: false, roles: false, quotas: false };
}

impl Default for Controllers {
    /// All of them.
    fn default() -> Self {
        Self { namespaces: true, garbage: true, roles: true, quotas: true }
    }
}

impl Store {
    /// What objects need to be written as protobuf.
    pub(crate) fn wiring(&self) -> Wiring<'_> {
        Wiring { schema: &self.schema, kept: &self.wires }
    }

    pub(crate) fn resource(&self, gvr: &Gvr) -> Result<Arc<Resource>, ApiError> {
        self.registry.read().get(gvr).ok_or_else(ApiError::unknown_resource)
    }

    /// Notifies watchers and waiting reads of a commit.
    pub(crate) fn announce(&self, resource: &Resource) {
        resource.changed.send_replace(());
        self.announce_version();
    }

    pub(crate) fn announce_version(&self) {
        // Sent under the lock, so that the version of the later of two commits is sent last.
        let storage = self.storage.read();
        self.version.send_replace(storage.version());
    }

    /// Notifies all watchers and waiting reads.
    pub(crate) fn announce_everything(&self) {
        self.announce_version();
        self.announce_all();
    }

    /// Ends all watches; clients resume them.
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

    /// Refuses a version that the server has not reached.
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

    /// Waits until the server has reached a version, for at most [`FRESHNESS_WAIT`].
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

    /// Returns an object that exists.
    pub(crate) fn find(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        check_path_name(name)?;
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        let found = self.storage.read().get(resource.table, &key).cloned();
        found.ok_or_else(|| ApiError::not_found(&resource.kind, name))
    }

    /// The wall clock as the API writes it.
    pub(crate) fn now(&self) -> String {
        wire_time(self.clock.timestamp())
    }

    /// The table's type of a built-in kind.
    pub(crate) fn message(&self, kind: &Kind) -> Option<informer_schema::Message<'_>> {
        let known = self.schema.kind_by_api_version(&kind.api_version, &kind.kind);
        known.filter(|_| !kind.is_custom()).map(informer_schema::Kind::message)
    }

    pub(crate) fn field_type<'a>(&'a self, kind: &'a Kind) -> Type<'a> {
        static ANYTHING: Value = Value::Null;
        match (self.message(kind), &kind.schema) {
            (Some(message), _) => Type::message(message),
            (None, Some(schema)) => Type::custom(schema.root(), &self.schema),
            (None, None) => Type::custom(&ANYTHING, &self.schema),
        }
    }
}
