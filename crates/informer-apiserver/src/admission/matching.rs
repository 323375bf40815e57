//! Which webhooks a write is for.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde_json::Value;

use super::attributes::{ReviewKind, resource_json};
use super::conditions::Subject;
use super::hooks::{Hook, Rule};
use super::{Attributes, Object, Operation, review};
use crate::error::ApiError;
use crate::kinds::Resource;
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
    /// How a webhook is to see a write; `None` where it is not for it.
    pub(super) fn calls_for(&self, hook: &Hook, write: &Write<'_>) -> Result<Option<Seen>, ApiError> {
        let attributes = write.attributes;
        let namespace = self.matches_namespace(&hook.namespaces, write);
        if matches!(namespace, Ok(false)) || !matches_object(&hook.objects, write) {
            return Ok(None);
        }
        let Some(seen) = self.seen_by(hook, write) else { return Ok(None) };
        namespace?;
        if hook.conditions.is_empty() {
            return Ok(Some(seen));
        }
        let object = |object: Option<&Object>| {
            object.map_or(Value::Null, |object| self.converted(&seen, Value::Object(object.clone())))
        };
        let (new, old) = (object(write.object), object(write.old));
        let request = review::request(write, &seen);
        let subject = Subject { object: &new, old: &old, request: &request };
        let mut errors = Vec::new();
        for (expression, condition) in &hook.conditions {
            match condition.holds(&subject) {
                Ok(true) => {}
                // One that does not hold settles it, whatever the others come to.
                Ok(false) => return Ok(None),
                Err(why) => errors.push(format!("expression '{expression}' resulted in error: {why}")),
            }
        }
        match (errors.len(), hook.fails_open) {
            (0, _) => Ok(Some(seen)),
            (_, true) => Ok(None),
            (count, false) => {
                let why = if count == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) };
                Err(self.forbidden(attributes, &why))
            }
        }
    }

    fn forbidden(&self, attributes: &Attributes, why: &str) -> ApiError {
        match self.resource(&attributes.gvr) {
            Ok(resource) => ApiError::forbidden(&resource.kind, &attributes.name, why),
            Err(error) => error,
        }
    }

    fn seen_by(&self, hook: &Hook, write: &Write<'_>) -> Option<Seen> {
        let attributes = write.attributes;
        let matches = |gvr: &Gvr| hook.rules.iter().any(|rule| rule_matches(rule, write, gvr));
        if matches(&attributes.gvr) {
            return Some(Seen {
                gvr: attributes.gvr.clone(),
                kind: attributes.kind.clone(),
                converted: None,
            });
        }
        if !hook.equivalent {
            return None;
        }
        let registry = self.registry.read();
        let own = registry.get(&attributes.gvr)?;
        let others: Vec<_> =
            registry.iter().filter(|r| r.table == own.table && r.kind.gvr != attributes.gvr).collect();
        // The earlier rule counts.
        let rules = hook.rules.iter();
        let found = rules.flat_map(|rule| others.iter().filter(|r| rule_matches(rule, write, &r.kind.gvr)));
        let found = found.into_iter().next().map(|found| Arc::clone(found))?;
        let kind = ReviewKind::new(&found.kind.gvr.group, &found.kind.gvr.version, &found.kind.kind);
        Some(Seen { gvr: found.kind.gvr.clone(), kind, converted: Some(found) })
    }

    /// An object as a webhook wants to see it.
    pub(super) fn converted(&self, seen: &Seen, object: Value) -> Value {
        match (&seen.converted, object) {
            (Some(resource), Value::Object(mut object)) => {
                crate::kinds::reform(&resource.kind, &mut object);
                if let Some(schema) = &resource.kind.schema {
                    schema.shape(&mut object);
                }
                Value::Object(object)
            }
            (_, object) => object,
        }
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
            Err(missing) if self.require_namespaces => Err(missing),
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
