//! Tests of `eventually` and `consistently`, imported from the `informer` crate as programs do it.
#![cfg(feature = "testing")]

use std::time::Duration;

use informer::kube_client::Api;
use informer::kube_client::api::PostParams;
use informer::testing::{
    FaultAction, FaultMatch, Matcher, TestServer, Verb, WAIT_TIMEOUT, absent, exists, has_condition,
    has_field, has_finalizer, is_terminating, not, pod, satisfies,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const WEB: &str = "default/web";

fn config_map(name: &str, data: Value) -> ConfigMap {
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": data});
    serde_json::from_value(object).expect("a valid ConfigMap")
}

fn deployment(replicas: i32, available: &str) -> Deployment {
    let labels = json!({"app": "web"});
    let condition =
        json!({"type": "Available", "status": available, "reason": "MinimumReplicas", "message": "0 of 2"});
    let object = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            },
        },
        "status": {"conditions": [condition]},
    });
    serde_json::from_value(object).expect("a valid Deployment")
}

/// Runs a future that must panic, such as a failed wait, and returns the message of the panic.
async fn panic_of(task: impl Future<Output: Send + 'static> + Send + 'static) -> String {
    let error = tokio::spawn(task).await.map(drop).expect_err("the wait fails");
    *error.into_panic().downcast::<String>().expect("a panic with a message")
}

#[tokio::test(start_paused = true)]
async fn wait_returns_the_object_when_a_write_makes_it_match() {
    let (server, begin) = (TestServer::start().await, Instant::now());
    server.create(&deployment(1, "False")).await.unwrap();
    let writer = server.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(20)).await;
        writer.update(&deployment(2, "False")).await.unwrap();
        sleep(Duration::from_secs(20)).await;
        writer.update(&deployment(2, "True")).await.unwrap();
    });
    let scaled = server.eventually(WEB, |found: &Deployment| found.spec.replicas == Some(2)).await;
    assert_eq!(scaled.spec.replicas, Some(2));
    assert_eq!(begin.elapsed(), Duration::from_secs(20), "the write ends the wait, not a period");
    server.eventually(WEB, has_condition::<Deployment>("Available", "True")).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(40));
    assert_eq!(server.server().requests().len(), 0, "the wait sends no request");
}

#[tokio::test(start_paused = true)]
async fn matchers_compose() {
    let server = TestServer::start().await;
    server.create(&deployment(2, "True")).await.unwrap();
    let available = || has_condition::<Deployment>("Available", "True");
    let replicas = |count: i32| has_field::<Deployment>("spec.replicas", count);
    let image = has_field::<Deployment>("spec.template.spec.containers[0].image", "web:1");
    let both = available().and(replicas(2)).and(image).and(not(has_finalizer("a/b")));
    assert_eq!(
        both.description(),
        "condition Available is True, and spec.replicas is 2, and spec.template.spec.containers[0].image is \
         \"web:1\", and not: it has the finalizer a/b"
    );
    server.eventually(WEB, both).await;
    server.eventually(WEB, replicas(3).or(available())).await;
    server.eventually(WEB, available().and(|found: &Deployment| found.metadata.uid.is_some())).await;
    server.eventually(WEB, exists::<Deployment>().and(satisfies("named web", |_| true))).await;
    server.eventually("default/other", absent::<Deployment>()).await;

    let problem_of = async |matcher: Matcher<Deployment>| {
        let server = server.clone();
        let text = panic_of(async move { server.eventually(WEB, matcher).await }).await;
        text.lines().nth(2).unwrap().to_owned()
    };
    let available = || has_condition("Available", "True");
    for (matcher, problem) in [
        (has_condition("Available", "False"), "condition Available is True (MinimumReplicas: 0 of 2)"),
        (
            has_condition("Ready", "True"),
            "there is no condition Ready; conditions: Available is True (MinimumReplicas: 0 of 2)",
        ),
        (has_field("spec.paused", true), "spec.paused is not set"),
        (available().and(replicas(3)), "spec.replicas is 2"),
        (replicas(3).or(replicas(4)), "spec.replicas is 2, and spec.replicas is 2"),
        (not(available()), "it matches: condition Available is True"),
        (has_finalizer("a/b"), "metadata.finalizers is not set"),
        (is_terminating(), "metadata.deletionTimestamp is not set"),
        (satisfies("is large", |_| false), "the condition does not hold"),
    ] {
        assert_eq!(problem_of(matcher).await, format!("  problem: {problem}"));
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_is_waited_for_and_finalizers_are_named() {
    let server = TestServer::start().await;
    let mut held = config_map("settings", json!({"a": "1"}));
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    server.create(&held).await.unwrap();
    server.delete::<ConfigMap>("default/settings").await.unwrap();
    let terminating = server.eventually("default/settings", is_terminating::<ConfigMap>()).await;
    server.eventually("default/settings", has_finalizer::<ConfigMap>("example.com/hold")).await;
    let waiting = server.clone();
    let text =
        panic_of(async move { waiting.eventually("default/settings", absent::<ConfigMap>()).await }).await;
    assert!(text.contains("problem: its deletion waits for finalizers [\"example.com/hold\"]"), "{text}");

    let writer = server.clone();
    tokio::spawn(async move {
        let released = ConfigMap {
            metadata: informer::kube_core::ObjectMeta { finalizers: None, ..terminating.metadata.clone() },
            ..terminating
        };
        writer.update(&released).await.unwrap();
    });
    server.eventually("default/settings", absent::<ConfigMap>()).await;
}

#[tokio::test(start_paused = true)]
async fn failed_wait_reports_object_changes_events_and_requests() {
    let (server, begin) = (TestServer::start().await, Instant::now());
    let maps: Api<ConfigMap> = Api::namespaced(server.kube_client(), "default");
    maps.create(&PostParams::default(), &config_map("settings", json!({"a": "1"}))).await.unwrap();
    maps.create(&PostParams::default(), &config_map("settings", json!({"a": "1"}))).await.unwrap_err();
    server.update(&config_map("settings", json!({"a": "2"}))).await.unwrap();
    let event = json!({
        "metadata": {"name": "settings.1", "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "settings"},
        "type": "Warning", "reason": "Invalid", "message": "a must be 3", "count": 4,
    });
    let event: Event = serde_json::from_value(event).unwrap();
    server.create(&event).await.unwrap();

    let waiting = server.clone();
    let wanted = has_field::<ConfigMap>("data.a", "3");
    let text = panic_of(async move { waiting.eventually("default/settings", wanted).await }).await;
    assert_eq!(begin.elapsed(), WAIT_TIMEOUT);
    let place = format!("at {}:", file!());
    for part in [
        "wait for ConfigMap default/settings: not reached within 60s, ",
        &place,
        "\n  expected: data.a is \"3\"\n  problem: data.a is \"2\"\n",
        "\n  object:\n    apiVersion: v1\n    data:\n      a: '2'\n",
        "\n  last changes of the object:\n    resourceVersion ",
        ": created\n",
        ": updated data.a \"1\" -> \"2\"\n",
        "\n  last events about it:\n    Warning Invalid: a must be 3 (4 times)\n",
        "\n  last requests, without Leases and Events:\n",
        " s  create /api/v1/namespaces/default/configmaps -> 201\n",
        " s  create /api/v1/namespaces/default/configmaps -> 409\n",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("managedFields"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn failed_wait_for_a_missing_object_names_similar_keys() {
    let (server, begin) = (TestServer::start().await, Instant::now());
    for name in ["default/web-0", "default/database", "other/web", "default/cache", "a/b", "c/d"] {
        server.create(&pod(name)).await.unwrap();
    }
    let waiting = server.within(Duration::from_secs(5));
    let text = panic_of(async move { waiting.eventually(WEB, |_: &Pod| true).await }).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    assert!(text.contains("problem: it does not exist\n  objects: default/web-0, "), "{text}");
    assert!(text.contains(" of 6 pods\n  last changes of the object: none\n"), "{text}");

    let text = panic_of(async move { server.eventually(WEB, exists::<Deployment>()).await }).await;
    assert!(text.contains("  objects: there is no Deployment\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn message_of_a_failed_wait_is_bounded() {
    let server = TestServer::start().await;
    let lines = |round: usize| {
        let data = (0..200).map(|line| (format!("k{line}"), Value::from(format!("{round}")))).collect();
        config_map("settings", Value::Object(data))
    };
    server.create(&lines(0)).await.unwrap();
    for round in 1..50 {
        server.update(&lines(round)).await.unwrap();
        let client = server.kube_client();
        Api::<ConfigMap>::namespaced(client, "default").get("settings").await.unwrap();
    }
    let text =
        panic_of(async move { server.eventually("default/settings", absent::<ConfigMap>()).await }).await;
    assert!(text.contains("more lines\n"), "{text}");
    assert!(text.contains("; 194 more fields\n"), "{text}");
    assert_eq!(text.matches("updated ").count(), 8, "{text}");
    assert_eq!(text.matches(" get ").count(), 20, "{text}");
    assert!(text.lines().count() < 130 && text.len() < 20_000, "{text}");
}

#[tokio::test(start_paused = true)]
async fn consistently_sees_every_change_and_returns_the_last_state() {
    let (server, begin) = (TestServer::start().await, Instant::now());
    server.create(&config_map("settings", json!({"a": "1"}))).await.unwrap();
    let writer = server.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(3)).await;
        writer.update(&config_map("settings", json!({"a": "1", "b": "1"}))).await.unwrap();
        sleep(Duration::from_secs(10)).await;
        // There is no pause between these two writes, so the waiting task runs only after both. It must still
        // evaluate the first one.
        writer.update(&config_map("settings", json!({"a": "2"}))).await.unwrap();
        writer.update(&config_map("settings", json!({"a": "1"}))).await.unwrap();
    });
    let unchanged = || has_field::<ConfigMap>("data.a", "1");
    let last = server.consistently("default/settings", unchanged(), Duration::from_secs(10)).await;
    assert_eq!(last.data.unwrap().len(), 2);
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
    server.consistently("default/other", absent::<ConfigMap>(), Duration::from_secs(1)).await;

    let waiting = server.clone();
    let failed = async move {
        waiting.consistently("default/settings", unchanged(), Duration::from_secs(10)).await;
    };
    let text = panic_of(failed).await;
    assert!(text.contains("ConfigMap default/settings: violated after 2s, at "), "{text}");
    assert!(text.contains("  problem: data.a is \"2\"\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_kind_without_crd_or_an_undecodable_object_names_the_problem() {
    let server = TestServer::start().await;
    let waiting = server.clone();
    let text =
        panic_of(async move { waiting.eventually("default/a", absent::<unserved::Shop>()).await }).await;
    assert!(text.contains("the server does not serve "), "{text}");
    let broken = json!({"metadata": {"name": "web-0"}, "spec": {"containers": "none"}});
    let pods = informer::Gvr::new("", "v1", "pods");
    server.server().raw().create(&pods, "default", broken).unwrap();
    let waiting = server.clone();
    let text = panic_of(async move { waiting.eventually("default/web-0", exists::<Pod>()).await }).await;
    assert!(text.contains("problem: it cannot be decoded as Pod: "), "{text}");
    let key = panic_of(async move { server.eventually("a/b/c", exists::<Pod>()).await }).await;
    assert!(key.contains("wait for Pod \"a/b/c\": "), "{key}");
}

#[tokio::test(start_paused = true)]
async fn status_of_a_request_is_logged_when_the_server_responds() {
    let server = TestServer::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.kube_client(), "default");
    let delayed = server.faults().on(FaultMatch::verb(Verb::Get));
    delayed.then(FaultAction::Delay { millis: 5000 });
    let get = tokio::spawn(async move { maps.get("missing").await });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.server().requests()[0].status(), None);
    get.await.unwrap().unwrap_err();
    assert_eq!(server.server().requests()[0].status(), Some(404));
}

mod unserved {
    use informer::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
    #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, schema = "disabled")]
    #[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
    pub(crate) struct ShopSpec {
        image: String,
    }
}
