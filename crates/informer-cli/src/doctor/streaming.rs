//! Checks whether the server supports streaming lists (WatchList).

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use informer::client::ResponseBody;
use serde_json::Value;
use tokio::time::timeout;

use super::Scope;
use super::api::Api;
use super::findings::Findings;
use super::manifests::Manifests;
use super::permissions::is_namespaced;

const CHECK: &str = "streaming-lists";

/// The timeout within which a streaming list must deliver its initial events.
const INITIAL_EVENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of bytes of initial events that are read from a streaming list.
const MAX_EVENT_BYTES: usize = 16 << 20;

const QUERY: &str = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
                     &resourceVersionMatch=NotOlderThan&timeoutSeconds=10";

/// The annotation of the bookmark that ends the initial events of a streaming list. Its presence shows that
/// the server supports streaming lists.
const INITIAL_EVENTS_END: &[u8] = b"\"k8s.io/initial-events-end\"";

/// Checks whether the server supports streaming lists, by starting one of the first kind of `--crd`, or else
/// of the Leases in the controller's namespace.
pub(super) async fn check(api: &Api, scope: &Scope<'_>, crds: &Manifests, findings: &mut Findings) {
    let namespace = scope.namespace;
    let crd = crds.0.first();
    let leases = || format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let mut path = crd.and_then(|crd| collection(crd, None)).unwrap_or_else(leases);
    let fallback = "nothing is needed: informers use ordinary lists, which take the server more memory";
    let mut response = api.watch(&format!("{path}?{QUERY}")).await;
    // The controller may be restricted to its namespace.
    if response.as_ref().is_ok_and(|response| response.status() == StatusCode::FORBIDDEN)
        && let Some(crd) = crd.filter(|crd| scope.is_explicit && is_namespaced(crd))
        && let Some(in_namespace) = collection(crd, Some(namespace))
    {
        path = in_namespace;
        response = api.watch(&format!("{path}?{QUERY}")).await;
    }
    match response {
        Ok(response) if response.status().is_success() => {
            let ended = timeout(INITIAL_EVENTS_TIMEOUT, initial_events_end(response.into_body())).await;
            if ended == Ok(true) {
                findings.ok(CHECK, "supported");
            } else {
                findings.warning(CHECK, "the server ignores the request for a streaming list", fallback);
            }
        }
        Ok(response) if response.status() == StatusCode::NOT_FOUND => {
            let message = format!("cannot be checked: {path} does not exist");
            findings.warning(CHECK, message, "apply the CRD first");
        }
        Ok(response) if response.status() == StatusCode::FORBIDDEN => {
            let message = format!("cannot be checked: the user may not watch {path}");
            findings.warning(CHECK, message, "grant list and watch, or name a watched kind with --crd");
        }
        Ok(response) => {
            let message = format!("not supported: {}", response.status());
            findings.warning(CHECK, message, fallback);
        }
        Err(failure) => findings.warning(CHECK, failure.to_string(), "check the connection to the server"),
    }
}

/// Returns the URL path of the objects of a CRD's kind in one namespace, or in all, in the first served
/// version. Returns `None` if the CRD has no served version.
fn collection(crd: &Value, namespace: Option<&str>) -> Option<String> {
    let spec = &crd["spec"];
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    let version = versions.find(|version| version["served"] == true)?["name"].as_str()?;
    let (group, plural) = (spec["group"].as_str()?, spec["names"]["plural"].as_str()?);
    let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    Some(format!("/apis/{group}/{version}/{namespace}{plural}"))
}

/// Reads the body of a streaming list until the bookmark that ends its initial events. Returns false if the
/// body ends before, or is longer than [`MAX_EVENT_BYTES`].
async fn initial_events_end(mut body: ResponseBody) -> bool {
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        // The bookmark's annotation may be split between two frames, so the search starts within the previous
        // frame.
        let from = text.len().saturating_sub(INITIAL_EVENTS_END.len());
        text.extend_from_slice(&data);
        if text[from..].windows(INITIAL_EVENTS_END.len()).any(|part| part == INITIAL_EVENTS_END) {
            return true;
        }
        if text.len() > MAX_EVENT_BYTES {
            return false;
        }
    }
    false
}
