//! Which webhooks a write is for.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde_json::Value;

use super::attributes::{ReviewKind, resource_json};
use super::conditions::Subject;
use super::hooks::{Hook, Rule};
use super::{Attributes, Object, Operation, review};
use crate::error::ApiError;
use crate::kinds::{Kind, Resource};
use crate::server::{Shared, parse};

/// A write, as it is matched against webhooks.
pub(super) struct Write<'a> {
    pub(super) attributes: &'a Attributes,
    pub(super) operation: Operation,
    pub(super) object: Option<&'a Object>,
    pub(super) old: Option<&'a Object>,
}

/// The version of the resource that a webhook wants to see.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) gvr: Gvr,
    pub(super) kind: ReviewKind,
    /// Objects are converted to it.
    pub(super) converted: Option<Arc<Resource>>,
}

impl Shared {
    /// How a webhook is to see a write; `None` where its selectors or rules are for others.
    pub(super) fn seen_by(&self, hook: &Hook, write: &Write<'_>) -> Result<Option<Seen>, ApiError> {
        let namespace = self.matches_namespace(&hook.namespaces, write);
        if matches!(namespace, Ok(false)) || !matches_object(&hook.objects, write) {
            return Ok(None);
        }
        let Some(seen) = self.version_for(hook, write) else { return Ok(None) };
        namespace.map(|_| Some(seen))
    }

    /// Whether a webhook's conditions hold for a write whose objects are as it sees them.
    pub(super) fn conditions_hold(
        &self,
        hook: &Hook,
        write: &Write<'_>,
        seen: &Seen,
    ) -> Result<bool, ApiError> {
        let object = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let (new, old) = (object(write.object), object(write.old));
        let request = review::request(write, seen);
        let subject = Subject { object: &new, old: &old, request: &request };
        let mut errors = Vec::new();
        for (expression, condition) in &hook.conditions {
            match condition.holds(&subject) {
                Ok(true) => {}
                // One that does not hold settles it, whatever the others come to.
                Ok(false) => return Ok(false),
                Err(why) => errors.push(format!("expression '{expression}' resulted in error: {why}")),
            }
        }
        match (errors.len(), hook.fails_open) {
            (0, _) => Ok(true),
            (_, true) => Ok(false),
            (count, false) => {
                let why = if count == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) };
                Err(self.forbidden(write.attributes, &why))
            }
        }
    }

    fn forbidden(&self, attributes: &Attributes, why: &str) -> ApiError {
        match self.resource(&attributes.gvr) {
            Ok(resource) => ApiError::forbidden(&resource.kind, &attributes.name, why),
            Err(error) => error,
        }
    }

    fn version_for(&self, hook: &Hook, write: &Write<'_>) -> Option<Seen> {
        let attributes = write.attributes;
        let own = Seen { gvr: attributes.gvr.clone(), kind: attributes.kind.clone(), converted: None };
        if hook.rules.iter().any(|rule| rule_matches(rule, write, &own.gvr)) {
            return Some(own);
        }
        if !hook.equivalent {
            return None;
        }
        let others = self.equivalents(attributes);
        // The earlier rule counts.
        let rules = hook.rules.iter();
        let mut found =
            rules.flat_map(|rule| others.iter().filter(|r| rule_matches(rule, write, &r.kind.gvr)));
        let found = found.next()?;
        let Kind { gvr, kind, .. } = &found.kind;
        Some(match attributes.subresource.as_str() {
            "" | "status" => Seen {
                gvr: gvr.clone(),
                kind: ReviewKind::new(&gvr.group, &gvr.version, kind),
                converted: Some(Arc::clone(found)),
            },
            // The others have a kind of their own, which is the same in every version.
            _ => Seen { gvr: gvr.clone(), ..own },
        })
    }

    /// The other versions in which the same is there: of a definition also those that are not served.
    fn equivalents(&self, attributes: &Attributes) -> Vec<Arc<Resource>> {
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
            // A server that does not insist on namespaces takes them as they would be made.
            Err(_) => Ok(selector.matches_with(|label| {
                (label == "kubernetes.io/metadata.name").then_some(attributes.namespace.as_str())
            })),
        }
    }
}

fn matches_object(selector: &LabelSelector, write: &Write<'_>) -> bool {
    selector.is_everything()
        || [write.object, write.old].into_iter().flatten().any(|object| selects(selector, Some(object)))
}

fn selects(selector: &LabelSelector, object: Option<&Object>) -> bool {
    let labels = object.and_then(|object| object.get("metadata")?.get("labels"));
    selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
}

fn rule_matches(rule: &Rule, write: &Write<'_>, gvr: &Gvr) -> bool {
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
}

/// The resource of a review.
pub(super) fn seen_json(seen: &Seen) -> (Value, Value) {
    (seen.kind.json(), resource_json(&seen.gvr))
}
