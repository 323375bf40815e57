//! Tests of `informer console` and `informer top` with a server that runs in the test process.

use informer::Gvr;
use informer_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::{DEADLINE, Running, run, start};

/// Sends a GET request and returns the status and the body of the response.
async fn get(url: &str, path: &str, host: Option<&str>) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let host = host.unwrap_or(address);
    // With HTTP/1.0 the response is not chunked.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut text)).await.expect("a response").unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn console(args: &[&str]) -> (Running, String) {
    let mut console = start(["console"].into_iter().chain(args.iter().copied()));
    let url = console.line().await;
    (console, url)
}

/// Reads a page until it satisfies the predicate.
async fn until(url: &str, path: &str, expected: impl Fn(&Value) -> bool) -> Value {
    let read = async {
        loop {
            let (status, body) = get(url, path, None).await;
            let page: Value =
                serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status} {body}: {error}"));
            if expected(&page) {
                return page;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, read).await.expect("the expected state")
}

#[tokio::test]
async fn own_informers_are_served_and_another_command_attaches_to_them() {
    const SNAPSHOT: &str = "/debug/informer/v1/snapshot";
    const HISTORY: &str = "/debug/informer/v1/history?key=default%2Fa";
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let maps = Gvr::new("", "v1", "configmaps");
    let map = |data: &str| json!({"metadata": {"name": "a"}, "data": {"secret": data}});
    server.create(&maps, "default", map("do-not-show-this")).unwrap();
    let (_own, url) = console(&["cm,nodes", "-A", "--server", &listening.url()]).await;
    // Controllers create their informers one after another, so the manager may run before both exist.
    let is_complete = |page: &Value| {
        page["manager"] == "Running" && page["informers"].as_array().is_some_and(|all| all.len() == 2)
    };
    let snapshot = until(&url, SNAPSHOT, is_complete).await;
    let names: Vec<&str> =
        snapshot["informers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("configmaps")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("nodes")), "{names:?}");

    let (_proxy, proxy) = console(&["--attach", &url]).await;
    let (status, page) = get(&proxy, "/debug/informer/", None).await;
    assert!(status == 200 && page.contains("<!doctype html>"), "{status} {page}");
    let reconciled = |page: &Value| !page["controllers"].as_array().unwrap().is_empty();
    let history = until(&proxy, HISTORY, reconciled).await;
    assert!(!history.to_string().contains("do-not-show-this"), "{history}");
    assert_eq!(get(&proxy, SNAPSHOT, Some("attacker.example")).await.0, 403);
    assert_eq!(get(&proxy, "/metrics", None).await.0, 404);
}

#[tokio::test]
async fn invalid_arguments_of_the_live_commands_are_refused() {
    for command in ["top", "console"] {
        assert_eq!(run([command]).await.code, Some(2), "{command} needs kinds or --attach");
        let both = run([command, "pods", "--attach", "http://127.0.0.1:1"]).await;
        assert_eq!(both.code, Some(2), "{}", both.err);
    }
    let top = run(["top", "--attach", "http://127.0.0.1:1"]).await;
    assert!(top.code == Some(1) && top.err.contains("needs a terminal"), "{}", top.err);
}
