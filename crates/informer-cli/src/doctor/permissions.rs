//! Checks the permissions that a controller needs, with SelfSubjectAccessReviews.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::Scope;
use super::api::{Api, ApiFailure};
use super::findings::Findings;
use super::manifests::Manifests;

const CHECK: &str = "permissions";

/// The maximum number of SelfSubjectAccessReviews. Rules with many resources and verbs need one review for
/// each combination.
const MAX_REVIEWS: usize = 1_000;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A permission that `informer doctor` checks with one SelfSubjectAccessReview.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct AccessCheck {
    verb: String,
    group: String,
    /// The resource with its subresource, such as `pods/status`; empty for a non-resource URL.
    resource: String,
    /// The namespace; empty for all namespaces and for cluster-scoped resources.
    namespace: String,
    name: String,
    /// The non-resource URL, such as `/metrics`; empty for a permission on a resource.
    path: String,
}

impl fmt::Display for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            return write!(f, "{} {}", self.verb, self.path);
        }
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {}", self.namespace) }
    }
}

impl AccessCheck {
    fn of(verb: &str, group: &str, resource: &str, namespace: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    fn review(&self) -> Value {
        let spec = if self.path.is_empty() {
            let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
            json!({"resourceAttributes": {
                "verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource,
                "namespace": self.namespace, "name": self.name,
            }})
        } else {
            json!({"nonResourceAttributes": {"verb": self.verb, "path": self.path}})
        };
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec})
    }
}

/// The result of a review.
enum Review {
    Allowed,
    /// Allowed in the namespace of the controller, and denied in all namespaces.
    AllowedInNamespace,
    Denied {
        reason: String,
    },
}

pub(super) async fn check(
    api: &Api,
    scope: &Scope<'_>,
    roles: &Manifests,
    crds: &Manifests,
    findings: &mut Findings,
) {
    let mut needed = of_runtime(scope);
    needed.extend(roles.0.iter().flat_map(|role| of_role(role, scope.namespace)));
    let of_crds: BTreeSet<AccessCheck> =
        crds.0.iter().filter(|crd| is_namespaced(crd)).flat_map(of_crd).collect();
    needed.extend(crds.0.iter().flat_map(of_crd));
    let before = findings.len();
    let (count, more) = (needed.len().min(MAX_REVIEWS), needed.len().saturating_sub(MAX_REVIEWS));
    for access in needed.iter().take(MAX_REVIEWS) {
        let namespace = Some(scope.namespace).filter(|_| scope.is_explicit && of_crds.contains(access));
        match review(api, access, namespace).await {
            Ok(Review::Allowed) => {}
            Ok(Review::AllowedInNamespace) => {
                let namespace = scope.namespace;
                let message = format!("{access} is granted in namespace {namespace} only");
                let remedy = "restrict the cache of the controller to this namespace, or grant it in all \
                              namespaces with a ClusterRoleBinding";
                findings.warning(CHECK, message, remedy);
            }
            Ok(Review::Denied { reason }) => {
                let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
                let remedy = "grant it with a Role or ClusterRole, and bind it to the user";
                findings.problem(CHECK, format!("denied: {access}{reason}"), remedy);
            }
            Err(failure) => {
                let remedy =
                    "grant create on selfsubjectaccessreviews.authorization.k8s.io (system:basic-user)";
                return findings.warning(CHECK, format!("cannot be checked: {failure}"), remedy);
            }
        }
    }
    if more > 0 {
        findings.warning(CHECK, format!("{more} permissions were not checked"), "name fewer manifests");
    }
    if findings.len() == before {
        findings.ok(CHECK, format!("all {count} are granted (Leases, Events, --role, --crd)"));
    }
}

/// Reviews an access. If it is denied in all namespaces, reviews it in `namespace`.
async fn review(api: &Api, access: &AccessCheck, namespace: Option<&str>) -> Result<Review, ApiFailure> {
    let answer = api.review(PATH, &access.review()).await?;
    if answer["status"]["allowed"] == true {
        return Ok(Review::Allowed);
    }
    if let Some(namespace) = namespace {
        let in_namespace = AccessCheck { namespace: namespace.to_owned(), ..access.clone() };
        if api.review(PATH, &in_namespace.review()).await?["status"]["allowed"] == true {
            return Ok(Review::AllowedInNamespace);
        }
    }
    let reason = answer["status"]["reason"].as_str().unwrap_or_default().to_owned();
    Ok(Review::Denied { reason })
}

/// Returns the permissions that the runtime of a controller needs in its namespace: leader election writes
/// Leases, and event recorders write Events.
fn of_runtime(scope: &Scope<'_>) -> BTreeSet<AccessCheck> {
    // Without the permission to watch, a standby notices a released Lease only when it reads it again.
    let watch = scope.leader_election.then_some("watch");
    let leases = ["create", "get", "update"].into_iter().chain(watch);
    let leases = leases.map(|verb| AccessCheck::of(verb, "coordination.k8s.io", "leases", scope.namespace));
    let events =
        ["create", "patch"].map(|verb| AccessCheck::of(verb, "events.k8s.io", "events", scope.namespace));
    leases.chain(events).collect()
}

/// Returns all permissions that the rules of a Role grant in its namespace, or those of a ClusterRole in all
/// namespaces.
fn of_role(role: &Value, default_namespace: &str) -> Vec<AccessCheck> {
    let namespace = match role["kind"].as_str() {
        Some("Role") => role["metadata"]["namespace"].as_str().unwrap_or(default_namespace),
        _ => "",
    };
    let mut all = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let (groups, names) = (texts(rule, "apiGroups"), or_empty(texts(rule, "resourceNames")));
        for verb in texts(rule, "verbs") {
            for path in texts(rule, "nonResourceURLs") {
                let path = path.to_owned();
                all.push(AccessCheck { verb: verb.to_owned(), path, ..AccessCheck::default() });
            }
            for (group, resource) in pairs(&groups, &texts(rule, "resources")) {
                let access = AccessCheck::of(verb, group, resource, namespace);
                all.extend(
                    names.iter().map(|name| AccessCheck { name: (*name).to_owned(), ..access.clone() }),
                );
            }
        }
    }
    all
}

/// Returns the permissions that a controller needs for the kind of a CRD: those of an informer in all
/// namespaces, and those to write the status.
fn of_crd(crd: &Value) -> Vec<AccessCheck> {
    let spec = &crd["spec"];
    let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) else {
        return Vec::new();
    };
    let mut all: Vec<AccessCheck> =
        ["get", "list", "watch"].map(|verb| AccessCheck::of(verb, group, plural, "")).into_iter().collect();
    let versions = spec["versions"].as_array().into_iter().flatten();
    if versions.into_iter().any(|version| version["subresources"]["status"].is_object()) {
        all.push(AccessCheck::of("patch", group, &format!("{plural}/status"), ""));
    }
    all
}

/// Returns true if the objects of a CRD are in namespaces.
pub(super) fn is_namespaced(crd: &Value) -> bool {
    crd["spec"]["scope"] == "Namespaced"
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn or_empty(names: Vec<&str>) -> Vec<&str> {
    if names.is_empty() { vec![""] } else { names }
}

fn pairs<'a>(groups: &'a [&str], resources: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    groups.iter().flat_map(move |group| resources.iter().map(move |resource| (*group, *resource)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_needs_each_combination() {
        let role = json!({"kind": "ClusterRole", "rules": [
            {"apiGroups": ["", "apps"], "resources": ["a", "b/status"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["c"], "resourceNames": ["x", "y"], "verbs": ["update"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let all: Vec<String> = of_role(&role, "shop").iter().map(ToString::to_string).collect();
        assert_eq!(all.len(), 8 + 2 + 1);
        for shown in ["list b/status.apps", "update c \"y\"", "get /metrics"] {
            assert!(all.iter().any(|access| access == shown), "{shown}: {all:?}");
        }
        let role =
            json!({"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["a"], "verbs": ["get"]}]});
        assert_eq!(of_role(&role, "shop")[0].to_string(), "get a in namespace shop");
    }
}
