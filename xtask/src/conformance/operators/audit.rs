//! Reads the requests of a service account, and whether they were allowed, from the audit log of
//! kube-apiserver.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// An audit policy that logs the requests of service accounts without their bodies, and no other requests.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: [\"system:serviceaccounts\"]
- level: None
";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permission {
    pub(super) group: String,
    /// The resource to which the permission applies, followed by its subresource if there is one, such as
    /// `deployments/status`.
    pub(super) resource: String,
    pub(super) verb: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.resource, self.group)
    }
}

/// Suffix of resources such as `deployments/finalizers`. Only the admission plugin
/// `OwnerReferencesPermissionEnforcement` checks permissions for them, so the audit log contains no such
/// request.
const ASKED_BY_ADMISSION: &str = "/finalizers";

impl Permission {
    /// Returns true if the operator needs the permission although the audit log of this run has no request
    /// for it. This is the case for:
    ///
    /// - `deployments/finalizers` and similar resources, which only an admission plugin checks;
    /// - `list`, if `watch` was used: operators list on servers without streaming lists, which this server
    ///   has;
    /// - `create`, if `patch` was used: the audit log contains a server-side apply only as a patch;
    /// - `patch` of events, which an operator sends only if an event occurs more than once.
    pub(super) fn is_needed_elsewhere(&self, allowed: &BTreeSet<Self>) -> bool {
        let did = |verb: &str| allowed.contains(&Self { verb: verb.to_owned(), ..self.clone() });
        self.resource.ends_with(ASKED_BY_ADMISSION)
            || (self.verb == "list" && did("watch"))
            || (self.verb == "create" && did("patch"))
            || (self.verb == "patch" && self.resource == "events")
    }
}

#[derive(Debug, Default)]
pub(super) struct ObservedRequests {
    pub(super) allowed: BTreeSet<Permission>,
    pub(super) refused: BTreeSet<Permission>,
    pub(super) requests: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    resource: Option<String>,
    subresource: Option<String>,
    api_group: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Status {
    code: Option<u16>,
}

/// Writes the audit policy to the file `policy`, and returns flags of kube-apiserver. They enable the audit
/// log, and an admission plugin that denies owner references with `blockOwnerDeletion` unless the account may
/// update the owner's finalizers.
pub(super) fn flags(policy: &Path, log: &Path) -> Result<Vec<String>, String> {
    fs::write(policy, POLICY).map_err(|error| format!("cannot write {}: {error}", policy.display()))?;
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
    ])
}

pub(super) fn of_account(log: &Path, account: &str) -> Result<ObservedRequests, String> {
    let text = fs::read_to_string(log).map_err(|error| format!("no audit log {}: {error}", log.display()))?;
    Ok(read(&text, account))
}

fn read(text: &str, account: &str) -> ObservedRequests {
    let mut seen = ObservedRequests::default();
    // Lines that are not valid JSON are skipped: kube-apiserver may still be writing the last line of the
    // audit log.
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok()) {
        if entry.user.username != account {
            continue;
        }
        let Some(Reference { resource: Some(resource), subresource, api_group }) = entry.object_ref else {
            continue;
        };
        let resource = subresource.map_or_else(|| resource.clone(), |below| format!("{resource}/{below}"));
        let permission = Permission { group: api_group.unwrap_or_default(), resource, verb: entry.verb };
        seen.requests += usize::from(entry.stage == "ResponseComplete");
        match entry.response_status.and_then(|status| status.code) {
            Some(401 | 403) => seen.refused.insert(permission),
            _ => seen.allowed.insert(permission),
        };
    }
    seen
}

#[cfg(test)]
mod tests;
