use std::sync::Arc;

use http::Method;
use informer_core::Gvr;

use crate::model::error::ApiError;
use crate::model::kinds::Traits;
use crate::model::query::{decoded_path, segments};
use crate::registry::{GroupKnown, Registry, Resource};
use crate::requests::Verb;

#[derive(Debug)]
pub(crate) enum Route {
    Other(Vec<String>),
    Resource(ResourceRoute),
}

#[derive(Debug)]
pub(crate) struct ResourceRoute {
    pub(crate) resource: Arc<Resource>,
    pub(crate) verb: Verb,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The segments of the path below the subresource `proxy`.
    pub(crate) proxied: Vec<String>,
    /// True if the path has the legacy prefix `/api/v1/watch/`.
    pub(crate) legacy_watch: bool,
}

/// The subresource whose path continues with that of the proxied request.
const PROXY: &str = "proxy";

struct Parts {
    namespace: Option<String>,
    resource: String,
    name: Option<String>,
    subresource: Option<String>,
    proxied: Vec<String>,
}

/// Routes a request by its method and path. `watch` is the query parameter of that name.
pub(crate) fn route(
    registry: &Registry,
    method: &Method,
    path: &str,
    watch: bool,
) -> Result<Route, ApiError> {
    let segments = segments(path);
    let path = &*decoded_path(path);
    // kube-apiserver selects a handler by the prefix of the path, so the path cannot begin with two slashes.
    if path.starts_with("//") {
        return Err(ApiError::unknown_path());
    }
    let (group, version, rest) = match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest.len()),
        ["apis", "", ..] => return Err(ApiError::unknown_path()),
        ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest.len()),
        [first, ref rest @ ..] if path.ends_with("//") && !trims_slashes(first, rest) => {
            return Err(ApiError::unknown_path());
        }
        _ => return Ok(Route::Other(segments)),
    };
    let rest = &segments[segments.len() - rest..];
    let known = registry.group(group);
    let unknown = || match known {
        GroupKnown::BuiltIn => ApiError::unknown_resource(),
        GroupKnown::No | GroupKnown::Custom => ApiError::unknown_path(),
    };
    let (legacy_watch, rest) = match rest {
        [first, rest @ ..] if first == "watch" && !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    if legacy_watch && *method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let parts = split(rest).ok_or_else(unknown)?;
    let resource = registry.get(&Gvr::new(group, version, &*parts.resource)).ok_or_else(unknown)?;
    // kube-apiserver serves custom resources with a separate handler, which treats an empty namespace as
    // absent.
    let unscoped = resource.kind.is_custom() && parts.namespace.as_deref() == Some("");
    let parts = Parts { namespace: parts.namespace.filter(|_| !unscoped), ..parts };
    let namespaced = parts.namespace.is_some();
    if (namespaced && !resource.kind.namespaced)
        || (!namespaced && resource.kind.namespaced && parts.name.is_some())
    {
        return Err(unknown());
    }
    // With the legacy prefix `/watch/`, a path with an object name watches the collection and selects this
    // object.
    let item = parts.name.is_some() && !legacy_watch;
    // kube-apiserver supports HEAD for custom resources only.
    let method = if *method == Method::HEAD && resource.kind.is_custom() { &Method::GET } else { method };
    let method = match *method {
        // A proxied request may have any method.
        Method::HEAD | Method::OPTIONS if parts.subresource.as_deref() == Some(PROXY) => &Method::GET,
        _ => method,
    };
    let verb = verb(method, item, watch || legacy_watch, parts.subresource.is_some())?;
    check(&resource, verb, &parts)?;
    check_segments(&parts)?;
    let Parts { namespace, name, subresource, proxied, .. } = parts;
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    Ok(Route::Resource(ResourceRoute { resource, verb, namespace, name, subresource, proxied, legacy_watch }))
}

/// Returns true if kube-apiserver ignores repeated slashes at the end of this path, which is not that of a
/// resource. This depends on its handler.
fn trims_slashes(first: &str, rest: &[&str]) -> bool {
    matches!(first, "api" | "version") || (first == "apis" && !rest.is_empty())
}

/// Rejects an object without a name, or without a namespace between two slashes. A collection may have an
/// empty namespace, which means all namespaces.
fn check_segments(parts: &Parts) -> Result<(), ApiError> {
    match (parts.namespace.as_deref(), parts.name.as_deref()) {
        (_, Some("")) => Err(ApiError::bad_request("name must be provided")),
        (Some(""), Some(_)) => Err(ApiError::bad_request("Namespace parameter required.")),
        _ => Ok(()),
    }
}

fn split(rest: &[String]) -> Option<Parts> {
    let parts_of_path: Vec<&str> = rest.iter().map(String::as_str).collect();
    let parts = |namespace: Option<&str>, resource: &str, name: Option<&str>, sub: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Parts {
            namespace: owned(namespace),
            resource: resource.to_owned(),
            name: owned(name),
            subresource: owned(sub),
            proxied: Vec::new(),
        })
    };
    let proxy = |parts: Option<Parts>, path: &[&str]| {
        let proxied = path.iter().map(|&segment| segment.to_owned()).collect();
        parts.map(|parts| Parts { proxied, ..parts })
    };
    match parts_of_path[..] {
        ["namespaces"] => parts(None, "namespaces", None, None),
        ["namespaces", name] => parts(None, "namespaces", Some(name), None),
        ["namespaces", name, sub @ ("status" | "finalize")] => {
            parts(None, "namespaces", Some(name), Some(sub))
        }
        ["namespaces", namespace, resource] => parts(Some(namespace), resource, None, None),
        ["namespaces", namespace, resource, name] => parts(Some(namespace), resource, Some(name), None),
        ["namespaces", namespace, resource, name, sub] => {
            parts(Some(namespace), resource, Some(name), Some(sub))
        }
        ["namespaces", namespace, resource, name, sub @ PROXY, ref path @ ..] => {
            proxy(parts(Some(namespace), resource, Some(name), Some(sub)), path)
        }
        [resource] => parts(None, resource, None, None),
        [resource, name] => parts(None, resource, Some(name), None),
        [resource, name, sub] => parts(None, resource, Some(name), Some(sub)),
        [resource, name, sub @ PROXY, ref path @ ..] => {
            proxy(parts(None, resource, Some(name), Some(sub)), path)
        }
        _ => None,
    }
}

fn verb(method: &Method, item: bool, watch: bool, sub: bool) -> Result<Verb, ApiError> {
    match (method.as_str(), item) {
        ("GET", false) if watch => Ok(Verb::Watch),
        ("GET", true) => Ok(Verb::Get),
        ("GET", false) => Ok(Verb::List),
        ("POST", false) => Ok(Verb::Create),
        ("POST", true) if sub => Ok(Verb::Create),
        ("PUT", true) => Ok(Verb::Update),
        ("PATCH", true) => Ok(Verb::Patch),
        ("DELETE", true) => Ok(Verb::Delete),
        ("DELETE", false) => Ok(Verb::DeleteCollection),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Rejects a verb or subresource that the resource does not have, and a write of a namespaced object without
/// a namespace.
fn check(resource: &Resource, verb: Verb, parts: &Parts) -> Result<(), ApiError> {
    let kind = &resource.kind;
    if let Some(sub) = parts.subresource.as_deref() {
        let served = kind.subresources().into_iter().find(|served| served.name == sub);
        return match served {
            Some(served) if served.verbs.contains(&verb.name()) => Ok(()),
            Some(_) => Err(ApiError::method_not_allowed()),
            None if kind.is_custom() => {
                Err(ApiError::not_found(kind, parts.name.as_deref().unwrap_or_default()))
            }
            None => Err(ApiError::unknown_resource()),
        };
    }
    if kind.traits.has(Traits::REVIEW) && parts.name.is_some() {
        return Err(ApiError::unknown_resource());
    }
    let everywhere = kind.namespaced && parts.namespace.is_none();
    match verb {
        Verb::Create | Verb::DeleteCollection if everywhere => Err(ApiError::method_not_allowed()),
        verb if kind.verbs().contains(&verb.name()) => Ok(()),
        _ => Err(ApiError::method_not_allowed()),
    }
}
