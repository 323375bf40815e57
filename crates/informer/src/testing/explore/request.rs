//! Parses the requests of the program under exploration: the verb, the resource and the object of each.

use std::fmt;

use http::Method;
use informer_apiserver::{is_dry_run, is_volatile};
use serde_json::Value;

use crate::testing::Verb;

/// A write of the program under exploration: a request that creates, changes or deletes objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProgramWrite {
    /// The verb of the request, for example `update`.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name of the resource, for example `deployments`.
    pub resource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object, or its `generateName` followed by `*`. In the name of an Event, `*` replaces
    /// the part that depends on the time.
    pub name: String,
    /// The subresource, for example `status`.
    pub subresource: Option<String>,
    /// The request body; null if it is not JSON.
    pub body: Value,
}

impl fmt::Display for ProgramWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.name(), self.resource)?;
        self.subresource.iter().try_for_each(|subresource| write!(f, "/{subresource}"))?;
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

impl ProgramWrite {
    /// Parses an HTTP request of the program, which may also be a read. Returns `None` if its path is not
    /// that of a resource.
    pub(super) fn parse(method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Self> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // A path such as `/namespaces/NAME/status` is a subresource of a Namespace, not a resource in it.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (&resource, rest) = rest.split_first()?;
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let metadata = &body["metadata"];
        let name = match (rest.first(), metadata["name"].as_str(), metadata["generateName"].as_str()) {
            (Some(&name), ..) | (None, Some(name), _) => name.to_owned(),
            (None, None, Some(prefix)) => format!("{prefix}*"),
            (None, None, None) => String::new(),
        };
        // The name of an Event ends with the time of its creation. This time is read from the system clock,
        // which is not simulated, so it differs between runs.
        let name = match name.rsplit_once('.') {
            Some((object, _)) if resource == "events" => format!("{object}.*"),
            _ => name,
        };
        let watches = query.split('&').any(|part| matches!(part, "watch=1" | "watch=true"));
        let verb = match (method.as_str(), rest.is_empty()) {
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", true) => Verb::DeleteCollection,
            ("DELETE", false) => Verb::Delete,
            (_, true) if watches => Verb::Watch,
            (_, true) => Verb::List,
            (_, false) => Verb::Get,
        };
        Some(Self {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name,
            subresource: rest.get(1).map(|subresource| (*subresource).to_owned()),
            body,
        })
    }

    /// Returns true if the request is for a Lease of leader election or sharding.
    pub(super) fn is_lease(&self) -> bool {
        self.group == "coordination.k8s.io" && self.resource == "leases"
    }

    /// Returns true if the request is a write that changes objects whose final state is compared. Such writes
    /// are numbered, and faults can be injected at them.
    pub(super) fn counts(&self, query: &str) -> bool {
        self.verb.writes() && !is_dry_run(query) && !is_volatile(&self.group, &self.resource)
    }
}
