//! Suggests names of kinds, if the user has named a kind that the server does not have.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, HeaderValue};
use http_body_util::{BodyExt, Limited};
use informer::client::Client;
use serde::Deserialize;

/// The timeout for reading the kinds of the server. If it expires, the error message contains no similar
/// names.
const PATIENCE: Duration = Duration::from_secs(3);
/// The maximum size of a discovery document. Servers with thousands of custom resources send some MB.
const MAX_DOCUMENT_BYTES: usize = 16 << 20;
const MAX_SUGGESTIONS: usize = 3;
/// The minimum similarity, from 0 to 1, between a suggested name and the given name: `pods` is suggested for
/// `pdos`, `web` is not.
const MIN_SIMILARITY: f64 = 0.6;

const ACCEPT_AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the text to append to the error about the unknown kind `name`: "; did you mean …?", or an empty
/// string. If no kinds can be read from the server, the text asks whether it is a Kubernetes API server.
pub(super) async fn advice(client: &Client, name: &str) -> String {
    let resources = tokio::time::timeout(PATIENCE, resources(client)).await.unwrap_or_default();
    if resources.is_empty() {
        return "; is it a Kubernetes API server?".to_owned();
    }
    let near = suggestions(name, &resources);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

#[derive(Debug)]
struct Resource {
    /// The name that is suggested to the user, such as `deployments.apps`.
    full: String,
    names: Vec<String>,
}

fn suggestions(wanted: &str, resources: &[Resource]) -> Vec<String> {
    // The group in the given name may be misspelled, so only the name before the first dot is compared.
    let wanted = wanted.split('.').next().unwrap_or_default().to_lowercase();
    let similarity = |resource: &Resource| {
        let names = resource.names.iter();
        names.map(|name| strsim::normalized_damerau_levenshtein(&wanted, name)).fold(0.0, f64::max)
    };
    let rated = resources.iter().map(|resource| (similarity(resource), &resource.full));
    let mut near: Vec<_> = rated.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).collect();
    near.sort_by(|(a, first), (b, second)| b.total_cmp(a).then_with(|| first.cmp(second)));
    near.dedup_by_key(|(_, full)| *full);
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, full)| full.clone()).collect()
}

/// Reads the resources that the server serves, with aggregated discovery. Returns none if the requests fail
/// or the server does not support it, because suggestions are optional.
async fn resources(client: &Client) -> Vec<Resource> {
    let mut resources = Vec::new();
    for path in ["/api", "/apis"] {
        resources.extend(document(client, path).await.into_iter().flat_map(Document::resources));
    }
    resources
}

async fn document(client: &Client, path: &'static str) -> Option<Document> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = http::Uri::from_static(path);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(ACCEPT_AGGREGATED));
    let response = client.request(request).await.ok()?;
    let text = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES).collect().await.ok()?;
    serde_json::from_slice(&text.to_bytes()).ok()
}

#[derive(Debug, Default, Deserialize)]
struct Document {
    items: Vec<GroupDocument>,
}

#[derive(Debug, Deserialize)]
struct GroupDocument {
    metadata: GroupName,
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct GroupName {
    /// The name of the API group. The core group has no name.
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    #[serde(default)]
    resources: Vec<VersionResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionResource {
    resource: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
}

impl Document {
    fn resources(self) -> impl Iterator<Item = Resource> {
        self.items.into_iter().flat_map(|GroupDocument { metadata: GroupName { name: group }, versions }| {
            let resources = versions.into_iter().flat_map(|version| version.resources);
            resources.map(move |VersionResource { resource, singular_resource, short_names }| Resource {
                full: if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") },
                names: [resource, singular_resource].into_iter().chain(short_names).collect(),
            })
        })
    }
}

#[cfg(test)]
mod tests;
