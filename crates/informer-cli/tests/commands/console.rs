//! Tests of `informer console` and `informer top` with a server that runs in the test process.

use informer::Gvr;
use informer_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::command::{DEADLINE, Running, run, start};

fn address_of(url: &str) -> &str {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}

/// Sends a GET request and returns the status and the body of the response.
async fn get(url: &str, path: &str, host: Option<&str>) -> (u16, String) {
    let host = host.unwrap_or_else(|| address_of(url));
    // With HTTP/1.0 the response is not chunked.
    send(url, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")).await
}

/// Sends an action to a console and returns the status and the body of the response.
async fn post(url: &str, action: &str, token: &str, body: &Value) -> (u16, String) {
    post_to(url, &format!("actions/{action}"), token, body).await
}

async fn post_to(url: &str, path: &str, token: &str, body: &Value) -> (u16, String) {
    let (host, body) = (address_of(url), body.to_string());
    let length = body.len();
    let head = format!("POST /debug/informer/v1/{path} HTTP/1.0\r\nHost: {host}\r\n");
    let types = format!("Content-Type: application/json\r\nX-Informer-Token: {token}\r\n");
    send(url, &format!("{head}{types}Content-Length: {length}\r\n\r\n{body}")).await
}

async fn send(url: &str, request: &str) -> (u16, String) {
    let (head, body) = exchange(url, request).await;
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// Sends a request and returns the head and the body of the response.
async fn exchange(url: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address_of(url)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut text)).await.expect("a response").unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
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
async fn actions_need_the_option_of_the_console_and_of_the_proxy() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let (_own, url) = console(&["cm", "-A", "--allow-actions", "--server", &listening.url()]).await;
    let is_running = |page: &Value| page["controllers"][0]["phase"] == "Running";
    let snapshot = until(&url, "/debug/informer/v1/snapshot", is_running).await;
    let token = snapshot["actions"]["token"].as_str().expect("a token");
    let body = json!({"controller": snapshot["controllers"][0]["name"], "key": "default/a"});
    let (_reading, reading) = console(&["--attach", &url]).await;
    let (status, problem) = post(&reading, "requeue", token, &body).await;
    assert!(status == 403 && problem.contains("--allow-actions"), "{status} {problem}");
    let (_acting, acting) = console(&["--attach", &url, "--allow-actions"]).await;
    let (status, done) = post(&acting, "requeue", token, &body).await;
    assert!(status == 200 && done.contains("enqueued default/a"), "{status} {done}");
    assert_eq!(post(&acting, "requeue", "other", &body).await.0, 403);
}

/// Reads the events of several programs until the predicate is true for one.
async fn event(url: &str, expected: impl Fn(&Value) -> bool) -> Value {
    let mut stream = TcpStream::connect(address_of(url)).await.unwrap();
    let host = address_of(url);
    let request = format!("GET /debug/informer/v1/targets/events HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let read = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
            if expected(&event) {
                return event;
            }
        }
        panic!("the stream ended");
    };
    timeout(DEADLINE, read).await.expect("the expected event")
}

#[tokio::test]
async fn replicas_are_shown_in_one_view_and_an_unreachable_one_does_not_affect_others() {
    const TARGETS: &str = "/debug/informer/v1/targets";
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let own = ["cm", "-A", "--allow-actions", "--server"];
    let (_first, first) = console(&[&own[..], &[&listening.url()]].concat()).await;
    let (_second, second) = console(&[&own[..], &[&listening.url()]].concat()).await;
    let unreachable = "http://127.0.0.1:1";
    let attach = ["--attach", &first, "--attach", &second, "--attach", unreachable];
    let (_proxy, proxy) = console(&attach).await;
    let (status, page) = get(&proxy, "/debug/informer/", None).await;
    assert!(status == 200 && page.contains("<!doctype html>"), "{status} {page}");
    let list: Value = serde_json::from_str(&get(&proxy, TARGETS, None).await.1).unwrap();
    let names = [address_of(&first), address_of(&second), "127.0.0.1:1"].map(|name| json!({"name": name}));
    assert_eq!(list, json!({"targets": names}));
    for target in [0, 1] {
        let is_running = |event: &Value| {
            event["target"] == target && event["snapshot"]["informers"][0]["synced"] == json!(true)
        };
        let event = event(&proxy, is_running).await;
        assert_eq!(event["snapshot"]["actions"], Value::Null, "the proxy allows no actions");
        let history = format!("{TARGETS}/{target}/history?key=default%2Fa");
        until(&proxy, &history, |page| page["controllers"].is_array()).await;
    }
    let failed = event(&proxy, |event| event["target"] == 2).await;
    assert!(failed["error"].as_str().is_some_and(|error| !error.is_empty()), "{failed}");
    let (status, problem) = get(&proxy, &format!("{TARGETS}/2/history?key=a"), None).await;
    assert!(status == 502 && problem.contains("127.0.0.1:1"), "{status} {problem}");
    for path in [TARGETS.to_owned(), format!("{TARGETS}/events"), format!("{TARGETS}/0/history?key=a")] {
        assert_eq!(get(&proxy, &path, Some("attacker.example")).await.0, 403, "{path}");
    }
    assert_eq!(get(&proxy, &format!("{TARGETS}/3/history?key=a"), None).await.0, 404);

    let (_acting, acting) = console(&[&attach[..], &["--allow-actions"]].concat()).await;
    let has_token = |event: &Value| event["target"] == 1 && event["snapshot"]["controllers"][0].is_object();
    let snapshot = event(&acting, has_token).await["snapshot"].take();
    let token = snapshot["actions"]["token"].as_str().expect("a token");
    let body = json!({"controller": snapshot["controllers"][0]["name"], "key": "default/a"});
    let (status, problem) = post_to(&acting, "targets/0/actions/requeue", token, &body).await;
    assert!(status == 403, "each replica has its own token: {status} {problem}");
    let (status, done) = post_to(&acting, "targets/1/actions/requeue", token, &body).await;
    assert!(status == 200 && done.contains("enqueued default/a"), "{status} {done}");
    let (status, problem) = post_to(&proxy, "targets/1/actions/requeue", token, &body).await;
    assert!(status == 403 && problem.contains("--allow-actions"), "{status} {problem}");
}

/// Serves responses that a program with a console does not send: a page with a script, and a redirect.
async fn hostile_target(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap_or_default();
        let redirects = String::from_utf8_lossy(&request[..length]).contains("key=redirect");
        let status =
            if redirects { "302 Found\r\nLocation: /debug/informer/v1/targets/1/history" } else { "200 OK" };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n");
        let body = "<script>alert(1)</script>";
        let response = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let _ = stream.write_all(response.as_bytes()).await;
    }
}

#[tokio::test]
async fn one_of_several_targets_can_neither_send_a_page_nor_redirect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hostile = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(hostile_target(listener));
    let (_proxy, proxy) = console(&["--attach", &hostile, "--attach", "http://127.0.0.1:1"]).await;
    let host = address_of(&proxy);
    let history = |key: &str| {
        format!("GET /debug/informer/v1/targets/0/history?key={key} HTTP/1.0\r\nHost: {host}\r\n\r\n")
    };
    let (head, _) = exchange(&proxy, &history("page")).await;
    let head = head.to_lowercase();
    assert!(head.starts_with("http/1.0 200") && head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("nosniff") && head.contains("default-src 'none'"), "{head}");
    let (head, problem) = exchange(&proxy, &history("redirect")).await;
    assert!(!head.to_lowercase().contains("location"), "{head}");
    assert!(head.contains(" 502 ") && problem.contains("302"), "{head} {problem}");
    let failed = event(&proxy, |event| event["target"] == 0).await;
    let expected = "the stream ended without an event; check the URL of --attach";
    assert_eq!(failed["error"], expected);
    task.abort();
}

#[tokio::test]
async fn objects_of_own_informers_need_the_option() {
    const OBJECT: &str = "/debug/informer/v1/object?informer=configmaps.v1&key=default%2Fa";
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let map = json!({"metadata": {"name": "a"}, "data": {"color": "red"}});
    server.create(&Gvr::new("", "v1", "configmaps"), "default", map).unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "do-not-show-this"}});
    server.create(&Gvr::new("", "v1", "secrets"), "default", secret).unwrap();
    let (_default, default) = console(&["cm", "-A", "--server", &listening.url()]).await;
    let (status, problem) = get(&default, OBJECT, None).await;
    assert!(status == 403 && problem.contains("Console::show_objects"), "{status} {problem}");

    let (_own, own) = console(&["cm,secrets", "-A", "--show-objects", "--server", &listening.url()]).await;
    let synced = |page: &Value| {
        let all = page["informers"].as_array().unwrap();
        all.len() == 2 && all.iter().all(|one| one["synced"] == json!(true) && one["objects"] != json!(0))
    };
    let snapshot = until(&own, "/debug/informer/v1/snapshot", synced).await;
    assert_eq!(snapshot["showsObjects"], json!(true));
    let (_proxy, proxy) = console(&["--attach", &own]).await;
    let (_several, several) = console(&["--attach", &own, "--attach", "http://127.0.0.1:1"]).await;
    let read = async |url: &str, path: &str| -> Value {
        let (status, body) = get(url, path, None).await;
        assert_eq!(status, 200, "{url} {path}: {body}");
        serde_json::from_str(&body).unwrap()
    };
    for (url, data) in [
        (&own, "/debug/informer/v1"),
        (&proxy, "/debug/informer/v1"),
        (&several, "/debug/informer/v1/targets/0"),
    ] {
        let list = read(url, &format!("{data}/objects?informer=configmaps.v1")).await;
        assert_eq!(list["objects"][0]["key"], "default/a", "{list}");
        let map = read(url, &format!("{data}/object?informer=configmaps.v1&key=default%2Fa")).await;
        assert_eq!(map["object"]["data"], json!({"color": "red"}));
        let secret = read(url, &format!("{data}/object?informer=secrets.v1&key=default%2Fs")).await;
        assert_eq!(secret["object"]["data"], json!({"password": "(redacted, 16 bytes)"}));
    }
    let both = run(["console", "--attach", &own, "--show-objects"]).await;
    assert_eq!(both.code, Some(2), "{}", both.err);
}

#[tokio::test]
async fn invalid_arguments_of_the_live_commands_are_refused() {
    for command in ["top", "console"] {
        assert_eq!(run([command]).await.code, Some(2), "{command} needs kinds or --attach");
        let both = run([command, "pods", "--attach", "http://127.0.0.1:1"]).await;
        assert_eq!(both.code, Some(2), "{}", both.err);
    }
    let twice = ["console", "--attach", "http://127.0.0.1:1", "--attach", "http://127.0.0.1:1/"];
    let twice = run(twice).await;
    assert!(twice.code == Some(1) && twice.err.contains("named twice"), "{}", twice.err);
    let top = run(["top", "--attach", "http://127.0.0.1:1"]).await;
    assert!(top.code == Some(1) && top.err.contains("needs a terminal"), "{}", top.err);
}
