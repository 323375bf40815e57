use informer::Gvr;
use informer::cache::Change;
use informer::client::{KubeListWatch, WatchChanges};
use informer::source::Listed;
use informer_apiserver::ApiServer;
use serde_json::json;

use super::rewrite::{WatchLines, list};
use super::*;

fn definitions() -> Value {
    json!([
        {"name": "Name", "type": "string", "priority": 0},
        {"name": "Ready", "type": "string"},
        {"name": "Node", "type": "string", "priority": 1},
    ])
}

fn row(name: &str, ready: &str) -> Value {
    json!({
        "cells": [name, ready, null],
        "object": {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}},
    })
}

fn table(definitions: Value, rows: &[Value]) -> Value {
    json!({"kind": "Table", "metadata": {"resourceVersion": "7"}, "columnDefinitions": definitions, "rows": rows})
}

fn cells(cells: &[(&str, &str)]) -> Option<Vec<Cell>> {
    Some(cells.iter().map(|(name, text)| Cell(name.to_string(), text.to_string())).collect())
}

#[test]
fn list_of_a_table_has_the_columns_of_each_object() {
    let columns = Table::new(TableOptions { namespaces: true, prefix: "pod/".to_owned(), wide: true });
    let body = table(definitions(), &[row("web-0", "1/1")]).to_string();
    let mut list: Value = serde_json::from_str(&list(body.as_bytes(), "Pod", &columns).unwrap()).unwrap();
    let expected = [("NAMESPACE", "default"), ("NAME", "pod/web-0"), ("READY", "1/1"), ("NODE", "")];
    assert_eq!(take_columns(&mut list["items"][0]), cells(&expected));
    assert_eq!(
        list,
        json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"kind": "Pod", "metadata": {"name": "web-0", "namespace": "default"}}],
        })
    );
}

#[test]
fn watch_events_have_columns_and_other_events_remain() {
    let columns = Table::default();
    let event = |event: &str, object: Value| json!({"type": event, "object": object}).to_string() + "\n";
    let error = event("ERROR", json!({"kind": "Status", "code": 410}));
    let bookmark = json!({"cells": ["", ""], "object": {"metadata": {"resourceVersion": "9"}}});
    let body = event("ADDED", table(definitions(), &[row("a", "0/1")]))
        + &event("MODIFIED", table(Value::Null, &[row("a", "1/1")]))
        + &event("BOOKMARK", table(Value::Null, &[bookmark]))
        + &error;
    let mut lines = WatchLines::new(columns);
    let mut rewritten = Vec::new();
    body.as_bytes().chunks(7).for_each(|part| rewritten.extend(lines.push(part).unwrap()));
    let rewritten = String::from_utf8(rewritten).unwrap();
    let mut events: Vec<Value> = rewritten.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(take_columns(&mut events[0]["object"]), cells(&[("NAME", "a"), ("READY", "0/1")]));
    assert_eq!(take_columns(&mut events[1]["object"]), cells(&[("NAME", "a"), ("READY", "1/1")]));
    assert_eq!(events[2], json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}));
    assert!(rewritten.ends_with(&error), "{rewritten}");
}

#[test]
fn responses_without_a_table_are_not_rewritten() {
    for body in ["{\"kind\":\"PodList\",\"metadata\":{},\"items\":[]}", "not JSON", ""] {
        assert_eq!(list(body.as_bytes(), "Pod", &Table::default()), None, "{body}");
        assert_eq!(
            WatchLines::new(Table::default()).push(format!("{body}\n").as_bytes()).unwrap(),
            format!("{body}\n")
        );
    }
}

#[test]
fn cells_are_formatted_like_kubectl() {
    let text = |value: Value| Cell::new("", cell_text(&value)).1;
    assert_eq!(text(json!("a\nb")), "a...");
    assert_eq!(text(json!("\u{1b}[31mred")), "\\u{1b}[31mred");
    assert_eq!([text(json!(null)), text(json!(3)), text(json!(true))], ["", "3", "true"]);
}

#[test]
fn objects_are_requested_with_the_table() {
    let with = |uri: &str| with_objects(&uri.parse().unwrap()).unwrap().to_string();
    assert_eq!(with("/api/v1/pods?watch=true"), "/api/v1/pods?watch=true&includeObject=Object");
    assert_eq!(with("/api/v1/pods"), "/api/v1/pods?includeObject=Object");
}

#[tokio::test]
async fn server_without_tables_has_the_columns_name_and_creation_time() {
    let server = ApiServer::builder().build();
    let map = json!({"metadata": {"name": "settings"}});
    let created = server.create(&Gvr::new("", "v1", "configmaps"), "default", map).unwrap();
    let created = created["metadata"]["creationTimestamp"].as_str().unwrap();
    let without_tables = tower::service_fn(move |mut request: Request<Full<Bytes>>| {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        tower::ServiceExt::oneshot(server.service(), request)
    });
    let table = Table::new(TableOptions { namespaces: true, ..TableOptions::default() });
    let kind = ResourceKind::new("", "v1", "ConfigMap", "configmaps");
    let client = client(&Client::from_service(without_tables, "default"), &kind, &table);
    let source = KubeListWatch::<Text>::of(client, kind);
    let Some(Change::Replaced(list)) = WatchChanges::new(source).next().await else { panic!("no list") };
    let [Listed::Fresh(object)] = &list.items[..] else { panic!("another list") };
    let lines = table.lines(object, None, Some(created));
    assert_eq!(lines.header, "NAMESPACE   NAME       CREATED AT");
    assert_eq!(lines.row, format!("default     settings   {created}"));

    let long = "x".repeat(70_000);
    for (name, width) in [(long.as_str(), 70_000), ("short", MAX_WIDTH)] {
        let row = table.lines(object, cells(&[("Name", name), ("Ready", "1/1")]), None).row;
        assert_eq!(row.len(), width + PADDING + 3, "a long cell widens its column up to a limit");
    }
}
