//! ClusterRole aggregation: a ClusterRole with an `aggregationRule` gets the rules of all ClusterRoles that
//! its selectors match.

use informer_core::{Gvr, LabelSelector};
use serde_json::{Value, json};

use crate::admission::Scope;
use crate::controllers::ControllerManager;
use crate::model::json::parse;
use crate::model::selectors::selector_text;
use crate::model::write_options::WriteMode;
use crate::pipeline::ready::ready;
use crate::pipeline::{AGGREGATION_MANAGER, Application};

/// Maximum number of aggregation passes after one write. More than one is needed if an aggregated role
/// selects other aggregated roles.
const MAX_ROUNDS: usize = 32;

impl ControllerManager {
    pub(crate) fn sync_roles(&self) {
        for _ in 0..MAX_ROUNDS {
            if !self.aggregate_once() {
                return;
            }
        }
    }

    /// Updates each aggregated ClusterRole once. Returns true if a role has changed.
    fn aggregate_once(&self) -> bool {
        let gvr = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
        let Ok(resource) = self.resource(&gvr) else { return false };
        let live = self.storage.read().live(resource.table);
        let roles: Vec<Value> = live.iter().map(|stored| parse(stored.as_slice())).collect();
        let scope = Scope { manager: Some(AGGREGATION_MANAGER), ..Scope::new(&resource, None) };
        let mut changed = false;
        for role in roles.iter().filter(|role| role["aggregationRule"].is_object()) {
            let name = role["metadata"]["name"].as_str().unwrap_or_default();
            let rules = rules_of(role, &roles);
            if role["rules"].as_array().is_some_and(|held| *held == rules)
                || rules.is_empty() && role["rules"].is_null()
            {
                continue;
            }
            let mut config = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            });
            if !rules.is_empty() {
                config["rules"] = rules.into();
            }
            let Value::Object(config) = config else { continue };
            let apply = Application { config, force: true, duplicates: None };
            // An error is ignored: another write deleted or changed the role and has queued the aggregation
            // again.
            changed |= ready(self.apply(scope, name, &apply, WriteMode::Main)).is_ok();
        }
        changed
    }
}

/// Returns the rules of all ClusterRoles that an aggregation rule selects, without duplicates, in the order
/// of the selectors and then of the role names.
fn rules_of(role: &Value, roles: &[Value]) -> Vec<Value> {
    let mut rules = Vec::new();
    for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let selector: LabelSelector =
            selector_text(selector).parse().unwrap_or_else(|_| LabelSelector::nothing());
        let selected = roles.iter().filter(|other| {
            other["metadata"]["name"] != role["metadata"]["name"]
                && selector.matches_with(|label| other["metadata"]["labels"][label].as_str())
        });
        for rule in selected.flat_map(|other| other["rules"].as_array().into_iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}
