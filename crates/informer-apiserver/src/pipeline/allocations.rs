//! Allocation of cluster IPs and node ports for Services. They are reserved before a Service is admitted,
//! until the Service is stored.

use std::collections::HashMap;

use informer_core::Gvr;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::admission::Scope;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::core::service::allocation::{UsedAddresses, allocate_service};
use crate::model::object_meta;
use crate::model::write_options::WriteMode;
use crate::pipeline::Pipeline;

#[derive(Debug, Default)]
pub(crate) struct Allocations(Mutex<InFlight>);

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    last_id: u64,
    services: HashMap<u64, Value>,
}

impl Allocations {
    /// Locks the reservations, so that no cluster IP or node port is allocated until the guard is dropped.
    /// Locked before `registry` and `storage`.
    pub(crate) fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock()
    }
}

/// Reserves the cluster IP and the node ports of a Service. Dropping it ends the reservation.
pub(crate) struct Allocation<'a> {
    allocations: &'a Allocations,
    id: u64,
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        self.allocations.lock().services.remove(&self.id);
    }
}

impl Pipeline {
    pub(crate) fn allocate(
        &self,
        scope: Scope<'_>,
        object: &mut Object,
        old: Option<&Object>,
        mode: WriteMode,
    ) -> Result<Option<Allocation<'_>>, ApiError> {
        let kind = scope.kind();
        if !kind.is("", "Service") {
            return Ok(None);
        }
        let mut in_flight = self.allocations.lock();
        allocate_service(&self.taken(&in_flight), object, old, mode, scope.dry_run)
            .map_err(|causes| ApiError::invalid_fields(kind, object_meta::text(object, "name"), causes))?;
        in_flight.last_id += 1;
        let id = in_flight.last_id;
        in_flight.services.insert(id, Value::Object(object.clone()));
        Ok(Some(Allocation { allocations: &self.allocations, id }))
    }

    /// Returns the cluster IPs and node ports of all stored Services and of Services that are being written.
    pub(crate) fn taken(&self, in_flight: &InFlight) -> UsedAddresses {
        let mut taken = UsedAddresses::default();
        in_flight.services.values().for_each(|service| taken.note(service));
        if let Ok(services) = self.resource(&Gvr::new("", "v1", "services")) {
            let live = self.storage.read().live(services.table);
            live.iter().for_each(|stored| taken.note(&parse(stored.as_slice())));
        }
        taken
    }
}
