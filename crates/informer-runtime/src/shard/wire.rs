//! The JSON encoding of the Leases of a shard group, and the requests that read and write them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use informer_client::Client;
use informer_core::{Gvr, ResourceVersion};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_request::{exchange, json_request};
use crate::leader::failures::{Failure, FailureKind};

use super::membership::{Membership, SCHEME};
use super::peer::{Claims, Record};
use super::state::{MAX_MEMBERS, Publication, ShardAction, ShardResponse};

/// The maximum size in bytes of a response with the Leases of a group. There may be 256 Leases, each with 256
/// member names of up to 96 bytes, and additional Leases of dead members.
const MAX_LIST_BYTES: usize = 32 << 20;

const GROUP_LABEL: &str = "informer/shard-group";

/// The annotation of a Lease in which a member publishes its claims: the version of the assignment algorithm,
/// a count of renewals, and the names of all members.
const MEMBERS_ANNOTATION: &str = "informer/shard-ring";

/// Sends the Lease requests of one member of a shard group.
pub(super) struct GroupLeases {
    client: Client,
    path: String,
    group: String,
    name: Arc<str>,
    identity: String,
    lease: Duration,
}

impl GroupLeases {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        group: &str,
        own: (Arc<str>, String),
        lease: Duration,
    ) -> Self {
        let path = Gvr::new("coordination.k8s.io", "v1", "leases").path(Some(namespace));
        let (name, identity) = own;
        Self { client, path, group: group.to_owned(), name, identity, lease }
    }

    pub(super) fn send(
        &self,
        action: ShardAction,
        now: Timestamp,
    ) -> impl Future<Output = Result<ShardResponse, Failure>> + Send + 'static {
        let request = self.request(&action, now);
        let client = self.client.clone();
        async move {
            let (status, body) =
                exchange(&client, request, MAX_LIST_BYTES).await.map_err(Failure::unreachable)?;
            match (status, &action) {
                (StatusCode::NOT_FOUND, ShardAction::Update(..) | ShardAction::Delete(..)) => {
                    Ok(ShardResponse::Missing)
                }
                (StatusCode::CONFLICT, _) => Ok(ShardResponse::Conflict),
                (status, ShardAction::List) if status.is_success() => read_list(&body).map_err(invalid),
                (status, ShardAction::Delete(..)) if status.is_success() => Ok(ShardResponse::Deleted),
                (status, _) if status.is_success() => {
                    Ok(ShardResponse::Written(version(&body).map_err(invalid)?))
                }
                (status, _) => Err(Failure::of_status(status, &body)),
            }
        }
    }

    fn request(&self, action: &ShardAction, now: Timestamp) -> Request<Bytes> {
        let named = |name: &str| format!("{}/{name}", self.path);
        match action {
            ShardAction::List => {
                let label = GROUP_LABEL.replace('/', "%2F");
                let uri = format!("{}?labelSelector={label}%3D{}", self.path, self.group);
                json_request(Method::GET, uri, None)
            }
            ShardAction::Delete(name, version) => {
                let preconditions = json!({"resourceVersion": version.to_string()});
                let options =
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
                json_request(Method::DELETE, named(name), Some(options))
            }
            ShardAction::Create(publication) => {
                let mut lease = self.lease(publication, now);
                lease["apiVersion"] = json!("coordination.k8s.io/v1");
                lease["kind"] = json!("Lease");
                lease["spec"]["acquireTime"] = lease["spec"]["renewTime"].clone();
                json_request(Method::POST, self.path.clone(), Some(lease))
            }
            // The Lease is updated with a merge patch, so that fields which other clients have set are kept.
            ShardAction::Update(version, publication) => {
                let mut lease = self.lease(publication, now);
                lease["metadata"]["resourceVersion"] = json!(version.to_string());
                let mut request = json_request(Method::PATCH, named(&self.name), Some(lease));
                let merge = http::HeaderValue::from_static("application/merge-patch+json");
                request.headers_mut().insert(http::header::CONTENT_TYPE, merge);
                request
            }
        }
    }

    fn lease(&self, publication: &Publication, now: Timestamp) -> Value {
        let names: Vec<&str> = publication.membership.names().map(|name| &**name).collect();
        let membership = format!("{SCHEME} {} {}", publication.beat, names.join(","));
        let holder = if publication.leaving { "" } else { &self.identity };
        json!({
            "metadata": {
                "name": &*self.name,
                "labels": {GROUP_LABEL: self.group},
                "annotations": {MEMBERS_ANNOTATION: membership},
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": self.lease.as_secs(),
                "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            },
        })
    }
}

fn invalid(problem: String) -> Failure {
    Failure::new(FailureKind::Rejected, problem)
}

fn version(object: &Value) -> Result<ResourceVersion, String> {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.map(ResourceVersion::from).ok_or_else(|| "the response has no version".to_owned())
}

fn read_list(list: &Value) -> Result<ShardResponse, String> {
    let items = list["items"].as_array().ok_or("the response is not a list")?;
    let records = items.iter().map(read_record).collect::<Result<_, _>>()?;
    Ok(ShardResponse::Listed(version(list)?, records))
}

/// Reads the record of a member from its Lease. Any client may have written the Lease, so invalid fields
/// count as missing. With an invalid annotation, the member may claim any key.
fn read_record(lease: &Value) -> Result<Record, String> {
    let name = lease["metadata"]["name"].as_str().ok_or("a Lease has no name")?;
    let spec = &lease["spec"];
    let published = lease["metadata"]["annotations"][MEMBERS_ANNOTATION].as_str();
    let claims = published.and_then(read_membership).map_or(Claims::Unreadable, Claims::Members);
    let beat = [published, spec["renewTime"].as_str()].map(Option::unwrap_or_default);
    Ok(Record {
        name: name.into(),
        version: version(lease)?,
        beat: beat.join(" "),
        duration: spec["leaseDurationSeconds"].as_u64().map(Duration::from_secs),
        left: claims == Claims::Members(Membership::default()) && spec["holderIdentity"].as_str() == Some(""),
        claims,
    })
}

fn read_membership(published: &str) -> Option<Membership> {
    let mut words = published.split(' ');
    if words.next() != Some(SCHEME) {
        return None;
    }
    words.next()?.parse::<u64>().ok()?;
    let names = words.next()?.split(',').filter(|name| !name.is_empty());
    let membership = Membership::new(names.map(Arc::from));
    (words.next().is_none() && membership.names().len() <= MAX_MEMBERS).then_some(membership)
}
