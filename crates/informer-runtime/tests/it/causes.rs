//! Tests of the causes of reconciles, with a controller that records them.

use std::time::Duration;

use informer_client::{Dynamic, Representation};
use informer_runtime::source::{Watch, watch, watch_metadata, watch_of, watch_packed, watch_typed};
use informer_runtime::{
    Context, Controller, ControllerOptions, HttpServer, Manager, Outcome, Request, ResourceKind,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::controller::{ReconciledRequests, Running, config_map, delete, quiet, touch};
use crate::fixture::{Server, gvr};

/// Returns a controller of ConfigMaps that owns Secrets, and a record of the causes of its reconciles. Its
/// first reconcile fails or requests the next one, if the data of the ConfigMap has this wish.
fn controller_with_causes(options: ControllerOptions) -> (Controller, ReconciledRequests) {
    let seen = ReconciledRequests::default();
    let causes = seen.clone();
    let builder = Controller::new::<ConfigMap>("maps").owns::<Secret>().with_options(options);
    let controller = builder.reconcile(move |request: Request, ctx: Context| {
        let causes = causes.clone();
        async move {
            causes.0.lock().push(format!("{request}: {}", ctx.causes()));
            let map = ctx.get::<ConfigMap>(&request.key).await?;
            let wish = map.as_ref().and_then(|map| map.data.as_ref()?.get("wish").cloned());
            let first = causes.0.lock().len() == 1;
            match wish.as_deref() {
                Some("fail") if first => Err("on purpose".into()),
                Some("wait") if first => Ok(Outcome::requeue_after(Duration::from_secs(30))),
                _ => Ok(Outcome::Done),
            }
        }
    });
    (controller, seen)
}

#[tokio::test(start_paused = true)]
async fn context_has_the_events_that_enqueued_the_request() {
    let server = Server::start();
    config_map(&server, "a/web");
    let (controller, seen) = controller_with_causes(ControllerOptions::new().record_causes(true));
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(seen.take(), ["a/web: listed ConfigMap a/web"]);
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "u", "controller": true});
    server.create("secrets", "a/child", json!({"metadata": {"ownerReferences": [owner]}}));
    quiet().await;
    assert_eq!(seen.take(), ["a/web: added Secret a/child"]);
    touch(&server, "a/web", json!({"data": {"a": "c"}}));
    delete(&server, "secrets", "a/child");
    quiet().await;
    let causes = seen.take().join("; ");
    for cause in ["updated ConfigMap a/web (data.a)", "deleted Secret a/child"] {
        assert!(causes.contains(cause), "{causes}");
    }
    let mut map = server.get("configmaps", "a/web");
    map["metadata"]["labels"] = json!({"tier": "front"});
    map["metadata"]["annotations"] = json!({"note": "x"});
    server.api.update(&gvr("configmaps"), "a", map).expect("a change");
    quiet().await;
    assert_eq!(seen.take(), ["a/web: updated ConfigMap a/web (metadata.annotations, metadata.labels)"]);
    running.stop().await.unwrap();
}

/// Returns a controller of a kind that records the texts of its causes.
fn recorder_of<O: Representation>(watch: Watch<O>) -> (Controller, ReconciledRequests) {
    let seen = ReconciledRequests::default();
    let causes = seen.clone();
    let options = ControllerOptions::new().record_causes(true);
    let controller = Controller::builder().for_with(watch).with_options(options).reconcile(
        move |_: Request, ctx: Context| {
            causes.0.lock().push(ctx.causes().to_string());
            async { Ok(Outcome::Done) }
        },
    );
    (controller, seen)
}

/// Changes a Deployment, and returns the causes of the reconcile of a controller that watches it.
async fn causes_of_a_changed_deployment<O: Representation>(watch: Watch<O>) -> Vec<String> {
    let server = Server::start();
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let labels = json!({"app": "web"});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels}, "spec": {"containers": [container("main", "main:1")]},
    }});
    server.create("deployments", "a/web", json!({"metadata": {"labels": {"tier": "front"}}, "spec": spec}));
    let (controller, seen) = recorder_of(watch);
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    seen.take();
    let mut changed = server.get("deployments", "a/web");
    changed["metadata"]["labels"] = json!({"tier": "back"});
    changed["spec"]["replicas"] = json!(2);
    changed["spec"]["template"]["spec"]["containers"] =
        json!([container("first", "f"), container("main", "main:2")]);
    server.api.update(&gvr("deployments"), "a", changed).expect("a change");
    quiet().await;
    running.stop().await.expect("a clean stop");
    seen.take()
}

#[tokio::test(start_paused = true)]
async fn cause_of_an_update_names_the_changed_fields_in_each_representation() {
    let fields = "spec.replicas, spec.template.spec.containers[1].image, spec.template.spec.containers[0], \
                  metadata.labels[\"tier\"]";
    let expected = [format!("updated Deployment.apps a/web ({fields})")];
    assert_eq!(causes_of_a_changed_deployment(watch::<Deployment>()).await, expected);
    assert_eq!(causes_of_a_changed_deployment(watch_typed::<Deployment>()).await, expected);
    assert_eq!(causes_of_a_changed_deployment(watch_packed::<Deployment>()).await, expected);
    let kind = ResourceKind::of::<Deployment>();
    assert_eq!(causes_of_a_changed_deployment(watch_of::<Dynamic>(kind)).await, expected);
    let of_metadata = "updated Deployment.apps a/web (spec, metadata.labels[\"tier\"])";
    assert_eq!(causes_of_a_changed_deployment(watch_metadata::<Deployment>()).await, [of_metadata]);
}

#[tokio::test(start_paused = true)]
async fn changed_fields_are_limited_and_contain_no_values() {
    let server = Server::start();
    let data = |value: &str| {
        let data: serde_json::Map<_, _> = (0..20).map(|at| (format!("key-{at:02}"), json!(value))).collect();
        json!({"stringData": data})
    };
    server.create("secrets", "a/web", data("hunter2"));
    let (controller, seen) = recorder_of(watch::<Secret>());
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    seen.take();
    let mut secret = server.get("secrets", "a/web");
    secret["stringData"] = data("hunter3")["stringData"].clone();
    server.api.update(&gvr("secrets"), "a", secret).expect("a change");
    quiet().await;
    let shown: Vec<String> = (0..8).map(|at| format!("data.key-{at:02}")).collect();
    assert_eq!(seen.take(), [format!("updated Secret a/web ({} and 12 more)", shown.join(", "))]);
    running.stop().await.expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn causes_name_retries_and_requeues() {
    for (wish, cause) in [("fail", "retry of failure 1"), ("wait", "requeue requested after 30s")] {
        let server = Server::start();
        server.create("configmaps", "a/web", json!({"data": {"wish": wish}}));
        let (controller, seen) = controller_with_causes(ControllerOptions::new().record_causes(true));
        let running = Running::start(Manager::new(server.api_client()).controller(controller));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(seen.take(), ["a/web: listed ConfigMap a/web".to_owned(), format!("a/web: {cause}")]);
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_program_name_it_and_causes_are_off_by_default() {
    for (options, expected) in [
        (ControllerOptions::new().record_causes(true), "enqueued by the program"),
        (ControllerOptions::new(), ""),
    ] {
        let server = Server::start();
        let (controller, seen) = controller_with_causes(options);
        let handle = controller.handle();
        let running = Running::start(Manager::new(server.api_client()).controller(controller));
        quiet().await;
        handle.enqueue("a/web".parse().unwrap());
        quiet().await;
        assert_eq!(seen.take(), [format!("a/web: {expected}")]);
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn debug_page_shows_the_causes_of_the_last_reconciles() {
    let server = Server::start();
    config_map(&server, "a/web");
    let (controller, _) = controller_with_causes(ControllerOptions::new().record_causes(true));
    let silent = Controller::new::<Secret>("silent").reconcile(async |_, _| Ok(Outcome::Done));
    let pages = HttpServer::at("127.0.0.1:0");
    let mut bound = pages.bound();
    let manager =
        Manager::new(server.api_client()).debug_pages(pages).controller(controller).controller(silent);
    let running = Running::start(manager);
    let address = bound.wait_for(Option::is_some).await.expect("it listens").expect("an address");
    quiet().await;
    touch(&server, "a/web", json!({"data": {"a": "c"}}));
    quiet().await;

    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = "GET /debug/reconciles HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a text response");
    let (_, body) = response.split_once("\r\n\r\n").expect("a body");
    let mut page: serde_json::Value = serde_json::from_str(body).expect("JSON");
    for reconcile in page["controllers"][0]["recent"].as_array_mut().expect("a list") {
        let reconcile = reconcile.as_object_mut().expect("an object");
        for varying in ["id", "waitedSeconds", "beganSecondsAgo"] {
            reconcile.remove(varying).expect("the page shows it");
        }
    }
    let recent = ["updated ConfigMap a/web (data.a)", "listed ConfigMap a/web"].map(|cause| {
        json!({
            "request": "a/web", "causes": [cause], "omitted": 0,
            "seconds": 0.0, "result": "success", "error": null,
        })
    });
    assert_eq!(page, json!({"controllers": [{"name": "maps", "queued": [], "recent": recent}]}));
    running.stop().await.expect("a clean stop");
}
