//! Checks the connection, the version of the server, and API priority and fairness.

use serde_json::Value;

use super::api::Api;
use super::findings::Findings;

/// The minor version of Kubernetes 1 whose API types this program contains. A newer server is reported with a
/// warning, because its objects can have fields that these types lack.
const TYPES_MINOR: u32 = 37;

/// A server whose minor version is lower than that of the program's types by more than this number is
/// reported with a warning. Kubernetes supports only a difference of one minor version, but reads and writes
/// of stable fields work with older servers.
const MAX_OLDER: u32 = 3;

/// Checks that the server responds, and that its version suits the types of this program. Returns false if
/// the server does not respond: the further checks would then fail and are skipped.
pub(super) async fn check(api: &Api, findings: &mut Findings) -> bool {
    const CHECK: &str = "server";
    let version = match api.get("/version").await {
        Ok(version) => version,
        Err(failure) if failure.status.is_some() => {
            // On a hardened cluster, RBAC may deny requests for `/version`. The server responds, so the
            // further checks are useful.
            let remedy = "check that the URL is that of a Kubernetes API server";
            findings.warning(CHECK, failure.to_string(), remedy);
            return true;
        }
        Err(failure) => {
            let remedy = "check the URL, the network and the CA certificate in the kubeconfig";
            findings.problem(CHECK, failure.to_string(), remedy);
            return false;
        }
    };
    let git_version = version["gitVersion"].as_str().unwrap_or("of an unknown version");
    let types = format!("the types are those of 1.{TYPES_MINOR}");
    match minor(&version) {
        Some(minor) if minor > TYPES_MINOR => findings.warning(
            CHECK,
            format!("Kubernetes {git_version}; {types}"),
            "update the library: fields that it does not know cost additional requests",
        ),
        Some(minor) if TYPES_MINOR - minor > MAX_OLDER => findings.warning(
            CHECK,
            format!("Kubernetes {git_version}; {types}"),
            "use only fields that this server has: it drops the others",
        ),
        Some(_) => findings.ok(CHECK, format!("Kubernetes {git_version}; {types}")),
        None => findings.warning(
            CHECK,
            format!("Kubernetes {git_version}"),
            "check that the URL is that of a Kubernetes API server",
        ),
    }
    true
}

/// Returns the minor version of a Kubernetes 1 server from its `/version` document. Some providers append a
/// sign, as in `36+`, which is ignored.
fn minor(version: &Value) -> Option<u32> {
    let minor = version["minor"].as_str().filter(|_| version["major"] == "1")?;
    minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// Checks whether API priority and fairness rejected requests of the checks with 429, and reports the
/// FlowSchema that classified them.
pub(super) async fn check_fairness(api: &Api, findings: &mut Findings) {
    const CHECK: &str = "fairness";
    let seen = api.fairness();
    let Some(uid) = &seen.flow_schema else {
        if seen.rejected > 0 {
            let message = format!("{} requests were rejected with 429", seen.rejected);
            return findings.warning(CHECK, message, "reduce the load of the server, or its rate limits");
        }
        return findings.ok(CHECK, "no request was rejected; the server reports no flow schema");
    };
    let schema = name(api, "flowschemas", uid).await;
    let level = match &seen.priority_level {
        Some(uid) => name(api, "prioritylevelconfigurations", uid).await,
        None => "unknown".to_owned(),
    };
    let flow = format!("flow schema {schema}, priority level {level}");
    if seen.rejected > 0 {
        let message = format!("{} requests were rejected with 429; {flow}", seen.rejected);
        let remedy = "add a FlowSchema for the controller, with a priority level that has enough shares";
        findings.warning(CHECK, message, remedy);
    } else if schema == "catch-all" {
        let remedy = "add a FlowSchema for the user: the level of catch-all has hardly any shares";
        findings.warning(CHECK, flow, remedy);
    } else {
        findings.ok(CHECK, flow);
    }
}

/// Returns the name of the FlowSchema or PriorityLevelConfiguration with this uid. Returns the uid if the
/// user may not list these objects.
async fn name(api: &Api, resource: &str, uid: &str) -> String {
    let list =
        api.get(&format!("/apis/flowcontrol.apiserver.k8s.io/v1/{resource}")).await.unwrap_or_default();
    let mut items = list["items"].as_array().into_iter().flatten();
    let found = items.find(|item| item["metadata"]["uid"] == uid);
    found.and_then(|item| item["metadata"]["name"].as_str()).unwrap_or(uid).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_those_of_the_newest_kubernetes_that_the_workspace_supports() {
        assert_eq!(env!("K8S_OPENAPI_ENABLED_VERSION"), format!("1.{TYPES_MINOR}"));
    }

    #[test]
    fn minor_version_is_read_with_the_suffix_of_a_provider() {
        assert_eq!(minor(&json!({"major": "1", "minor": "36+"})), Some(36));
        assert_eq!(minor(&json!({"major": "1", "minor": "29"})), Some(29));
        assert_eq!(minor(&json!({"major": "1", "minor": ""})), None);
        assert_eq!(minor(&json!({})), None);
    }
}
