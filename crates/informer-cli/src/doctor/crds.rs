//! Checks CustomResourceDefinitions.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::Value;

use super::api::Api;
use super::findings::Findings;
use super::manifests::Manifests;

const CHECK: &str = "crds";

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Checks the CRDs in the files of `--crd`, or all CRDs on the server if the option is missing.
pub(super) async fn check(api: &Api, wanted: &Manifests, findings: &mut Findings) {
    if wanted.0.is_empty() {
        return check_all(api, findings).await;
    }
    for crd in &wanted.0 {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        match api.get(&format!("{PATH}/{name}")).await {
            Ok(found) => check_wanted(name, crd, &found, findings),
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => {
                let remedy = "install it, for example with `kubectl apply --server-side`";
                findings.problem(CHECK, format!("{name} does not exist"), remedy);
            }
            Err(failure) => {
                let remedy = "grant get on customresourcedefinitions.apiextensions.k8s.io";
                findings.warning(CHECK, format!("{name} cannot be checked: {failure}"), remedy);
            }
        }
    }
}

async fn check_all(api: &Api, findings: &mut Findings) {
    let list = match api.get(PATH).await {
        Ok(list) => list,
        Err(failure) => {
            let remedy =
                "grant list on customresourcedefinitions.apiextensions.k8s.io, or name files with --crd";
            return findings.warning(CHECK, format!("cannot be checked: {failure}"), remedy);
        }
    };
    let (mut count, before) = (0, findings.len());
    for crd in list["items"].as_array().into_iter().flatten() {
        count += 1;
        check_conditions(crd["metadata"]["name"].as_str().unwrap_or_default(), crd, findings);
    }
    if findings.len() == before {
        findings.ok(CHECK, format!("all {count} are established"));
    }
}

fn check_wanted(name: &str, wanted: &Value, found: &Value, findings: &mut Findings) {
    if !check_conditions(name, found, findings) {
        return;
    }
    let missing: Vec<&str> = served(wanted).difference(&served(found)).copied().collect();
    let (wanted_storage, storage) = (storage(wanted), storage(found));
    if !missing.is_empty() {
        let message = format!("{name} does not serve {}", missing.join(", "));
        findings.problem(CHECK, message, "apply the newer CRD");
    } else if wanted_storage != storage {
        let message = format!("{name} stores {storage}, and the file {wanted_storage}");
        findings.warning(CHECK, message, "apply the newer CRD, and migrate the stored objects");
    } else {
        let versions: Vec<&str> = served(found).into_iter().collect();
        findings.ok(CHECK, format!("{name} is established and serves {}", versions.join(", ")));
    }
}

/// Returns true if the conditions of a CRD show that the server serves its kind. Otherwise reports a problem
/// with the message of the condition that is not true.
fn check_conditions(name: &str, crd: &Value, findings: &mut Findings) -> bool {
    for (kind, remedy) in [
        ("NamesAccepted", "delete the CRD with the same names, or choose other names"),
        ("Established", "read the conditions with `kubectl describe crd`"),
    ] {
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.into_iter().find(|condition| condition["type"] == kind);
        if condition.is_none_or(|condition| condition["status"] != "True") {
            let why = condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default();
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            findings.problem(CHECK, format!("{name} is not {kind}{why}"), remedy);
            return false;
        }
    }
    true
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn served(crd: &Value) -> BTreeSet<&str> {
    versions(crd)
        .filter(|version| version["served"] == true)
        .filter_map(|version| version["name"].as_str())
        .collect()
}

fn storage(crd: &Value) -> &str {
    versions(crd)
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or("none")
}
