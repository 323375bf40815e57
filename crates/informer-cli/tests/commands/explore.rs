//! Tests of `informer explore`. The explored command is this test executable, which runs only
//! [`explored_program`].

use std::path::PathBuf;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use informer::client::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Ended, start_with_variable};
use crate::envtest::Installed;

/// The name of the environment variable that selects the program as which [`explored_program`] runs.
const PROGRAM: &str = "EXPLORED_PROGRAM";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The command that the tests explore. It runs as the program that the environment variable [`PROGRAM`]
/// selects. In a normal run of the tests the variable is not set, and this test does nothing.
#[tokio::test]
async fn explored_program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    match program.as_str() {
        "increments" => count(&Client::try_default().await.unwrap(), true).await,
        "sets" => count(&Client::try_default().await.unwrap(), false).await,
        "watches" => watch(&Client::try_default().await.unwrap()).await,
        "hangs" => create_or_hang(&Client::try_default().await.unwrap()).await,
        "fails" => panic!("this suite fails by itself"),
        "talks" => {
            let client = Client::try_default().await.unwrap();
            println!("\n\u{1b}[1m\u{1b}[38;5;9mthe first line\u{1b}[0m");
            (0..100_000).for_each(|line| println!("line {line} of many"));
            send(&client, Method::POST, MAPS, &map(0)).await.expect("the last line");
        }
        "envtest" => {
            let assets = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS").unwrap());
            let installed = Installed::with_programs(TempDir::new().unwrap(), assets);
            let (_etcd, mut apiserver) = (installed.etcd().await, installed.apiserver().await);
            let config = installed.config("token: secret").await;
            count(&Client::new(config).unwrap(), true).await;
            apiserver.terminate().await;
            assert_eq!(apiserver.status().await.code(), Some(0));
        }
        _ => {}
    }
}

fn map(count: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counter"}, "data": {"count": count.to_string()}})
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, StatusCode> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    // A broken connection is treated like an error response of the server: the program must repeat the
    // request.
    let Ok(response) = client.request(request.body(body).unwrap()).await else {
        return Err(StatusCode::BAD_GATEWAY);
    };
    let status = response.status();
    let Ok(text) = response.into_body().collect().await else { return Err(StatusCode::BAD_GATEWAY) };
    let text = text.to_bytes();
    if status.is_success() { Ok(serde_json::from_slice(&text).unwrap()) } else { Err(status) }
}

/// A program that creates a ConfigMap with a counter, sets the counter to 1, and repeats requests that fail.
/// If `increments` is true, the program has a defect: it adds 1 to the counter, so a repeated update counts
/// twice if only the response of the first one is lost.
async fn count(client: &Client, increments: bool) {
    let object = format!("{MAPS}/counter");
    let mut current = loop {
        match send(client, Method::GET, &object, &Value::Null).await {
            Ok(found) => break found,
            Err(_) => drop(send(client, Method::POST, MAPS, &map(0)).await),
        }
    };
    loop {
        let before: u64 = current["data"]["count"].as_str().unwrap().parse().unwrap();
        let after = if increments { before + 1 } else { 1 };
        current["data"]["count"] = after.to_string().into();
        if send(client, Method::PUT, &object, &current).await.is_ok() {
            break;
        }
        current = send(client, Method::GET, &object, &Value::Null).await.unwrap();
    }
    let counted = send(client, Method::GET, &object, &Value::Null).await.unwrap();
    assert_eq!(counted["data"]["count"], "1", "the counter counts once");
}

/// A program that prints the id of its process and creates an object. If the create fails, it never ends, so
/// that the exploration must kill it after a timeout.
async fn create_or_hang(client: &Client) {
    println!("\nprocess {}", std::process::id());
    if send(client, Method::POST, MAPS, &map(0)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A program that watches ConfigMaps, and waits for the event of one that it creates. It has a defect: it
/// does not start another watch if the watch ends.
async fn watch(client: &Client) {
    let request = Request::get(format!("{MAPS}?watch=true")).body(Bytes::new()).unwrap();
    let mut events = client.request(request).await.unwrap().into_body();
    send(client, Method::POST, MAPS, &map(0)).await.unwrap();
    let mut text = Vec::new();
    while let Some(Ok(frame)) = events.frame().await {
        text.extend_from_slice(&frame.into_data().unwrap());
        if String::from_utf8_lossy(&text).contains("\"ADDED\"") {
            return;
        }
    }
    panic!("the watch ended without the event");
}

/// Runs `informer explore` with these options on one of the programs, and waits for its end.
async fn explore(program: &str, options: &[&str]) -> Ended {
    let own = std::env::current_exe().unwrap();
    let mut args = vec!["explore"];
    args.extend(options);
    args.extend(["--", own.to_str().unwrap(), "--exact", "explore::explored_program", "--nocapture"]);
    start_with_variable(args, (PROGRAM, program)).ended().await
}

#[track_caller]
fn check(ended: &Ended, code: i32, out: &[&str], err: &[&str]) {
    let shown = format!("{}\n{}", ended.out, ended.err);
    assert_eq!(ended.code, Some(code), "{shown}");
    for (text, parts) in [(&ended.out, out), (&ended.err, err)] {
        for part in parts {
            assert!(text.contains(part), "no {part:?} in:\n{shown}");
        }
    }
}

#[tokio::test]
async fn repeated_side_effect_after_lost_response_is_found_and_shrunk() {
    let ended = explore("increments", &[]).await;
    let found = [
        "faults: lost response at write 2",
        "--replay 'lost response at write 2' -- ",
        "explore::explored_program --nocapture",
        "the counter counts once",
        "write 1: create configmaps in default -> 201",
        "write 2: update configmaps default/counter -> 200, and the response is lost (fault)",
        "write 3: update configmaps default/counter -> 200\n",
    ];
    check(&ended, 1, &found, &["2 writes", "run 1: lost response at write 1: passed"]);
}

#[tokio::test]
async fn correct_program_passes_all_faults() {
    let ended = explore("sets", &["--runs", "12"]).await;
    check(&ended, 0, &["passed: 12 runs with ", "2 writes without faults"], &["run 12: schedule "]);
}

#[tokio::test]
async fn suite_of_envtest_is_explored() {
    let ended = explore("envtest", &["--resource", "configmaps"]).await;
    let found = ["faults: lost response at write 2", "--resource configmaps --replay", "(fault)"];
    check(&ended, 1, &found, &["2 writes", "(admin)"]);
}

#[tokio::test]
async fn replay_runs_one_script_and_writes_its_trace() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let options = |script| ["--trace", trace.to_str().unwrap(), "--replay", script];
    let ended = explore("watches", &options("expire configmaps at write 1")).await;
    let found = ["the watch ended without the event", "fault: watches of configmaps receive 410"];
    check(&ended, 1, &found, &[]);
    assert!(std::fs::read_to_string(&trace).unwrap().contains("receive 410"));
    let ended = explore("watches", &options("cut configmaps at write 0")).await;
    check(&ended, 1, &["the watch ended without the event", "fault: watches of configmaps end"], &[]);
    let ended = explore("watches", &options("lag configmaps 1s at write 1; 409 at write 9")).await;
    check(&ended, 0, &["passed", "events 1 s late", "1 fault was not reached"], &[]);
    let ended = explore("watches", &["--replay", "crash after write 1"]).await;
    check(&ended, 1, &[], &["cannot be crashed", "informer::testing::Explore"]);
    let ended = explore("watches", &["--replay", "stale configmaps 1s at write 1"]).await;
    check(&ended, 1, &[], &["nor have stale lists"]);
}

#[tokio::test]
async fn long_output_is_shortened_in_the_middle() {
    let ended = explore("talks", &["--replay", "500 at write 1"]).await;
    check(&ended, 1, &["the first line", " bytes of the output are not shown)", "the last line: 500"], &[]);
    assert!(!ended.out.contains("line 50000 of many"), "{}", ended.out);
    assert!(!ended.out.contains('\u{1b}'), "the output is no terminal, so it has no colors: {}", ended.out);
    assert!(ended.out.len() < 64 << 10, "{} bytes", ended.out.len());
}

#[tokio::test]
async fn hanging_command_is_killed_at_the_timeout() {
    let options = ["--timeout", "4s", "--replay", "500 at write 1"];
    let ended = explore("hangs", &options).await;
    check(&ended, 1, &["did not end within 4.0s"], &[]);
    let process = ended.out.lines().find_map(|line| line.trim().strip_prefix("process ")).unwrap();
    // The test checks that the process was killed. `kill -0` sends no signal, and fails if the process does
    // not exist.
    let found = std::process::Command::new("kill").args(["-0", process]).output().unwrap();
    assert!(!found.status.success(), "process {process} still runs");
}

#[tokio::test]
async fn command_that_cannot_be_explored_is_an_error_with_a_remedy() {
    check(&explore("fails", &[]).await, 1, &[], &["this suite fails by itself", "repair the command first"]);
    check(&explore("silent", &[]).await, 1, &[], &["sent no request", "KUBECONFIG", "-count=1"]);
    let ended = explore("sets", &["--user-agent", "nobody"]).await;
    check(&ended, 1, &[], &["--user-agent nobody", "no write and no watch is selected", "commands"]);
    let ended = start_with_variable(["explore", "--", "absent-program"], (PROGRAM, "")).ended().await;
    check(&ended, 1, &[], &["start \"absent-program\"", "PATH"]);
    let ended = start_with_variable(["explore"], (PROGRAM, "")).ended().await;
    check(&ended, 2, &[], &["COMMAND"]);
}
