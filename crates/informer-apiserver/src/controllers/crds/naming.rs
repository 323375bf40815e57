//! Name conflicts of CRDs within an API group.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::controllers::ControllerManager;
use crate::controllers::crds::{CrdStep, definitions};
use crate::model::crd::names::{self, ConditionState, UsedNames};
use crate::model::json::parse;
use crate::registry::Resource;
use crate::registry::storage::Stored;

const INSTALLING: ConditionState<'_> =
    ConditionState { status: "False", reason: "Installing", message: "the initial names have been accepted" };
const NOT_ACCEPTED: ConditionState<'_> =
    ConditionState { status: "False", reason: "NotAccepted", message: "not all names are accepted" };

/// Cache of the names of CRDs. Reading them from the stored CRDs is slow, because CRDs are large and each
/// request for names reads all CRDs of the API group.
#[derive(Debug, Default)]
pub(crate) struct NameCache(HashMap<String, CachedNames>);

#[derive(Debug)]
struct CachedNames {
    source: Arc<Stored>,
    wanted: Value,
    accepted: Value,
}

impl NameCache {
    fn names_of(&mut self, stored: &Arc<Stored>) -> &CachedNames {
        let read = || {
            let definition = parse(stored.as_slice());
            let (wanted, accepted) = (&definition["spec"]["names"], &definition["status"]["acceptedNames"]);
            CachedNames { source: Arc::clone(stored), wanted: wanted.clone(), accepted: accepted.clone() }
        };
        let named = self.0.entry(stored.key.name().to_owned()).or_insert_with(read);
        if !Arc::ptr_eq(&named.source, stored) {
            *named = read();
        }
        named
    }
}

impl ControllerManager {
    /// Reconciles a CRD, and then all CRDs that wait for names which this one has released.
    pub(crate) fn sync_definition(&self, name: &str) {
        if self.reconcile_definition(name) {
            self.waiting_for_names(name).iter().for_each(|waiting| self.queue_definition(waiting));
        }
    }

    /// Queues all CRDs that wait for a name which a removed CRD had.
    pub(crate) fn release_names(&self, removed: &str) {
        self.waiting_for_names(removed).iter().for_each(|waiting| self.queue_definition(waiting));
    }

    /// Returns the other CRDs of the same API group whose names are not accepted, ordered by name.
    fn waiting_for_names(&self, name: &str) -> Vec<String> {
        let mut waiting = Vec::new();
        self.each_in_group(name, &mut self.crd_names.lock(), |other, named| {
            if other != name && !names::has_all(&named.wanted, &named.accepted) {
                waiting.push(other.to_owned());
            }
        });
        waiting
    }

    fn each_in_group(&self, name: &str, cache: &mut NameCache, mut look: impl FnMut(&str, &CachedNames)) {
        let Ok(resource) = self.resource(&definitions()) else { return };
        let live = self.storage.read().live(resource.table);
        cache.0.retain(|known, _| live.get(known).is_some());
        for stored in live.iter().filter(|stored| group(stored.key.name()) == group(name)) {
            look(stored.key.name(), cache.names_of(stored));
        }
    }

    /// Accepts those requested names of a CRD that no other CRD of its group has, and sets the condition
    /// `NamesAccepted`.
    pub(crate) fn accept_names(
        &self,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
        definition: &Value,
    ) -> CrdStep {
        let (wanted, accepted) = (&definition["spec"]["names"], &definition["status"]["acceptedNames"]);
        if names::has_all(wanted, accepted) {
            return CrdStep::Nothing;
        }
        // Held from the check of the other CRDs' names until the write, so that no two CRDs get the same
        // name.
        let mut cache = self.crd_names.lock();
        let mut used = UsedNames::default();
        self.each_in_group(stored.key.name(), &mut cache, |_, named| used.add(&named.accepted));
        let decision = names::decide(wanted, accepted, &used);
        let mut named = definition.clone();
        named["status"]["acceptedNames"] = decision.accepted;
        let now = self.now();
        let condition = match &decision.conflict {
            Some((reason, message)) => ConditionState { status: "False", reason, message },
            None => ConditionState { status: "True", reason: "NoConflicts", message: "no conflicts found" },
        };
        names::set_condition(&mut named, "NamesAccepted", condition, &now);
        if decision.conflict.is_none() && !names::is_true(definition, "Established") {
            names::set_condition(&mut named, "Established", INSTALLING, &now);
        } else if names::condition(definition, "Established").is_none() {
            names::set_condition(&mut named, "Established", NOT_ACCEPTED, &now);
        }
        if named == *definition { CrdStep::Nothing } else { self.write_definition(resource, stored, named) }
    }
}

/// Returns the API group in the name of a CRD, which is `PLURAL.GROUP`.
fn group(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}
