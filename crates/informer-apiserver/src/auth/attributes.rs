//! Request attributes for authorization. They are derived from the path only and do not depend on whether the
//! server has the resource.

use http::Method;
use informer_core::{FieldOperator, FieldSelector};
use serde_json::Value;

use crate::model::error::{ApiError, Details};
use crate::model::query::{Query, segments};
use crate::model::user::User;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationAttributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    /// The plural resource, with the subresource if there is one (`pods/status`). Empty for non-resource
    /// paths.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: String,
}

impl AuthorizationAttributes {
    pub(crate) fn of_request(method: &Method, path: &str, query: &Query) -> Self {
        let segments = segments(path);
        let texts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, rest) = match texts[..] {
            ["api", _, ref rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, ref rest @ ..] if !rest.is_empty() => (group, rest),
            _ => {
                let verb = method.as_str().to_lowercase();
                return Self { verb, path: path.to_owned(), ..Self::default() };
            }
        };
        // All requests below the deprecated path prefix `watch` are watches.
        let (legacy, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // A request to a Namespace object is authorized in the namespace of that name.
            ["namespaces", name] | ["namespaces", name, "status" | "finalize"] => (*name, rest),
            ["namespaces", name, rest @ ..] if !rest.is_empty() => (*name, rest),
            rest => ("", rest),
        };
        let (resource, name, sub) = match rest {
            [resource, name, sub, ..] => (*resource, *name, Some(*sub)),
            [resource, name] => (*resource, *name, None),
            [resource] => (*resource, "", None),
            [] => ("", "", None),
        };
        let collection = name.is_empty();
        let reads = matches!(method.as_str(), "GET" | "HEAD");
        let name = match name {
            // A list or watch with a field selector on `metadata.name` is authorized for that object name.
            "" if reads => one_name(query.text("fieldSelector")).unwrap_or_default(),
            name => name.to_owned(),
        };
        let verb = match (method.as_str(), collection) {
            _ if legacy => "watch",
            ("GET" | "HEAD", true) if query.flag("watch").unwrap_or_default() => "watch",
            ("GET" | "HEAD", true) => "list",
            ("GET" | "HEAD", false) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            (_, _) => "",
        };
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: sub.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}")),
            namespace: namespace.to_owned(),
            name,
            path: path.to_owned(),
        }
    }

    /// Returns `None` unless exactly one of `resourceAttributes` and `nonResourceAttributes` is given.
    pub(super) fn of_review(spec: &Value) -> Option<Self> {
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        match (resource.is_object(), path.is_object()) {
            (true, false) => {
                let sub = text(resource, "subresource");
                let name = text(resource, "resource");
                Some(Self {
                    verb: text(resource, "verb"),
                    group: text(resource, "group"),
                    resource: if sub.is_empty() { name } else { format!("{name}/{sub}") },
                    namespace: text(resource, "namespace"),
                    name: text(resource, "name"),
                    path: String::new(),
                })
            }
            (false, true) => {
                Some(Self { verb: text(path, "verb"), path: text(path, "path"), ..Self::default() })
            }
            _ => None,
        }
    }

    pub(super) fn refusal(&self, user: &User, why: &str) -> ApiError {
        let Self { verb, group, resource, namespace, name, path } = self;
        let user = &user.name;
        let mut error = if resource.is_empty() {
            ApiError::new(403, "Forbidden", format!("forbidden: User {user:?} cannot {verb} path {path:?}"))
        } else {
            let kind = resource.split('/').next().unwrap_or_default();
            let dot = if group.is_empty() { "" } else { "." };
            let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            let place = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            ApiError::new(
                403,
                "Forbidden",
                format!(
                    "{kind}{dot}{group}{named} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API \
                     group {group:?} {place}"
                ),
            )
        };
        if !why.is_empty() {
            error.message = format!("{}: {why}", error.message);
        }
        error.unauthorized = true;
        error.details = Some(Box::new(Details {
            name: name.clone(),
            group: group.clone(),
            kind: resource.split('/').next().unwrap_or_default().to_owned(),
            ..Details::default()
        }));
        error
    }
}

/// Returns the value that a field selector requires for `metadata.name`, if any.
fn one_name(selector: &str) -> Option<String> {
    let selector: FieldSelector = selector.parse().ok()?;
    let wanted = selector.requirements().iter().find(|requirement| {
        requirement.field() == "metadata.name" && requirement.operator() == FieldOperator::Equals
    });
    wanted.map(|requirement| requirement.value().to_owned())
}

#[cfg(test)]
mod tests;
