//! Uses a real server instead of the embedded one, filled with the same objects and changed on command.
//!
//! Objects are written as in a cluster: one field manager creates them, and another writes their status, so
//! that the server generates their managed fields.

use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use informer::client::{Client, ResourceKind};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, interval};

use super::arguments::Kind;
use super::tally::LABEL;
use super::{Failure, config_of, control, gauge, objects, resource};

const WRITERS: usize = 24;
const SEED: u64 = 1;
/// Number of attempts until a CRD is served, and the pause between them.
const ASKS: u32 = 100;
const APART: Duration = Duration::from_millis(100);
/// The number of clock ticks per second. `/proc` reports processor times in clock ticks.
const TICKS_A_SECOND: f64 = 100.0;

struct Remote {
    client: Client,
    kind: Kind,
    resource: ResourceKind,
    objects: usize,
    pids: Vec<u32>,
}

pub(super) async fn remote(
    kubeconfig: &Path,
    kind: Kind,
    objects: usize,
    pids: &[u32],
) -> Result<(), Failure> {
    let client = Client::new(config_of(kubeconfig).await?)?;
    let remote = Remote { client, kind, resource: resource(kind, 0), objects, pids: pids.to_vec() };
    let remote = Arc::new(remote);
    remote.fill().await?;
    let control = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", json!({"server": "", "control": control.local_addr()?.to_string()}));
    loop {
        let (stream, _) = control.accept().await?;
        let remote = Arc::clone(&remote);
        tokio::spawn(control::respond(stream, move |line| {
            let remote = Arc::clone(&remote);
            async move { remote.command(&line).await }
        }));
    }
}

impl Remote {
    async fn fill(&self) -> Result<(), Failure> {
        let last = self.path(self.objects - 1, "");
        if self.send(Method::GET, &last, "", &Value::Null).await? == 200 {
            return Ok(());
        }
        if self.kind == Kind::Crd {
            self.define().await?;
        }
        for n in 0..objects::NAMESPACES {
            let namespace = json!({"metadata": {"name": format!("team-{n:02}")}});
            self.send(Method::POST, "/api/v1/namespaces", "", &namespace).await?;
        }
        stream::iter(0..self.objects)
            .map(|n| async move { self.create(n).await })
            .buffer_unordered(WRITERS)
            .try_collect::<()>()
            .await
    }

    /// Creates the CRD of the custom resource, and waits until the server serves it.
    async fn define(&self) -> Result<(), Failure> {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": format!("widgets.{}", objects::GROUP)},
            "spec": {
                "group": objects::GROUP, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}}],
            },
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.send(Method::POST, path, "", &definition).await?;
        let path = format!("{}?limit=1", self.resource.gvr().path(None));
        for _ in 0..ASKS {
            if self.send(Method::GET, &path, "", &Value::Null).await? == 200 {
                return Ok(());
            }
            tokio::time::sleep(APART).await;
        }
        Err("the server does not serve the created CRD".into())
    }

    async fn create(&self, n: usize) -> Result<(), Failure> {
        let mut object = objects::object(self.kind, SEED, n);
        object["apiVersion"] = Value::from(self.resource.gvr().api_version());
        object["kind"] = Value::from(self.resource.kind());
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let namespace = objects::namespace_of(self.kind, n);
        let collection =
            self.resource.gvr().path(Some(&*namespace).filter(|namespace| !namespace.is_empty()));
        let path = format!("{collection}?fieldManager=kube-controller-manager");
        let status = self.send(Method::POST, &path, "application/json", &object).await?;
        if !matches!(status, 201 | 409) {
            return Err(format!("the server responds with {status} to the creation of object {n}").into());
        }
        if matches!(self.kind, Kind::Pod | Kind::Node) {
            let path = self.path(n, "/status?fieldManager=kubelet");
            let patch = json!({"status": object["status"]});
            let status = self.send(Method::PATCH, &path, "application/merge-patch+json", &patch).await?;
            if status != 200 {
                return Err(
                    format!("the server responds with {status} to the status update of object {n}").into()
                );
            }
        }
        Ok(())
    }

    fn path(&self, n: usize, after: &str) -> String {
        let namespace = objects::namespace_of(self.kind, n);
        let collection =
            self.resource.gvr().path(Some(&*namespace).filter(|namespace| !namespace.is_empty()));
        format!("{collection}/{}{after}", objects::name_of(n))
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> Result<u16, Failure> {
        let content = if content.is_empty() { "application/json" } else { content };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
        let response = self.client.request(request.body(body.into())?).await?;
        let status = response.status().as_u16();
        // The body is read to its end, so that the connection can be used again.
        response
            .into_body()
            .collect()
            .await
            .map_err(|error| format!("the response was truncated: {error}"))?;
        Ok(status)
    }

    /// Changes one object after the other at a rate per second, without waiting for acknowledgments. Returns
    /// the p50 and p99 of the time until a write is acknowledged, in microseconds.
    async fn paced(self: &Arc<Self>, count: usize, a_second: usize) -> Result<String, Failure> {
        let mut ticks = interval(Duration::from_secs(1) / u32::try_from(a_second.max(1))?);
        let mut writes = JoinSet::new();
        for n in 0..count {
            ticks.tick().await;
            let remote = Arc::clone(self);
            writes.spawn(async move { remote.change(n % remote.objects).await });
        }
        let mut delays = Vec::with_capacity(count);
        while let Some(delay) = writes.join_next().await {
            delays.push(delay??);
        }
        delays.sort_unstable();
        let at = |part: usize| delays[delays.len() * part / 100].as_micros();
        Ok(format!("ok {} {}", at(50), at(99)))
    }

    async fn change(&self, n: usize) -> Result<Duration, Failure> {
        let path = self.path(n, "");
        let (start, sent) = (Instant::now(), gauge::stamp());
        let patch = json!({"metadata": {"labels": {LABEL: sent}}});
        match self.send(Method::PATCH, &path, "application/merge-patch+json", &patch).await? {
            200 => Ok(start.elapsed()),
            status => Err(format!("the server responds with {status} to a change of object {n}").into()),
        }
    }

    /// Runs a command of the control port of `serve`, as far as a real server supports it.
    async fn command(self: &Arc<Self>, line: &str) -> Result<String, Failure> {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = |or: usize| words.next().map_or(Ok(or), str::parse::<usize>);
        match name {
            "cpu" => Ok(format!("{:.0}", self.pids.iter().map(|&pid| cpu_of(pid)).sum::<f64>() * 1e9)),
            "prepare" => Ok("0".to_owned()),
            "paced" => self.paced(number(1000)?, number(100)?).await,
            _ => Err(format!("unknown command: {line}").into()),
        }
    }
}

/// Returns the processor time of another process so far, in seconds.
fn cpu_of(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The fields are counted after the program name, which may contain spaces and parentheses.
    let fields: Vec<_> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / TICKS_A_SECOND
}
