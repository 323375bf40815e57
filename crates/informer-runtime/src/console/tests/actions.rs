//! Tests of the actions over HTTP.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http_body_util::Full;
use informer_apiserver::{Tokens, User};
use informer_cache::InformerState;
use informer_cache::reflector::RelistReason;
use informer_client::Dynamic;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tower::ServiceExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use super::super::ConsoleRoutes;
use super::super::actions::ActionKind;
use super::*;
use crate::{ListOptions, Request, ResourceKind, ShardGroup};

pub(super) const REQUEUE: &str = "requeue";
const KEY: &str = r#"{"controller": "rotate", "key": "default/s"}"#;
const LOCAL: &str = "host: localhost\r\ncontent-type: application/json\r\n";

pub(super) fn allowed(server: HttpServer) -> Console {
    Console::from(server).allow_actions(true)
}

impl Running {
    /// Sends an action with these headers, and returns the status and the body of the response.
    pub(super) async fn post(&self, action: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
        let length = body.len();
        let head = format!("POST /debug/informer/v1/actions/{action} HTTP/1.1\r\nconnection: close\r\n");
        let request = format!("{head}{headers}content-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a text response");
        let (head, body) = response.split_once("\r\n\r\n").expect("a response");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Returns the headers of an action with the token of a snapshot.
    pub(super) async fn headers(&self) -> String {
        let snapshot = self.json("/debug/informer/v1/snapshot").await;
        let token = snapshot["actions"]["token"].as_str().expect("a token");
        format!("{LOCAL}x-informer-token: {token}\r\n")
    }
}

/// A log subscriber that records the fields of the events of actions as `name=value ...`.
#[derive(Clone, Default)]
struct ActionLog(Arc<Mutex<Vec<String>>>);

struct LoggedFields(String);

impl Visit for LoggedFields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl tracing::Subscriber for ActionLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().ends_with("console::actions")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = LoggedFields(String::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn actions_are_refused_by_default() {
    let running = running(here(), 2).await;
    assert_eq!(running.json("/debug/informer/v1/snapshot").await["actions"], json!(null));
    for action in ["requeue", "relist", "drop"] {
        let (status, problem) = running.post(action, LOCAL, KEY).await;
        assert!(status == 403 && problem.contains("Console::allow_actions"), "{action}: {status} {problem}");
    }
    running.stop().await;
}

#[tokio::test]
async fn actions_of_other_sites_and_without_the_token_are_refused() {
    let running = running(allowed(here()), 2).await;
    let headers = running.headers().await;
    let foreign = headers.replace("host: localhost", "host: attacker.example");
    let untyped = headers.replace("application/json", "text/plain");
    let origin = |origin: &str| format!("{headers}origin: {origin}\r\n");
    let form = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n";
    for (headers, status, part) in [
        (LOCAL, 403, "X-Informer-Token is missing or wrong"),
        (&format!("{LOCAL}x-informer-token: 0\r\n"), 403, "X-Informer-Token is missing or wrong"),
        (&origin("https://attacker.example"), 403, "another site"),
        (&origin("http://localhost:1"), 403, "another site"),
        (&origin("null"), 403, "another site"),
        (&foreign, 403, "not a name of this server"),
        (&format!("{headers}{form}"), 403, "another site"),
        (&format!("{headers}sec-fetch-site: same-site\r\n"), 403, "another site"),
        (&untyped, 415, "Content-Type"),
        (&headers.replace("application/json", "application/jsonp"), 415, "Content-Type"),
    ] {
        let (found, problem) = running.post(REQUEUE, headers, KEY).await;
        assert!(found == status && problem.contains(part), "{headers}: {found} {problem}");
    }
    assert!(running.get("/debug/informer/v1/actions/requeue").await.starts_with("HTTP/1.1 405"));
    assert_eq!(running.count.0.load(Ordering::Relaxed), 2, "no request was enqueued");
    running.stop().await;
}

#[tokio::test]
async fn accepted_requeue_reconciles_the_key_and_is_logged() {
    let log = ActionLog::default();
    let _here = tracing::subscriber::set_default(log.clone());
    // With only one subscriber in the process, the thread that first reaches a log statement decides for all
    // threads whether it is recorded.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let running = running(allowed(here()), 2).await;
    running.succeeded(1).await;
    let headers = format!("{}origin: http://localhost\r\n", running.headers().await);
    let headers = headers.replace("application/json", "Application/JSON; charset=utf-8");
    let (status, body) = running.post(REQUEUE, &headers, KEY).await;
    assert_eq!((status, body.as_str()), (200, r#"{"message":"enqueued default/s in controller rotate"}"#));
    running.reconciled(3).await;
    running.succeeded(2).await;
    let history = running.data.history("default/s");
    let last = history.controllers[0].reconciles.last().expect("a reconcile");
    assert_eq!(last.causes, ["enqueued in the console"]);
    let unknown = KEY.replace("rotate", "other");
    assert_eq!(running.post(REQUEUE, &headers, &unknown).await.0, 404);
    for invalid in ["", "{}", r#"{"controller": "rotate", "key": ""}"#, r#"{"controller": 1, "key": "a"}"#] {
        assert_eq!(running.post(REQUEUE, &headers, invalid).await.0, 400, "{invalid}");
    }
    let lines = log.0.lock().clone();
    assert!(lines[0].contains(r#"action="requeue" user="-""#) && lines[0].contains("default/s"), "{lines:?}");
    assert!(lines[1].contains("there is no controller"), "{lines:?}");
    running.stop().await;
}

#[tokio::test]
async fn relist_sends_a_list_with_the_reason_requested() {
    let running = running(allowed(here()), 2).await;
    let headers = running.headers().await;
    let (status, body) = running.post("relist", &headers, r#"{"informer": "secrets.v1"}"#).await;
    assert_eq!(status, 200, "{body}");
    while running.data.snapshot().informers[0].relists.get("requested") != Some(&1) {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.post("relist", &headers, r#"{"informer": "pods.v1"}"#).await.0, 404);
    running.stop().await;
}

#[tokio::test]
async fn drop_removes_only_an_unused_informer() {
    let running = running(allowed(here()), 2).await;
    let headers = running.headers().await;
    let (status, problem) = running.post("drop", &headers, r#"{"informer": "secrets.v1"}"#).await;
    assert!(status == 409 && problem.contains("the informer is in use"), "{status} {problem}");
    let cache = running.handle.services().cache.clone();
    cache.list::<ConfigMap>(&ListOptions::default()).await.expect("a read creates an informer");
    let names = || -> Vec<String> { cache.states().into_iter().map(|state| state.name).collect() };
    assert_eq!(names(), ["configmaps.v1", "secrets.v1"]);
    let (status, body) = running.post("drop", &headers, r#"{"informer": "configmaps.v1"}"#).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(names(), ["secrets.v1"]);
    assert_eq!(running.post("drop", &headers, r#"{"informer": "configmaps.v1"}"#).await.0, 404);
    running.stop().await;
}

#[tokio::test]
async fn open_server_runs_actions_only_on_a_loopback_address() {
    let running = running(allowed(HttpServer::at("0.0.0.0:0")), 2).await;
    let snapshot = running.json("/debug/informer/v1/snapshot").await;
    assert_eq!(snapshot["actions"], json!(null), "the page has no buttons");
    let (status, problem) = running.post(REQUEUE, LOCAL, KEY).await;
    assert!(status == 403 && problem.contains("HttpServer::authorized_by"), "{status} {problem}");
    running.stop().await;
}

/// Returns an API server on which the user `viewer` may read the console and `admin` may do everything, and
/// a client that may create reviews.
fn cluster() -> (ApiServer, Client) {
    let mut tokens = Tokens::default();
    tokens.add("admin", User::new("jane").groups(["system:masters"]));
    tokens.add("viewer", User::new("joe").groups(["viewers"]));
    let server = ApiServer::builder().tokens(tokens).rbac(true).build();
    let rbac = |resource: &str| Gvr::new("rbac.authorization.k8s.io", "v1", resource);
    let rules = json!([{"nonResourceURLs": ["/debug/informer/v1/*"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "viewer"}, "rules": rules});
    server.create(&rbac("clusterroles"), "", role).expect("a valid object");
    let binding = json!({
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "viewers"}],
    });
    server.create(&rbac("clusterrolebindings"), "", binding).expect("a valid object");
    let service = server.service().map_request(|mut request: http::Request<Full<Bytes>>| {
        request.headers_mut().insert(AUTHORIZATION, http::HeaderValue::from_static("Bearer admin"));
        request
    });
    (server, Client::from_service(service, "default"))
}

#[tokio::test]
async fn action_of_an_authorizing_server_needs_the_permission_to_post() {
    let (_server, reviewer) = cluster();
    let running = running(allowed(here().authorized_by(reviewer).plain_http()), 2).await;
    let bearer = "host: localhost\r\nauthorization: Bearer viewer\r\n";
    let response = request(running.address, "/debug/informer/v1/snapshot", bearer).await;
    let (_, page) = response.split_once("\r\n\r\n").expect("a response");
    let page: Value = serde_json::from_str(page).expect("JSON");
    let token = page["actions"]["token"].as_str().expect("a token").to_owned();
    let headers =
        |bearer: &str| format!("{LOCAL}x-informer-token: {token}\r\nauthorization: Bearer {bearer}\r\n");
    assert_eq!(running.post(REQUEUE, LOCAL, KEY).await.0, 401);
    assert_eq!(running.post(REQUEUE, &headers("viewer"), KEY).await.0, 403);
    let log = ActionLog::default();
    let _here = tracing::subscriber::set_default(log.clone());
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    assert_eq!(running.post(REQUEUE, &headers("admin"), KEY).await.0, 200);
    assert!(log.0.lock()[0].contains(r#"user="jane""#), "{:?}", log.0.lock());
    running.stop().await;
}

/// Calls the actions of a manager without a socket, so that the test runs in paused time.
pub(super) fn routes(manager: &Manager) -> ConsoleRoutes {
    ConsoleRoutes {
        data: manager.console_data(),
        listeners: Arc::default(),
        open_address: None,
        token: Some("secret".to_owned()),
        audit: None,
        shows_objects: true,
        reads: Arc::new(tokio::sync::Semaphore::new(1)),
    }
}

/// Returns the status and the body of the response to an action.
fn act(routes: &ConsoleRoutes, action: ActionKind, body: &Value) -> (u16, String) {
    let request = http::Request::post("/")
        .header("content-type", "application/json")
        .header("x-informer-token", "secret")
        .body(Bytes::from(body.to_string()))
        .expect("a valid request");
    let response = routes.act(action, &request);
    let body = String::from_utf8_lossy(response.body()).into_owned();
    (response.status().as_u16(), body)
}

#[tokio::test(start_paused = true)]
async fn requeue_of_a_key_succeeds_only_in_the_replica_that_owns_it() {
    let server = ApiServer::builder().build();
    let reconciled = Arc::new(Mutex::new(Vec::new()));
    let replicas: Vec<_> = (0..2)
        .map(|number| {
            let reconciled = Arc::clone(&reconciled);
            let controller = Controller::new::<ConfigMap>("maps").sharded(ShardGroup::new("maps"));
            let controller = controller.reconcile(move |request: Request, _| {
                reconciled.lock().push((number, request.to_string()));
                async { Ok(Outcome::Done) }
            });
            let client = Client::from_service(server.service(), "default");
            let manager = Manager::new(client).controller(controller);
            let routes = routes(&manager);
            tokio::spawn(manager.run_until(std::future::pending::<()>()));
            routes
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut owners = [0; 2];
    for key in (0..40).map(|number| format!("default/map-{number}")) {
        let body = json!({"controller": "maps", "key": key});
        let responses: Vec<_> =
            replicas.iter().map(|routes| act(routes, ActionKind::Requeue, &body)).collect();
        let owner = responses.iter().position(|(status, _)| *status == 200).expect("an owner");
        let (status, problem) = &responses[1 - owner];
        assert!(*status == 409 && problem.contains("the key belongs to another replica"), "{responses:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reconciled.lock().pop(), Some((owner, key)));
        owners[owner] += 1;
    }
    assert!(owners[0] > 0 && owners[1] > 0, "each replica owns some of the keys: {owners:?}");
    assert!(reconciled.lock().is_empty(), "each key was reconciled once");
}

#[tokio::test(start_paused = true)]
async fn actions_on_the_name_of_two_informers_are_rejected() {
    let server = ApiServer::builder().build();
    let manager = Manager::new(Client::from_service(server.service(), "default"));
    let routes = routes(&manager);
    let cache = manager.handle().services().cache.clone();
    cache.start();
    // Typed and dynamic objects of a kind have informers of the same name.
    let (kind, all) = (ResourceKind::of::<ConfigMap>(), ListOptions::default());
    cache.list::<ConfigMap>(&all).await.expect("a read creates an informer");
    cache.list_of::<Dynamic>(kind, &all).await.expect("a read creates an informer");
    for action in [ActionKind::Relist, ActionKind::Drop] {
        let (status, problem) = act(&routes, action, &json!({"informer": "configmaps.v1"}));
        let expected = "configmaps.v1: several informers have this name";
        assert!(status == 409 && problem.contains(expected), "{status} {problem}");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let relists = |state: InformerState| state.reflector.relists.get(RelistReason::Requested);
    assert_eq!(cache.states().into_iter().map(relists).collect::<Vec<_>>(), [0, 0]);
}
