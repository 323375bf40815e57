//! Matches writes against the rules and selectors of webhooks and policies.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde::Deserialize;
use serde_json::Value;

use super::attributes::ReviewKind;
use super::write::{Invocation, Write};
use super::{AdmissionAttributes, Object, Operation};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::selectors::selector_text;
use crate::registry::Resource;

pub(super) struct Criteria {
    /// `None` matches every request.
    pub(super) rules: Option<Vec<RuleWithOperations>>,
    pub(super) excluded: Vec<RuleWithOperations>,
    /// `matchPolicy` is `Equivalent`: rules also match requests to other versions of the same resource.
    pub(super) equivalent: bool,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RuleWithOperations {
    pub(super) operations: Vec<String>,
    pub(super) api_groups: Vec<String>,
    pub(super) api_versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: Option<String>,
    /// The `resourceNames` of a policy rule; empty matches all names. Webhook rules do not have this field.
    pub(super) resource_names: Vec<String>,
}

impl Admission {
    /// Returns the version in which a webhook or policy receives a write, or `None` if it does not match.
    pub(super) fn invocation_for(
        &self,
        criteria: &Criteria,
        write: &Write<'_>,
    ) -> Result<Option<Invocation>, ApiError> {
        let namespace = self.matches_namespace(&criteria.namespaces, write);
        if matches!(namespace, Ok(false)) || !matches_object(&criteria.objects, write) {
            return Ok(None);
        }
        let left_out = !criteria.excluded.is_empty()
            && self.version_for(&criteria.excluded, criteria.equivalent, write).is_some();
        let invocation = match &criteria.rules {
            _ if left_out => None,
            Some(rules) => self.version_for(rules, criteria.equivalent, write),
            None => Some(Invocation::of_request(write.attributes)),
        };
        let Some(invocation) = invocation else { return Ok(None) };
        namespace.map(|_| Some(invocation))
    }

    pub(super) fn forbidden(&self, write: &Write<'_>, why: &str) -> ApiError {
        match self.resource(&write.attributes.gvr) {
            Ok(resource) => {
                let name = Some(write.name()).filter(|name| !name.is_empty()).unwrap_or("Unknown");
                ApiError::forbidden(&resource.kind, name, why)
            }
            Err(error) => error,
        }
    }

    fn version_for(
        &self,
        rules: &[RuleWithOperations],
        equivalent: bool,
        write: &Write<'_>,
    ) -> Option<Invocation> {
        let attributes = write.attributes;
        let own = Invocation::of_request(attributes);
        if rules.iter().any(|rule| rule_matches(rule, write, &own.gvr)) {
            return Some(own);
        }
        if !equivalent {
            return None;
        }
        let others = self.equivalents(attributes);
        // The first rule that matches another version decides which version the webhook or policy receives.
        let mut found =
            rules.iter().flat_map(|rule| others.iter().filter(|r| rule_matches(rule, write, &r.kind.gvr)));
        let found = found.next()?;
        let KindDefinition { gvr, kind, .. } = &found.kind;
        Some(match attributes.subresource.as_str() {
            "" | "status" => Invocation {
                gvr: gvr.clone(),
                kind: ReviewKind::new(&gvr.group, &gvr.version, kind),
                converted: Some(Arc::clone(found)),
            },
            // Subresources such as `scale` or `eviction` have the same kind in every version of their
            // resource.
            _ => Invocation { gvr: gvr.clone(), ..own },
        })
    }

    /// Returns the other versions of the written resource. For a CRD this includes versions that are not
    /// served.
    fn equivalents(&self, attributes: &AdmissionAttributes) -> Vec<Arc<Resource>> {
        let registry = self.registry.read();
        let Some(own) = registry.get(&attributes.gvr) else { return Vec::new() };
        let mut all = match registry.definition(&attributes.gvr.group, &attributes.gvr.resource) {
            Some(defined) => defined.versions.clone(),
            None => registry.iter().filter(|resource| resource.table == own.table).cloned().collect(),
        };
        drop(registry);
        let sub = attributes.subresource.as_str();
        all.retain(|resource| {
            let has = sub.is_empty() || resource.kind.subresources().iter().any(|known| known.name == sub);
            has && resource.kind.gvr != attributes.gvr
        });
        all
    }

    fn matches_namespace(&self, selector: &LabelSelector, write: &Write<'_>) -> Result<bool, ApiError> {
        let attributes = write.attributes;
        if selector.is_everything() || (attributes.namespace.is_empty() && !attributes.is_namespace()) {
            return Ok(true);
        }
        let new = write.object.filter(|_| {
            attributes.is_namespace()
                && attributes.subresource.is_empty()
                && write.operation != Operation::Delete
        });
        if let Some(namespace) = new {
            return Ok(selects(selector, Some(namespace)));
        }
        let namespaces = self.resource(&Gvr::new("", "v1", "namespaces"))?;
        match self.find(&namespaces, None, &attributes.namespace) {
            Ok(stored) => Ok(selects(selector, parse(stored.as_slice()).as_object())),
            Err(_) if self.require_namespaces => {
                Err(ApiError::not_found(&namespaces.kind, &attributes.namespace))
            }
            // If the server does not require namespaces to exist, the selector is matched with the labels
            // that a missing namespace would have by default.
            Err(_) => Ok(selector.matches_with(|label| {
                (label == "kubernetes.io/metadata.name").then_some(attributes.namespace.as_str())
            })),
        }
    }
}

fn matches_object(selector: &LabelSelector, write: &Write<'_>) -> bool {
    if write.operation == Operation::Connect {
        // The options of a connection have no metadata, so only an empty selector matches them.
        return selector.is_everything();
    }
    selector.is_everything()
        || [write.object, write.old].into_iter().flatten().any(|object| selects(selector, Some(object)))
}

fn selects(selector: &LabelSelector, object: Option<&Object>) -> bool {
    let labels = object.and_then(|object| object.get("metadata")?.get("labels"));
    selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
}

fn rule_matches(rule: &RuleWithOperations, write: &Write<'_>, gvr: &Gvr) -> bool {
    let any = |items: &[String], wanted: &str| items.iter().any(|item| item == "*" || item == wanted);
    let attributes = write.attributes;
    let cluster_wide = attributes.is_namespace() || attributes.namespace.is_empty();
    let scope = match rule.scope.as_deref() {
        None | Some("*") => true,
        Some("Namespaced") => !cluster_wide,
        Some("Cluster") => cluster_wide,
        Some(_) => false,
    };
    let resource = |item: &String| {
        let (resource, sub) = item.split_once('/').unwrap_or((item, ""));
        (resource == "*" || resource == gvr.resource) && (sub == "*" || sub == attributes.subresource)
    };
    scope
        && any(&rule.operations, write.operation.name())
        && any(&rule.api_groups, &gvr.group)
        && any(&rule.api_versions, &gvr.version)
        && rule.resources.iter().any(resource)
        && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| name == write.name()))
}

/// Parses a label selector. An invalid selector matches no object.
pub(super) fn selector(spec: Option<&Value>) -> LabelSelector {
    let text = spec.map(selector_text).unwrap_or_default();
    text.parse().unwrap_or_else(|_| LabelSelector::nothing())
}
