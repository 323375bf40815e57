//! The cases of the embedded API server, which is called without a socket.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use informer::Gvr;
use informer_apiserver::{ApiBody, ApiServer, ApiService, Controllers, KindDefinition, ManualClock};
use serde_json::{Value, json};
use tower::Service;

use crate::arguments::Kind;
use crate::count::{Counter, WorkCount};
use crate::{Failure, objects};

/// The seed of all objects.
pub(crate) const SEED: u64 = 1;
/// The time of the server, which does not advance, so that no bookmark is sent and all timestamps are equal.
const NOW: &str = "2026-10-01T08:15:00Z";
const CREATED: usize = 300;
/// The number of requests that run before the first counted one. They initialize tables of the schema.
const WARM_UP: usize = 50;
/// The number of objects of a list. The server encodes longer lists with several threads.
const LISTED: usize = 100;
const LISTS: usize = 4;
const WATCHES: usize = 100;
const WRITES: usize = 20;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Returns an empty server of built-in kinds and of the custom resource of the benchmarks.
pub(crate) fn api_server(controllers: Controllers) -> Result<ApiServer, Failure> {
    let clock = Arc::new(ManualClock::new(NOW.parse()?));
    let widget = KindDefinition::custom(objects::GROUP, "v1", "Widget");
    Ok(ApiServer::builder().clock(clock).kind(widget).controllers(controllers).build())
}

pub(crate) fn create(counter: &Counter) -> Result<WorkCount, Failure> {
    let mut server = Connection(api_server(Controllers::default())?.service());
    let mut requests = (0..WARM_UP + CREATED).map(|n| (path("default"), pod(n)));
    counter.set_up(async {
        for (path, body) in requests.by_ref().take(WARM_UP) {
            server.request(ApiRequest::post(&path, body)).await?;
        }
        Ok::<_, Failure>(())
    })?;
    let requests: Vec<_> = requests.collect();
    let (done, count) = counter.count(CREATED, async {
        for (path, body) in requests {
            black_box(server.request(ApiRequest::post(&path, body)).await?);
        }
        Ok::<_, Failure>(())
    });
    done?;
    Ok(count)
}

pub(crate) fn list_json(counter: &Counter) -> Result<WorkCount, Failure> {
    list(counter, JSON)
}

pub(crate) fn list_protobuf(counter: &Counter) -> Result<WorkCount, Failure> {
    list(counter, PROTOBUF)
}

/// Counts the first list of each of several namespaces. The list of another namespace runs before.
fn list(counter: &Counter, accept: &str) -> Result<WorkCount, Failure> {
    let api = api_server(Controllers::default())?;
    let namespace = |n: usize| format!("list-{n}");
    for at in 0..=LISTS {
        let pods = (at * LISTED..(at + 1) * LISTED).map(|n| {
            let mut pod = objects::object(Kind::Pod, SEED, n);
            pod["metadata"]["namespace"] = namespace(at).into();
            pod
        });
        api.raw().load(&Gvr::new("", "v1", "pods"), pods)?;
    }
    let mut server = Connection(api.service());
    let path = |at| format!("{}?resourceVersion=0", path(&namespace(at)));
    counter.set_up(server.request(ApiRequest::get(&path(LISTS), accept)))?;
    let (bytes, count) = counter.count(LISTS * LISTED, async {
        let mut bytes = 0;
        for at in 0..LISTS {
            bytes += server.request(ApiRequest::get(&path(at), accept)).await?;
        }
        Ok::<_, Failure>(bytes)
    });
    // The smallest pod has more than a kilobyte in each encoding.
    let (bytes, least) = (bytes?, LISTS * LISTED * 1_000);
    if bytes < least { Err(format!("the lists have only {bytes} bytes").into()) } else { Ok(count) }
}

pub(crate) fn watch(counter: &Counter) -> Result<WorkCount, Failure> {
    let mut server = Connection(api_server(Controllers::default())?.service());
    let mut bodies = counter.set_up(async {
        server.request(ApiRequest::post(&path("default"), pod(0))).await?;
        let mut bodies = Vec::new();
        for _ in 0..WATCHES {
            let path = format!("{}?watch=true&resourceVersion=0&timeoutSeconds=3000", path("default"));
            let mut body = server.call(ApiRequest::get(&path, JSON)).await?;
            // The first event is the pod in its initial state.
            delivered(&mut body).await?;
            bodies.push(body);
        }
        write(&mut server, &mut bodies, 0).await?;
        Ok::<_, Failure>(bodies)
    })?;
    let (done, count) = counter.count(WATCHES * WRITES, async {
        for n in 1..=WRITES {
            write(&mut server, &mut bodies, n).await?;
        }
        Ok::<_, Failure>(())
    });
    done?;
    Ok(count)
}

/// Changes the pod, and reads the event from each watch.
async fn write(server: &mut Connection, bodies: &mut [ApiBody], n: usize) -> Result<(), Failure> {
    let patch = json!({"metadata": {"labels": {"bench-sent": format!("n{n:07}")}}}).to_string();
    let path = format!("{}/{}", path("default"), objects::name_of(0));
    server.request(ApiRequest::merge_patch(&path, patch.into())).await?;
    for body in bodies {
        delivered(body).await?;
    }
    Ok(())
}

async fn delivered(body: &mut ApiBody) -> Result<(), Failure> {
    let frame = body.frame().await.ok_or("the watch has ended")??;
    match frame.data_ref().map(|data| black_box(data).len()) {
        None | Some(0) => Err("the watch sent no event".into()),
        Some(_) => Ok(()),
    }
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Returns a pod as a client creates it: without a status and managed fields. Owner references are removed,
/// because the garbage collector deletes objects whose owners do not exist.
fn pod(n: usize) -> Bytes {
    let mut pod = objects::object(Kind::Pod, SEED, n);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["namespace"] = "default".into();
    if let Some(members) = pod.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        for member in ["managedFields", "generation", "ownerReferences"] {
            metadata.remove(member);
        }
    }
    pod.to_string().into()
}

struct ApiRequest<'a> {
    method: &'static str,
    path: &'a str,
    content_type: Option<&'static str>,
    accept: &'a str,
    body: Bytes,
}

impl<'a> ApiRequest<'a> {
    fn get(path: &'a str, accept: &'a str) -> Self {
        Self { method: "GET", path, content_type: None, accept, body: Bytes::new() }
    }

    fn post(path: &'a str, body: Bytes) -> Self {
        Self { method: "POST", path, content_type: Some(JSON), accept: JSON, body }
    }

    fn merge_patch(path: &'a str, body: Bytes) -> Self {
        Self { method: "PATCH", path, content_type: Some(MERGE_PATCH), accept: JSON, body }
    }
}

/// Sends requests to a server in this process.
struct Connection(ApiService);

impl Connection {
    /// Sends a request that must succeed, and returns the response body.
    async fn call(&mut self, request: ApiRequest<'_>) -> Result<ApiBody, Failure> {
        let ApiRequest { method, path, content_type, accept, body } = request;
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        request = request.header(header::ACCEPT, accept);
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let response = self.0.call(request.body(Full::new(body))?).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let text = response.into_body().collect().await?.to_bytes();
        Err(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&text)).into())
    }

    /// Sends a request that must succeed, reads the response body to its end, and returns its length.
    async fn request(&mut self, request: ApiRequest<'_>) -> Result<usize, Failure> {
        let mut body = self.call(request).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }
}
