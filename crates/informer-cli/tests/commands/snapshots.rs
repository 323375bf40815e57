//! Tests of `informer serve --snapshot`, which restores the state of a previous server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::command::{DEADLINE, Running, run, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn arguments(path: &Path) -> [&str; 6] {
    ["serve", "--json", "--listen", "127.0.0.1:0", "--snapshot", path.to_str().unwrap()]
}

/// Starts `informer serve` with a snapshot file. Returns the running command, and the address that it listens
/// on.
async fn serve(path: &Path) -> (Running, String) {
    let mut serve = start(arguments(path));
    let said = serve.json().await;
    let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    (serve, address)
}

/// Sends one raw HTTP/1.0 request and returns the status and the body of the response. With HTTP/1.0 the
/// response is not chunked.
async fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let reading = stream.read_to_string(&mut text);
    tokio::time::timeout(DEADLINE, reading).await.expect("a response").unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{text}: {error}")))
}

async fn created(address: &str, path: &str, object: Value) -> Value {
    let (status, created) = ask(address, "POST", path, &object.to_string()).await;
    assert_eq!(status, 201, "{created}");
    created
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "websites", "kind": "Website"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test]
async fn snapshot_restores_the_previous_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let (first, address) = serve(&path).await;
    let map = created(&address, MAPS, json!({"metadata": {"name": "settings"}, "data": {"a": "1"}})).await;
    created(&address, DEFINITIONS, definition()).await;
    let website = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "shop"}, "spec": {"host": "h"},
    });
    let website = created(&address, WEBSITES, website).await;
    first.terminate().await;
    let ended = first.ended().await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));

    let (second, address) = serve(&path).await;
    let named = |of: &str, name: &str| format!("{of}/{name}");
    assert_eq!(ask(&address, "GET", &named(MAPS, "settings"), "").await, (200, map.clone()));
    assert_eq!(ask(&address, "GET", &named(WEBSITES, "shop"), "").await, (200, website.clone()));
    let (_, old) =
        ask(&address, "GET", &format!("{MAPS}?watch=1&resourceVersion={}", version(&map)), "").await;
    assert_eq!(old["object"]["code"], 410, "there is no history before it: {old}");
    let next = created(&address, MAPS, json!({"metadata": {"name": "next"}})).await;
    assert!(version(&next) > version(&website), "resourceVersions continue to increase");
    ask(&address, "DELETE", &named(MAPS, "settings"), "").await;
    second.interrupt().await;
    assert_eq!(second.ended().await.code, Some(0));

    let (_third, address) = serve(&path).await;
    assert_eq!(ask(&address, "GET", &named(MAPS, "next"), "").await, (200, next));
    assert_eq!(
        ask(&address, "GET", &named(MAPS, "settings"), "").await.0,
        404,
        "deleted objects stay deleted"
    );
}

#[tokio::test]
async fn a_broken_snapshot_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let (first, address) = serve(&path).await;
    created(&address, MAPS, json!({"metadata": {"name": "settings"}, "data": {"password": "hunter2"}})).await;
    first.terminate().await;
    assert_eq!(first.ended().await.code, Some(0));
    let whole = fs::read_to_string(&path).unwrap();
    let other = whole.replacen("\"informerSnapshot\":1", "\"informerSnapshot\":2", 1);
    for (text, told) in [
        (&whole[..whole.len() - 20], "it is truncated"),
        ("", "it is truncated"),
        ("hunter2", "it is not JSON"),
        ("{}", "its state has an invalid structure"),
        (&other, "of format 2"),
    ] {
        fs::write(&path, text).unwrap();
        let ended = run(arguments(&path)).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
        let shown = path.to_str().unwrap();
        assert!(
            ended.err.contains("cannot restore the state at startup") && ended.err.contains(shown),
            "{}",
            ended.err
        );
        assert!(ended.err.contains(told) && !ended.err.contains("hunter2"), "{}", ended.err);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "an invalid snapshot is not overwritten");
    }
    // The test proves that only the snapshot file caused the error: with a valid file, a server starts with
    // the same arguments.
    fs::write(&path, &whole).unwrap();
    let (_second, address) = serve(&path).await;
    assert_eq!(ask(&address, "GET", &format!("{MAPS}/settings"), "").await.0, 200);
}

#[tokio::test]
async fn a_snapshot_that_could_not_be_written_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(arguments(&folder.path().join("none/state.json"))).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("cannot save the state to") && ended.err.contains("none/state.json"),
        "{}",
        ended.err
    );
}
