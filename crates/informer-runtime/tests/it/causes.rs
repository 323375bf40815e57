//! Tests of the causes of reconciles, with a controller that records them.

use std::time::Duration;

use informer_runtime::{Context, Controller, ControllerOptions, HttpServer, Manager, Outcome, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::controller::{ReconciledRequests, Running, config_map, delete, quiet, touch};
use crate::fixture::Server;

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
    for cause in ["updated ConfigMap a/web (other fields)", "deleted Secret a/child"] {
        assert!(causes.contains(cause), "{causes}");
    }
    let mut map = server.get("configmaps", "a/web");
    map["metadata"]["labels"] = json!({"tier": "front"});
    map["metadata"]["annotations"] = json!({"note": "x"});
    server.api.update(&crate::fixture::gvr("configmaps"), "a", map).expect("a change");
    quiet().await;
    assert_eq!(seen.take(), ["a/web: updated ConfigMap a/web (labels, annotations)"]);
    running.stop().await.unwrap();
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
    let recent = ["updated ConfigMap a/web (other fields)", "listed ConfigMap a/web"].map(|cause| {
        json!({
            "request": "a/web", "causes": [cause], "omitted": 0,
            "seconds": 0.0, "result": "success", "error": null,
        })
    });
    assert_eq!(page, json!({"controllers": [{"name": "maps", "queued": [], "recent": recent}]}));
    running.stop().await.expect("a clean stop");
}
