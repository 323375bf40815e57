//! Tests that the metrics and labels in the alerting rules, the dashboard and the metrics reference exist: a
//! running manager must serve them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use informer::Gvk;
use informer::prelude::*;
use informer::runtime::client::metrics::prometheus::PrometheusClient;
use informer::runtime::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer::runtime::{
    CachedClient, ClientMetrics, HttpServer, LeaderElection, ManagerStatus, ServerTls, ShardGroup, Tls,
};
use informer::testing::TestServer;
use informer_apiserver::CertificateAuthority;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use promql_parser::label::MatchOp;
use promql_parser::parser::{Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The label names of each served metric, by the name of the metric including suffixes such as `_total` and
/// `_bucket`.
type Served = BTreeMap<String, BTreeSet<String>>;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)).expect(name)
}

/// A reconciler that fails, panics or succeeds, depending on the name of the object. It adds a permit to
/// `calls` for each call, so that the test can wait for a number of calls.
async fn reconcile(request: Request, ctx: Context, calls: Arc<Semaphore>) -> Result<Outcome, ReconcileError> {
    calls.add_permits(1);
    ctx.get::<ConfigMap>(&request.key).await?;
    match request.key.name() {
        "terminal" => Err(ReconcileError::terminal("the object is invalid")),
        "failing" => Err("the backend is not reachable".into()),
        "panicking" => panic!("a panic of the reconciler"),
        _ => Ok(Outcome::Done),
    }
}

async fn allow(_: AdmissionRequest<Secret>) -> Result<Allowed, Denied> {
    Ok(Allowed::new())
}

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map
}

async fn scrape(address: std::net::SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

/// Parses the metrics and labels in the Prometheus text format.
fn series(text: &str) -> Served {
    let mut served = Served::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, _value)) = line.rsplit_once(' ') else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|label| Some(label.split_once("=\"")?.0.to_owned()));
        served.entry(name.to_owned()).or_default().extend(labels);
    }
    served
}

/// Runs a manager with every component that has metrics, and returns the metrics that the manager serves.
async fn served() -> Served {
    let server = TestServer::start().await;
    let authority = CertificateAuthority::new("test").expect("a certificate authority");
    let files = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    let issued = authority.issue_for(["127.0.0.1"]).expect("a certificate");
    fs::write(&certificate, issued.chain()).expect("a writable directory");
    fs::write(&key, issued.key()).expect("a writable directory");
    let hooks = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let hook = format!("https://{}", hooks.local_addr().expect("a bound listener"));
    let tls = Tls::files(certificate, key, rustls::crypto::ring::default_provider());

    let (calls, sharded_calls) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let reconciler = |calls: &Arc<Semaphore>| {
        let calls = Arc::clone(calls);
        move |request, ctx| reconcile(request, ctx, Arc::clone(&calls))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let group = ShardGroup::new("settings").namespace("default").identity("one");
    let manager = Manager::new(server.client())
        .metrics(listener)
        .health(HttpServer::at("127.0.0.1:0").tls(ServerTls::self_signed()))
        .leader_election(LeaderElection::new("operator").namespace("default").identity("one"))
        .controller(Controller::new::<ConfigMap>("settings").reconcile(reconciler(&calls)))
        .controller(
            Controller::new::<ConfigMap>("sharded").sharded(group).reconcile(reconciler(&sharded_calls)),
        )
        .add(WebhookServer::on(hooks, tls).validate(allow));
    let handle = manager.handle();
    let mut status = handle.status();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    status.wait_for(|status| *status == ManagerStatus::Running).await.expect("the manager runs");

    let client: CachedClient = handle.services().client.clone();
    let webhooks = json!({"metadata": {"name": "secrets"}, "webhooks": [{
        "name": "secrets.example.com",
        "clientConfig": {
            "url": format!("{hook}/validate--v1-secret"),
            "caBundle": k8s_openapi::ByteString(authority.certificate().as_bytes().to_vec()),
        },
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }]});
    let webhooks: ValidatingWebhookConfiguration = serde_json::from_value(webhooks).expect("it is valid");
    client.create(&webhooks).await.expect("it is accepted");
    let mut secret = Secret::default();
    (secret.metadata.namespace, secret.metadata.name) = (Some("default".to_owned()), Some("web".to_owned()));
    client.create(&secret).await.expect("the webhook allows it");
    for name in ["done", "terminal", "failing", "panicking"] {
        client.create(&config_map(name)).await.expect("it is valid");
    }
    // Wait for six calls: each controller reconciles four objects, and retries two of them.
    let _calls = calls.acquire_many(6).await.expect("the semaphore is open");
    let _calls = sharded_calls.acquire_many(6).await.expect("the semaphore is open");
    let text = scrape(address).await.expect("metrics");
    handle.stop();
    running.await.expect("no panic").expect("a clean stop");
    let (head, body) = text.split_once("\r\n\r\n").expect("a response");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut served = series(body);
    served.extend(series(&rare_client_metrics()));
    served
}

/// Returns the metrics of a client that has waited for its own writes and received unknown fields, which few
/// clients do.
fn rare_client_metrics() -> String {
    let mut registry = Registry::default();
    let metrics = PrometheusClient::register(&mut registry, "server");
    let kind = Gvk::new("", "v1", "Pod");
    metrics.read_waited(&kind, Duration::from_millis(1), true);
    metrics.unknown_fields(&kind);
    let mut text = String::new();
    encode(&mut text, &registry).expect("the metrics can be encoded");
    text
}

/// Collects the metric selectors of a PromQL expression.
struct Selectors(Vec<VectorSelector>);

impl ExprVisitor for Selectors {
    type Error = ();

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, ()> {
        match expr {
            Expr::VectorSelector(selector) => self.0.push(selector.clone()),
            Expr::MatrixSelector(selector) => self.0.push(selector.vs.clone()),
            _ => {}
        }
        Ok(true)
    }
}

/// Checks that a PromQL expression is valid, and that a manager serves the metrics and labels that it
/// selects.
fn check(expression: &str, served: &Served, problems: &mut Vec<String>) {
    let parsed = match promql_parser::parser::parse(&expression.replace("$__rate_interval", "5m")) {
        Ok(parsed) => parsed,
        Err(problem) => return problems.push(format!("{expression}: {problem}")),
    };
    let mut selectors = Selectors(Vec::new());
    walk_expr(&mut selectors, &parsed).expect("the visitor does not fail");
    for selector in selectors.0 {
        let name = selector.name.unwrap_or_default();
        let Some(labels) = served.get(&name) else {
            problems.push(format!("{expression}: no metric {name}"));
            continue;
        };
        for matcher in selector.matchers.matchers {
            // Prometheus adds the labels `job` and `instance` when it scrapes.
            let added = ["job", "instance"].contains(&matcher.name.as_str());
            if !added && !labels.contains(&matcher.name) {
                problems.push(format!("{expression}: {name} has no label {}", matcher.name));
            }
            // A matcher with a dashboard variable must not use `=`. If a variable has several values, Grafana
            // joins them to a regular expression, which `=` does not match.
            assert!(!matches!(matcher.op, MatchOp::Equal) || !matcher.value.contains('$'), "{expression}");
        }
    }
}

/// Collects the strings of all fields with this name from a JSON value, at any depth.
fn fields<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(name).and_then(Value::as_str));
            object.values().for_each(|value| fields(value, name, found));
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, name, found)),
        _ => {}
    }
}

#[tokio::test]
async fn documented_metrics_exist() {
    let served = served().await;
    let mut problems = Vec::new();

    let alerts: Value = serde_norway::from_str(&document("monitoring/alerts.yaml")).expect("valid YAML");
    let dashboard: Value = serde_json::from_str(&document("monitoring/dashboard.json")).expect("valid JSON");
    let mut expressions = Vec::new();
    fields(&alerts, "expr", &mut expressions);
    fields(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 30, "{}", expressions.len());
    expressions.iter().for_each(|expression| check(expression, &served, &mut problems));

    let mut names = Vec::new();
    fields(&alerts, "alert", &mut names);
    let guide = document("book/src/guides/metrics.md");
    names.retain(|name| !guide.contains(&format!("| `{name}` |")));
    problems.extend(names.iter().map(|name| format!("guides/metrics.md does not list {name}")));

    let reference = document("book/src/reference/metrics.md");
    let names = reference.split('`').skip(1).step_by(2);
    let names = names.filter(|name| name.contains('_') && !name.starts_with('_') && !name.contains('.'));
    for name in names {
        if !served.contains_key(name) && !served.contains_key(&format!("{name}_bucket")) {
            problems.push(format!("reference/metrics.md: no metric {name}"));
        }
    }
    for name in served.keys() {
        let name = name.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count");
        if !reference.contains(&format!("`{name}`")) {
            problems.push(format!("reference/metrics.md does not list {name}"));
        }
    }
    problems.dedup();
    assert!(problems.is_empty(), "{problems:#?}\n{served:#?}");
}
