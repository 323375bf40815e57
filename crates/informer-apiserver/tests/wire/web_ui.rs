//! The web UI: its data, its actions, and who may use them.

use informer_apiserver::{ApiServer, FaultMatch, Tokens, User};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{Watch, call, json, read, send, send_with};

const STATE: &str = "/debug/apiserver/v1/state";
const ACTIONS: &str = "/debug/apiserver/v1/actions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::builder().web_ui(true).build()
}

fn config_maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

/// Executes an action. Returns the status of the response, and the message in its body.
async fn act(server: &ApiServer, action: Value) -> (u16, String) {
    let headers = [("content-type", "application/json")];
    let response = send_with(server, "POST", ACTIONS, &headers, &action.to_string()).await;
    let (status, body) = read(response).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    (status, body["message"].as_str().unwrap().to_owned())
}

async fn state(server: &ApiServer) -> Value {
    let (status, state) = json(server, "GET", STATE, "").await;
    assert_eq!(status, 200, "{state}");
    state
}

#[tokio::test]
async fn the_state_has_requests_watches_kinds_and_versions() {
    let server = server();
    call(&server, "POST", MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    call(&server, "GET", &format!("{MAPS}/missing"), "").await;
    let watch = Watch::open(&server, &format!("{MAPS}?watch=true")).await;
    let state = state(&server).await;
    let requests = state["requests"].as_array().unwrap();
    let shown: Vec<_> = requests.iter().map(|one| (one["verb"].clone(), one["status"].clone())).collect();
    let expected = [(json!("create"), json!(201)), (json!("get"), json!(404)), (json!("watch"), json!(200))];
    assert_eq!(shown, expected);
    assert_eq!(requests[0]["resource"], "configmaps");
    assert_eq!(requests[0]["path"], MAPS);
    assert_eq!(state["openWatches"], 1);
    assert_eq!(state["watches"][0]["number"], 3);
    let maps = state["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "ConfigMap").unwrap();
    assert_eq!((&maps["objects"], &maps["events"]), (&json!(1), &json!(1)));
    assert_eq!(state["resourceVersion"], server.version());
    let (_, later) = json(&server, "GET", &format!("{STATE}?after=2"), "").await;
    assert_eq!(later["requests"].as_array().unwrap().len(), 1, "{later}");
    drop(watch);
    assert_eq!(self::state(&server).await["openWatches"], 0);
}

#[tokio::test]
async fn web_ui_requests_bypass_request_log_and_faults() {
    let server = server();
    let fault = server.faults().on(FaultMatch::default()).status(503);
    let (status, page) = call(&server, "GET", "/debug/apiserver/", "").await;
    assert_eq!(status, 200);
    assert!(page.contains("server.js"), "{page}");
    state(&server).await;
    assert_eq!((server.requests().len(), fault.matched()), (0, 0));
    assert_eq!(call(&server, "GET", MAPS, "").await.0, 503);
}

#[tokio::test]
async fn fault_rules_are_added_counted_and_removed() {
    let server = server();
    let rules = "- match: {verb: get}\n  when: {times: 1}\n  action: {status: {code: 429}}\n";
    assert_eq!(act(&server, json!({"action": "addFaults", "rules": rules})).await.0, 200);
    assert_eq!(call(&server, "GET", &format!("{MAPS}/a"), "").await.0, 429);
    assert_eq!(call(&server, "GET", &format!("{MAPS}/a"), "").await.0, 404);
    let state = state(&server).await;
    let fault = &state["faults"][0];
    assert_eq!((&fault["matched"], &fault["fired"]), (&json!(2), &json!(1)));
    assert_eq!(fault["rule"]["match"], json!({"verb": "get"}));
    let remove = json!({"action": "removeFault", "number": fault["number"]});
    assert_eq!(act(&server, remove.clone()).await.0, 200);
    let (status, message) = act(&server, remove).await;
    assert_eq!((status, message.as_str()), (400, "cannot remove fault rule 1: it is not active"));
    let (status, message) =
        act(&server, json!({"action": "addFaults", "rules": "- action: {explode: {}}"})).await;
    assert_eq!(status, 400);
    assert!(message.contains("explode"), "{message}");
}

#[tokio::test]
async fn a_fault_is_injected_into_one_open_watch() {
    let server = server();
    let mut first = Watch::open(&server, &format!("{MAPS}?watch=true")).await;
    let mut second = Watch::open(&server, &format!("{MAPS}?watch=true")).await;
    let (status, message) =
        act(&server, json!({"action": "inject", "watch": 1, "fault": {"expire": {}}})).await;
    assert_eq!((status, message.as_str()), (200, "Injected the fault into watch 1."));
    assert!(first.line().await.unwrap().contains("410"));
    server.create(&config_maps(), "default", json!({"metadata": {"name": "a"}})).unwrap();
    assert!(second.line().await.unwrap().contains("ADDED"));
    let (status, message) =
        act(&server, json!({"action": "inject", "watch": 9, "fault": {"expire": {}}})).await;
    assert_eq!(status, 400);
    assert!(message.contains("watch 9"), "{message}");
}

#[tokio::test]
async fn rewind_and_compact_actions_change_the_history() {
    let server = server();
    server.create(&config_maps(), "default", json!({"metadata": {"name": "a"}})).unwrap();
    let before = server.version();
    server.create(&config_maps(), "default", json!({"metadata": {"name": "b"}})).unwrap();
    assert_eq!(act(&server, json!({"action": "rewind", "version": before})).await.0, 200);
    assert_eq!(server.version(), before);
    assert!(server.get(&config_maps(), "default", "b").is_err());
    assert_eq!(act(&server, json!({"action": "compact"})).await.0, 200);
    server.create(&config_maps(), "default", json!({"metadata": {"name": "c"}})).unwrap();
    assert_eq!(state(&server).await["oldestVersion"], before);
    let (status, message) = act(&server, json!({"action": "rewind", "version": 1})).await;
    assert_eq!(status, 400);
    assert!(message.contains("the history begins at"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_clock_moves_forward_until_events_expire() {
    let server = server();
    let events = Gvr::new("", "v1", "events");
    server.create(&events, "default", json!({"metadata": {"name": "started"}, "reason": "Started"})).unwrap();
    assert_eq!(act(&server, json!({"action": "advance", "seconds": 3600})).await.0, 200);
    assert!(server.list(&events, "default").unwrap().is_empty());
    assert_eq!(act(&server, json!({"action": "advance", "seconds": u64::MAX})).await.0, 400);
}

#[tokio::test]
async fn cross_site_action_is_rejected() {
    let server = server();
    let action = r#"{"action":"compact"}"#;
    let refused: [(&[(&str, &str)], u16); 3] = [
        (&[("content-type", "text/plain")], 415),
        (&[], 415),
        (&[("content-type", "application/json"), ("sec-fetch-site", "cross-site")], 403),
    ];
    for (headers, expected) in refused {
        let (status, body) = read(send_with(&server, "POST", ACTIONS, headers, action).await).await;
        assert_eq!(status, expected, "{headers:?}: {body}");
    }
    assert_eq!(call(&server, "GET", ACTIONS, "").await.0, 405);
    assert_eq!(call(&server, "POST", STATE, "").await.0, 405);
    let (status, message) = act(&server, json!({"action": "compact", "version": 1})).await;
    assert_eq!(status, 400);
    assert!(message.contains("cannot read the action"), "{message}");
}

#[tokio::test]
async fn web_ui_requires_rbac_permission_for_its_paths() {
    let mut tokens = Tokens::default();
    tokens.add("secret", User::new("alice"));
    let server = ApiServer::builder().web_ui(true).tokens(tokens).rbac(true).build();
    assert_eq!(call(&server, "GET", STATE, "").await.0, 403, "anonymous");
    let headers = [("authorization", "Bearer secret")];
    let (status, body) = read(send_with(&server, "GET", STATE, &headers, "").await).await;
    assert_eq!(status, 403);
    assert!(body.contains("cannot get path"), "{body}");
}

#[tokio::test]
async fn web_ui_is_off_by_default_and_loads_only_its_own_files() {
    assert_eq!(call(&ApiServer::builder().build(), "GET", "/debug/apiserver/", "").await.0, 404);
    let server = server();
    let response = send(&server, "GET", "/debug/apiserver/", "").await;
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    let redirect = send(&server, "GET", "/debug/apiserver", "").await;
    assert_eq!(
        (redirect.status().as_u16(), &redirect.headers()["location"]),
        (308, &"apiserver/".parse().unwrap())
    );
    assert_eq!(call(&server, "GET", "/debug/apiserver/none.js", "").await.0, 404);
}
