//! Tests of `informer watch` with servers that run in the test process.

use std::collections::BTreeSet;

use informer::Gvr;
use informer_apiserver::{ApiServer, FaultMatch, Listening, ReservedPort, Verb};
use serde_json::{Value, json};

use crate::command::{Running, start};

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn map(name: &str, data: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": data}})
}

async fn server() -> (ApiServer, Listening) {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    (server, listening)
}

fn watch(listening: &Listening, args: &[&str]) -> Running {
    let url = listening.url();
    start(["watch", "--server", &url].into_iter().chain(args.iter().copied()))
}

#[tokio::test]
async fn each_call_of_the_handler_is_a_line_of_json() {
    let (server, listening) = server().await;
    let first = server.create(&maps(), "default", map("a", "1")).unwrap();
    let first = first["metadata"]["resourceVersion"].clone();
    let mut watch = watch(&listening, &["cm", "-A", "-o", "json"]);
    let flags = |initial: bool| json!({"initial": initial, "tombstone": false, "resync": false});
    let line = |kind: &str, old: &Value, new: &Value, initial: bool| {
        let mut line = flags(initial);
        line["type"] = kind.into();
        line["key"] = "default/a".into();
        (line["old_rv"], line["new_rv"]) = (old.clone(), new.clone());
        line
    };
    // The time, the object and the changes of an event are tested separately. They are removed before the
    // other fields of the event are compared.
    let without = |mut event: Value| {
        for name in ["time", "object", "changes"] {
            event.as_object_mut().unwrap().remove(name);
        }
        event
    };
    let added = watch.json().await;
    assert_eq!(added["object"]["data"], json!({"a": "1"}));
    assert!(added["time"].as_str().unwrap().ends_with('Z') && added["changes"].is_null(), "{added}");
    assert_eq!(without(added), line("add", &Value::Null, &first, true));

    let second = server.update(&maps(), "default", map("a", "2")).unwrap();
    let second = second["metadata"]["resourceVersion"].clone();
    let updated = watch.json().await;
    assert_eq!(updated["changes"], json!([{"path": "data.a", "old": "1", "new": "2"}]));
    assert_eq!(updated["object"]["data"], json!({"a": "2"}));
    assert_eq!(without(updated), line("update", &first, &second, false));

    server.delete(&maps(), "default", "a").unwrap();
    let mut deleted = watch.json().await;
    assert_ne!(deleted["old_rv"].take(), Value::Null);
    assert_eq!(deleted["object"]["data"], json!({"a": "2"}), "the last known state");
    assert_eq!(without(deleted), line("delete", &Value::Null, &Value::Null, false));
}

#[tokio::test]
async fn update_prints_the_changed_fields() {
    let (server, listening) = server().await;
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let mut watch = watch(&listening, &["configmaps"]);
    let added = watch.line().await;
    assert!(added.starts_with("+ default/a @") && added.ends_with(" (initial)"), "{added}");

    server.update(&maps(), "default", map("a", "2")).unwrap();
    let updated = watch.line().await;
    assert!(updated.starts_with("~ default/a @") && updated.contains(" -> @"), "{updated}");
    assert_eq!(watch.line().await, r#"    ~ data.a: "1" -> "2""#);

    server.delete(&maps(), "default", "a").unwrap();
    let deleted = watch.line().await;
    assert!(deleted.starts_with("- default/a @") && !deleted.contains('\u{1b}'), "{deleted}");
}

#[tokio::test]
async fn values_of_secrets_are_masked_unless_asked_for() {
    let secrets = Gvr::new("", "v1", "secrets");
    let secret = |value: &str| json!({"metadata": {"name": "s"}, "data": {"password": value}});
    let (server, listening) = server().await;
    server.create(&secrets, "default", secret("b2xk")).unwrap();
    let mut masked = watch(&listening, &["secrets"]);
    let mut shown = watch(&listening, &["secrets", "--show-secrets"]);
    for watch in [&mut masked, &mut shown] {
        watch.line().await;
    }
    server.update(&secrets, "default", secret("bmV3")).unwrap();
    masked.line().await;
    assert_eq!(masked.line().await, "    ~ data.password: *** -> ***");
    shown.line().await;
    assert_eq!(shown.line().await, r#"    ~ data.password: "b2xk" -> "bmV3""#);
}

#[tokio::test]
async fn kinds_are_found_by_every_name_and_printed_with_their_kind() {
    let (server, listening) = server().await;
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]},
    });
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let deployment = json!({"metadata": {"name": "web"}, "spec": spec});
    server.create(&Gvr::new("apps", "v1", "deployments"), "default", deployment).unwrap();
    // The names `ConfigMap` and `cm` denote the same kind, which the command must watch only once.
    let mut names = watch(&listening, &["ConfigMap", "cm", "deploy.apps", "-o", "name"]);
    let mut lines = [names.line().await, names.line().await];
    lines.sort();
    assert_eq!(lines, ["configmap/default/a", "deployment.apps/default/web"]);

    let mut lines = watch(&listening, &["configmap", "deployments", "-o", "json"]);
    let mut kinds = [lines.json().await, lines.json().await].map(|line| line["kind"].clone());
    kinds.sort_by_key(Value::to_string);
    assert_eq!(kinds, ["ConfigMap", "Deployment"]);
}

#[tokio::test]
async fn namespace_and_selectors_choose_on_the_server() {
    let (server, listening) = server().await;
    for (namespace, name, app) in [("default", "a", "web"), ("default", "b", "api"), ("other", "c", "web")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
        server.create(&maps(), namespace, object).unwrap();
    }
    let mut one = watch(&listening, &["cm", "-n", "default", "-l", "app in (web)", "-o", "name"]);
    assert_eq!(one.line().await, "configmap/default/a");
    assert_eq!(one.err.up_to("synced").await, ["configmaps: synced, 1 object"]);
    let mut field = watch(&listening, &["cm", "-A", "--field-selector", "metadata.name=c", "-o", "name"]);
    assert_eq!(field.line().await, "configmap/other/c");
    assert_eq!(field.err.up_to("synced").await, ["configmaps: synced, 1 object"]);
}

#[tokio::test]
async fn resync_delivers_cached_objects_without_a_request() {
    let (server, listening) = server().await;
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let mut watch = watch(&listening, &["cm", "--resync", "1s", "-o", "json"]);
    assert_eq!(watch.json().await["type"], "add");
    let requests = |server: &ApiServer| {
        server.count_requests(Verb::List, "configmaps") + server.count_requests(Verb::Watch, "configmaps")
    };
    let first = watch.json().await;
    let before = requests(&server);
    let second = watch.json().await;
    for line in [&first, &second] {
        assert_eq!((&line["type"], &line["resync"]), (&json!("update"), &json!(true)));
        assert_eq!(line["old_rv"], line["new_rv"]);
    }
    assert_eq!(requests(&server), before);
}

#[tokio::test]
async fn lists_are_streams_as_the_flag_says() {
    let (server, listening) = server().await;
    for (flag, streams) in [("off", false), ("on", true)] {
        let mut watch = watch(&listening, &["cm", "--streaming-list", flag]);
        watch.err.up_to("synced").await;
        let requests = server.requests();
        let last = requests.iter().rfind(|it| it.is(Verb::Watch, "configmaps"));
        let streamed = last.is_some_and(|it| it.query.contains("sendInitialEvents=true"));
        assert_eq!(streamed, streams, "{flag}: {last:?}");
        drop(watch);
    }
}

#[tokio::test]
async fn a_server_that_comes_up_later_is_waited_for() {
    let port = ReservedPort::new().unwrap();
    let url = format!("http://{}", port.address());
    let mut watch = start(["watch", "cm", "--server", &url, "-o", "name"]);
    let refused = watch.err.line().await;
    assert!(refused.contains("refused") && refused.ends_with("trying again"), "{refused}");

    let server = ApiServer::builder().build();
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let _listening = server.listen(port.address()).await.unwrap();
    assert_eq!(watch.line().await, "configmap/default/a");
    // The command must report repeated failures with the same message only once. After the first report, the
    // next line must be that of the recovery.
    let told = watch.err.up_to("synced").await;
    assert_eq!(told, ["discovery: the server responds again", "configmaps: synced, 1 object"]);
}

#[tokio::test]
async fn persistent_failure_is_reported_once() {
    let (server, listening) = server().await;
    let broken = FaultMatch { resource: Some("configmaps".to_owned()), ..FaultMatch::default() };
    let fault = server.faults().on(broken).times(3).status(500);
    let mut watch = watch(&listening, &["cm"]);
    let told = watch.err.up_to("synced").await;
    assert_eq!(fault.fired(), 3);
    let failures: Vec<&String> = told.iter().filter(|line| line.ends_with("trying again")).collect();
    assert!(!failures.is_empty() && failures.iter().all(|line| line.contains("500")), "{told:?}");
    // After a successful list the command reports that the server responds again. If the following watch
    // fails, the same error is then reported again.
    for until_response in told.split(|line| line.ends_with("the server responds again")) {
        let failures: Vec<_> = until_response.iter().filter(|line| line.ends_with("trying again")).collect();
        assert_eq!(failures.len(), failures.iter().collect::<BTreeSet<_>>().len(), "{told:?}");
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_it_well() {
    let (server, listening) = server().await;
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let mut watch = watch(&listening, &["cm", "-o", "name"]);
    watch.line().await;
    watch.err.up_to("synced").await;
    // Close stdout after one line, as `| head -n 1` does.
    watch.out = None;
    server.create(&maps(), "default", map("b", "1")).unwrap();
    let ended = watch.ended().await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_it_well() {
    let (_server, listening) = server().await;
    let mut watch = watch(&listening, &["cm"]);
    watch.err.up_to("synced").await;
    watch.interrupt().await;
    let ended = watch.ended().await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_it_while_its_reader_pauses() {
    let (server, listening) = server().await;
    // The test needs output with more lines than fit into the buffer of a pipe, so that the command blocks in
    // a write when it receives Ctrl-C.
    let objects = (0..10_000).map(|number| {
        json!({"metadata": {"name": format!("a-rather-long-name-{number}"), "namespace": "default"}})
    });
    server.load(&maps(), objects).unwrap();
    let mut watch = watch(&listening, &["cm", "-o", "name"]);
    watch.err.up_to("synced, 10000 objects").await;
    watch.line().await;
    watch.interrupt().await;
    assert_eq!(watch.status().await.code(), Some(0));
}

#[tokio::test]
async fn one_object_and_several_kinds_are_named_in_an_argument() {
    let (server, listening) = server().await;
    for name in ["a", "b"] {
        server.create(&maps(), "default", map(name, "1")).unwrap();
    }
    let secret = json!({"metadata": {"name": "s"}});
    server.create(&Gvr::new("", "v1", "secrets"), "default", secret).unwrap();
    let mut watch = watch(&listening, &["cm/b,secrets", "-o", "name"]);
    let mut lines = [watch.line().await, watch.line().await];
    lines.sort();
    assert_eq!(lines, ["configmap/default/b", "secret/default/s"]);
    server.update(&maps(), "default", map("a", "2")).unwrap();
    server.update(&maps(), "default", map("b", "2")).unwrap();
    assert_eq!(watch.line().await, "configmap/default/b", "the other object is not watched");
}

#[tokio::test]
async fn yaml_documents_contain_the_object_and_hide_secrets() {
    let (server, listening) = server().await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"password": "b2xk"}});
    server.create(&Gvr::new("", "v1", "secrets"), "default", secret).unwrap();
    let mut watch = watch(&listening, &["secrets", "-o", "yaml"]);
    assert_eq!(watch.line().await, "---");
    let event = watch.line().await;
    assert!(event.starts_with("# 20") && event.contains("Z + default/s @"), "{event}");
    let mut document = String::new();
    while !document.contains("type: Opaque") {
        document += &(watch.line().await + "\n");
    }
    assert!(document.contains("kind: Secret\n") && document.contains("  password: '***'\n"), "{document}");
}

#[tokio::test]
async fn ignored_changes_are_not_printed_and_times_begin_the_lines() {
    let (server, listening) = server().await;
    let object = |a: &str, b: &str| json!({"metadata": {"name": "m"}, "data": {"a": a, "b": b}});
    server.create(&maps(), "default", object("1", "1")).unwrap();
    let mut watch = watch(&listening, &["cm", "--ignore", "data.a", "--timestamps"]);
    watch.line().await;
    server.update(&maps(), "default", object("2", "1")).unwrap();
    server.update(&maps(), "default", object("3", "2")).unwrap();
    let event = watch.line().await;
    assert!(event.starts_with("20") && event.contains("Z ~ default/m @"), "{event}");
    assert_eq!(watch.line().await, r#"    ~ data.b: "1" -> "2""#, "the update of data.a alone is not shown");
    server.delete(&maps(), "default", "m").unwrap();
    assert!(watch.line().await.contains(" - default/m @"));
}

#[tokio::test]
async fn context_of_a_kubeconfig_and_another_user_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = "secret,admin,1,\"system:masters\"".parse().unwrap();
    let server = ApiServer::builder().rbac(true).tokens(tokens).build();
    server.create(&maps(), "team", map("a", "1")).unwrap();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let cluster = json!({"name": "test", "cluster": {"server": listening.url()}});
    let context = |name: &str, server: &str| json!({"name": name, "context": {"cluster": server, "user": "me", "namespace": "team"}});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "elsewhere",
        "clusters": [cluster, {"name": "elsewhere", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [context("staging", "test"), context("elsewhere", "elsewhere")],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    });
    let file = folder.path().join("config");
    std::fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["watch", "cm", "--kubeconfig", file, "--context", "staging", "-o", "name"];
    let mut watch = start(arguments);
    assert_eq!(watch.line().await, "configmap/team/a");
    let mut as_alice =
        start(arguments.into_iter().chain(["--as", "alice", "--as-group", "system:authenticated"]));
    let refused = as_alice.err.up_to("alice").await.concat();
    assert!(refused.contains("403") && refused.contains("User \"alice\" cannot"), "{refused}");
}

fn pod(name: &str, node: &str) -> Value {
    let containers = json!([{"name": "main", "image": "web"}]);
    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}})
}

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

/// Returns the words of a line: the sign of the event and the cells.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn rows_of_a_table_have_the_columns_of_the_server() {
    let (server, listening) = server().await;
    server.create(&pods(), "default", pod("web-0", "")).unwrap();
    server.create(&pods(), "default", pod("a-longer-name", "")).unwrap();
    let mut watch = watch(&listening, &["pods", "-A", "-o", "table"]);
    let header = watch.line().await;
    assert_eq!(header, "  NAMESPACE   NAME            READY   STATUS    RESTARTS   AGE");
    for name in ["a-longer-name", "web-0"] {
        let row = watch.line().await;
        assert!(row.starts_with(&format!("+ default     {name:16}0/1     Pending   0          ")), "{row}");
    }
    let mut running = server.get(&pods(), "default", "web-0").unwrap();
    running["status"]["phase"] = "Running".into();
    server.raw().update(&pods(), "default", running).unwrap();
    let row = watch.line().await;
    assert_eq!(words(&row)[..5], ["~", "default", "web-0", "0/1", "Running"], "{row}");
    server.delete(&pods(), "default", "a-longer-name").unwrap();
    let row = loop {
        let row = watch.line().await;
        if !row.starts_with('~') {
            break row;
        }
    };
    assert_eq!(words(&row)[..3], ["-", "default", "a-longer-name"], "{row}");
}

#[tokio::test]
async fn wide_table_has_all_printer_columns_of_a_crd() {
    let (server, listening) = server().await;
    let column = |name: &str, path: &str, priority: i64| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    let columns = [column("Host", ".spec.host", 0), column("Owner", ".spec.owner", 1)];
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": columns});
    let names = json!({"kind": "Site", "plural": "sites", "singular": "site"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    server.create(&crds, "", json!({"metadata": {"name": "sites.example.com"}, "spec": spec})).unwrap();
    let sites = Gvr::new("example.com", "v1", "sites");
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "docs"}, "spec": {"host": "docs.example.com"}});
    server.create(&sites, "default", site).unwrap();
    let mut narrow = watch(&listening, &["sites", "-o", "table"]);
    assert_eq!(narrow.line().await, "  NAME   HOST");
    assert_eq!(narrow.line().await, "+ docs   docs.example.com");
    let mut wide = watch(&listening, &["sites", "-o", "wide"]);
    assert_eq!(wide.line().await, "  NAME   HOST               OWNER");
    assert_eq!(wide.line().await, "+ docs   docs.example.com");
}

#[tokio::test]
async fn header_of_a_table_is_repeated_if_the_kind_changes() {
    let (server, listening) = server().await;
    server.create(&maps(), "default", map("a", "1")).unwrap();
    let mut watch = watch(&listening, &["cm,pods", "-o", "table", "--streaming-list", "on"]);
    assert_eq!(words(&watch.line().await), ["NAME", "DATA", "AGE"]);
    assert_eq!(words(&watch.line().await)[..3], ["+", "configmap/a", "1"]);
    server.create(&pods(), "default", pod("web-0", "")).unwrap();
    assert_eq!(words(&watch.line().await), ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(words(&watch.line().await)[..3], ["+", "pod/web-0", "0/1"]);
    server.update(&maps(), "default", map("a", "2")).unwrap();
    assert_eq!(words(&watch.line().await), ["NAME", "DATA", "AGE"]);
    assert_eq!(words(&watch.line().await)[..2], ["~", "configmap/a"]);
}
