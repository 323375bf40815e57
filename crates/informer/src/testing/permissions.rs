//! The RBAC permissions that requests to a test server needed, and their comparison with the rules of a role.

mod error;
mod role;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use informer_apiserver::{RequestRecord, Verb};

pub use error::PermissionsError;
pub use role::RoleRules;
use role::{Grant, GrantedRule};

/// The RBAC verbs in the order of the Kubernetes documentation, in which they are printed.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A verb on a resource, as in an RBAC rule of a `Role` or `ClusterRole`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Permission {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, with its subresource: `pods` or `pods/status`.
    pub resource: String,
    /// The verb, for example `patch`.
    pub verb: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in API group {:?}", self.verb, self.resource, self.group)
    }
}

/// The object or the collection that a request reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    namespace: Option<String>,
    name: Option<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, "{namespace}/{name}"),
            (None, Some(name)) => f.write_str(name),
            (Some(namespace), None) => write!(f, "namespace {namespace}"),
            (None, None) => f.write_str("the whole cluster"),
        }
    }
}

/// The permissions that requests to a [`TestServer`](super::TestServer) needed.
///
/// - A request that the server denied counts, too.
/// - A server-side apply needs `patch`, and `create` for an object that does not exist.
/// - A streaming list needs `watch`, and `list` on a server without streaming lists.
/// - Requests for non-resource URLs, such as discovery, need no permission here.
///
/// `Display` formats them as the rules of a role in YAML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionsUsed {
    uses: BTreeMap<Permission, BTreeSet<Target>>,
}

impl PermissionsUsed {
    pub(super) fn of(
        requests: &[RequestRecord],
        is_included: impl Fn(&RequestRecord) -> bool,
    ) -> Result<Self, PermissionsError> {
        if let Some(first) = requests.first().filter(|first| first.number > 1) {
            return Err(PermissionsError::RequestsRemoved(first.number - 1));
        }
        let mut used = Self::default();
        for request in requests.iter().filter(|request| is_included(request)) {
            let Some(gvr) = &request.gvr else { continue };
            let resource = match &request.subresource {
                Some(subresource) => format!("{}/{subresource}", gvr.resource),
                None => gvr.resource.to_string(),
            };
            let name = request.name.clone().or_else(|| selected_name(&request.query));
            let target = Target { namespace: request.namespace.clone(), name };
            for verb in verbs(request) {
                used.add(&gvr.group, &resource, verb, target.clone());
            }
        }
        Ok(used)
    }

    fn add(&mut self, group: &str, resource: &str, verb: &str, target: Target) {
        let permission =
            Permission { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() };
        self.uses.entry(permission).or_default().insert(target);
    }

    /// Returns the needed permissions, sorted by API group, resource and verb.
    pub fn iter(&self) -> impl Iterator<Item = &Permission> {
        self.uses.keys()
    }

    /// Compares the permissions that requests needed with the rules of a `Role` or `ClusterRole`.
    ///
    /// The rules of a `Role` apply to requests in its namespace. Those of a `ClusterRole` apply to all
    /// requests, as if a `ClusterRoleBinding` referred to it. A wildcard is used if one permission that it
    /// grants is used.
    pub fn compare(&self, role: impl Into<RoleRules>) -> PermissionComparison {
        let role = role.into();
        let grants = || role.rules.iter().flat_map(GrantedRule::grants);
        let unused = grants().filter(|grant| !self.uses(grant)).map(|grant| PermissionDifference {
            place: grant.rule.place.clone(),
            permission: grant.permission(),
            object: grant.name.map(str::to_owned),
        });
        let missing = self.uses.iter().filter_map(|(permission, targets)| {
            let denied = |target: &&Target| !grants().any(|grant| grant.allows(permission, target));
            let object = targets.iter().find(denied)?.to_string();
            let place = role.nearest_place(permission).to_owned();
            Some(PermissionDifference { place, permission: permission.clone(), object: Some(object) })
        });
        PermissionComparison { unused: unused.collect(), missing: missing.collect() }
    }

    /// Compares the permissions that requests needed with the roles in a YAML file. The place of each
    /// difference is the name of the file and a line in it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not YAML, or contains neither a `Role` nor a `ClusterRole`.
    pub fn compare_manifest(&self, path: impl AsRef<Path>) -> Result<PermissionComparison, PermissionsError> {
        Ok(self.compare(RoleRules::read(path.as_ref())?))
    }

    fn uses(&self, grant: &Grant<'_>) -> bool {
        self.uses
            .iter()
            .any(|(permission, targets)| targets.iter().any(|target| grant.allows(permission, target)))
    }
}

impl fmt::Display for PermissionsUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut resources: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for Permission { group, resource, verb } in self.uses.keys() {
            resources.entry((group, resource)).or_default().push(verb);
        }
        for ((group, resource), mut verbs) in resources {
            verbs.sort_by_key(|verb| VERBS.iter().position(|known| known == verb));
            let group = if group.is_empty() { "\"\"" } else { group };
            writeln!(
                f,
                "- apiGroups: [{group}]\n  resources: [{resource}]\n  verbs: [{}]",
                verbs.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Returns the RBAC verbs that a request to the test server may need. A streaming list needs `list` only on
/// some servers, and a server-side apply needs `create` only if the object does not exist.
fn verbs(request: &RequestRecord) -> &'static [&'static str] {
    let is_streaming_list = || request.query.split('&').any(|pair| pair == "sendInitialEvents=true");
    match request.verb {
        Verb::Get => &["get"],
        Verb::List => &["list"],
        Verb::Watch if is_streaming_list() => &["list", "watch"],
        Verb::Watch => &["watch"],
        Verb::Create => &["create"],
        Verb::Update => &["update"],
        Verb::Patch if request.is_apply && request.subresource.is_none() => &["create", "patch"],
        Verb::Patch => &["patch"],
        Verb::Delete => &["delete"],
        Verb::DeleteCollection => &["deletecollection"],
        Verb::Other => &[],
    }
}

/// Returns the object name that a list or watch selects with the field selector `metadata.name`. Kubernetes
/// authorizes such a request like a request for that object, so a rule with `resourceNames` can allow it.
fn selected_name(query: &str) -> Option<String> {
    let selector = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector="))?;
    let name = selector.split(',').find_map(|term| term.strip_prefix("metadata.name="))?;
    Some(name.trim_start_matches('=').to_owned())
}

/// The differences between the permissions that RBAC roles grant and those that requests needed.
///
/// `Display` prints one line per difference, `PLACE: granted and never used: PERMISSION` or `PLACE: used and
/// not granted: PERMISSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "assert that it is exact"]
pub struct PermissionComparison {
    unused: Vec<PermissionDifference>,
    missing: Vec<PermissionDifference>,
}

impl PermissionComparison {
    /// Returns true if the roles grant exactly the permissions that the requests needed.
    pub fn is_exact(&self) -> bool {
        self.unused.is_empty() && self.missing.is_empty()
    }

    /// Returns the permissions that a role grants and no request needed.
    pub fn unused(&self) -> &[PermissionDifference] {
        &self.unused
    }

    /// Returns the permissions that a request needed and no role grants.
    pub fn missing(&self) -> &[PermissionDifference] {
        &self.missing
    }
}

impl fmt::Display for PermissionComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exact() {
            return f.write_str("the role grants exactly the used permissions");
        }
        let unused = self.unused.iter().map(|difference| (difference, "granted and never used", "on"));
        let missing = self.missing.iter().map(|difference| (difference, "used and not granted", "for"));
        for (index, (difference, problem, preposition)) in unused.chain(missing).enumerate() {
            let PermissionDifference { place, permission, object } = difference;
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{place}: {problem}: {permission}")?;
            if let Some(object) = object {
                write!(f, ", {preposition} {object}")?;
            }
        }
        Ok(())
    }
}

/// A permission that a role grants and no request needed, or the reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionDifference {
    place: String,
    permission: Permission,
    object: Option<String>,
}

impl PermissionDifference {
    /// Returns the place of the RBAC rule to change: the file and the line, or the role and the number of the
    /// rule. An unused permission is granted by this rule. For a missing permission, it is the first rule for
    /// the same API group and resource, or else the first for the API group. If there is none, the place is
    /// that of the first role.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the permission that differs. An unused permission has the wildcards of the rule that grants
    /// it.
    pub fn permission(&self) -> &Permission {
        &self.permission
    }

    /// Returns the object to which the difference applies. For an unused permission, it is a name in the
    /// rule's `resourceNames`, or `None` if the rule has no names. For a missing permission, it is an object
    /// or collection of a request that needed the permission and to which no rule grants it.
    pub fn object(&self) -> Option<&str> {
        self.object.as_deref()
    }
}
