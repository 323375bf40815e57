//! Tests of the Kubernetes Events about actions.

use informer_apiserver::{FaultMatch, Verb};

use super::actions::{REQUEUE, allowed};
use super::*;
use crate::LeaderElection;

const KEY: &str = r#"{"controller": "rotate", "key": "default/s"}"#;

/// Waits until the server has this number of Events about actions, and returns them by their reason and note.
async fn recorded(server: &ApiServer, count: usize) -> Vec<Value> {
    loop {
        let events = Gvr::new("events.k8s.io", "v1", "events");
        let mut events = server.list(&events, "").expect("the kind is served");
        events.retain(|event| event["reportingController"] == "informer-console");
        if events.len() >= count {
            events.sort_by_key(|event| format!("{} {}", event["reason"], event["note"]));
            return events;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn action_is_recorded_as_an_event_of_its_object() {
    let running = running(allowed(here()), 2).await;
    let headers = running.headers().await;
    assert_eq!(running.post(REQUEUE, &headers, KEY).await.0, 200);
    let event = recorded(&running.server, 1).await.remove(0);
    let secrets = Gvr::new("", "v1", "secrets");
    let secret = running.server.get(&secrets, "default", "s").expect("the kind is served");
    let regarding = &event["regarding"];
    assert_eq!((&regarding["kind"], &regarding["name"]), (&json!("Secret"), &json!("s")), "{event}");
    let uid = secret["metadata"]["uid"].as_str();
    assert!(uid.is_some() && regarding["uid"].as_str() == uid, "{event}");
    assert_eq!((&event["type"], &event["reason"]), (&json!("Normal"), &json!("ConsoleRequeue")));
    assert_eq!(event["action"], "ConsoleRequeue");
    let note = "requeue by a user without authentication: enqueued default/s in controller rotate";
    assert_eq!((&event["note"], &event["metadata"]["namespace"]), (&json!(note), &json!("default")));
    // The same action again only changes the count.
    assert_eq!(running.post(REQUEUE, &headers, KEY).await.0, 200);
    while recorded(&running.server, 1).await[0]["series"]["count"] != 2 {
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

#[tokio::test]
async fn failed_action_is_a_warning_and_other_notes_are_other_events() {
    let running = running(allowed(here()), 2).await;
    let headers = running.headers().await;
    let drop = |informer: &str| json!({"informer": informer}).to_string();
    assert_eq!(running.post("drop", &headers, &drop("secrets.v1")).await.0, 409);
    assert_eq!(running.post("drop", &headers, &drop("pods.v1")).await.0, 404);
    let absent = KEY.replace("default/s", "default/absent");
    assert_eq!(running.post(REQUEUE, &headers, &absent).await.0, 200);
    assert_eq!(running.post(REQUEUE, &headers, "{}").await.0, 400, "an invalid body is no action");
    let events = recorded(&running.server, 3).await;
    let shown: Vec<String> = events
        .iter()
        .map(|event| format!("{} {} {}", event["type"], event["regarding"]["kind"], event["reason"]))
        .collect();
    let dropped = r#""Warning" "Namespace" "ConsoleDrop""#;
    assert_eq!(shown, [dropped, dropped, r#""Normal" "Secret" "ConsoleRequeue""#]);
    let note = events[0]["note"].as_str().expect("a note");
    assert!(note.starts_with("drop by a user without authentication failed: drop"), "{note}");
    assert_eq!(events[0]["regarding"]["name"], "default");
    assert_eq!(events[2]["regarding"]["uid"], Value::Null, "the cache does not have the object");
    running.stop().await;
}

#[tokio::test]
async fn event_without_an_object_is_about_the_lease_of_the_election() {
    let server = ApiServer::builder().build();
    let client = Client::from_service(server.service(), "default");
    let election = LeaderElection::new("operator").namespace("system");
    let manager = Manager::new(client).leader_election(election);
    let audit = super::super::ActionAudit::new(manager.handle().recorder("informer-console"), "default");
    let action = super::super::actions::Action::of_informer("pods.v1");
    audit.record(&manager.console_data(), (&action, Some("jane")), Ok("done"));
    let handle = manager.handle();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let event = recorded(&server, 1).await.remove(0);
    let regarding = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": "system", "name": "operator",
    });
    assert_eq!((&event["regarding"], &event["note"]), (&regarding, &json!("relist by user jane: done")));
    handle.stop();
    task.await.expect("no panic").expect("a clean stop");
}

#[tokio::test]
async fn action_succeeds_if_its_event_is_forbidden_or_disabled() {
    let allowing = running(allowed(here()), 2).await;
    allowing.server.faults().on(FaultMatch::path("/events")).status(403);
    let headers = allowing.headers().await;
    assert_eq!(allowing.post(REQUEUE, &headers, KEY).await.0, 200);
    allowing.reconciled(3).await;
    while allowing.handle.recorder("informer-console").dropped() < 1 {
        tokio::task::yield_now().await;
    }
    allowing.stop().await;

    let silent = running(allowed(here()).record_events(false), 2).await;
    assert_eq!(silent.post(REQUEUE, &silent.headers().await, KEY).await.0, 200);
    silent.reconciled(3).await;
    let server = silent.server.clone();
    // The stop waits for recorded Events.
    silent.stop().await;
    assert_eq!(server.count_requests(Verb::Create, "events"), 0);
}
