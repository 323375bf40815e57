//! Tests of the causes of reconciles, with a controller that records them.

use std::time::Duration;

use informer_runtime::{Context, Controller, ControllerOptions, Manager, Outcome, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::controller::{Running, Seen, config_map, delete, quiet, touch};
use crate::fixture::Server;

/// Returns a controller of ConfigMaps that owns Secrets, and a record of the causes of its reconciles. Its
/// first reconcile fails or requests the next one, if the data of the ConfigMap has this wish.
fn controller_with_causes(options: ControllerOptions) -> (Controller, Seen) {
    let seen = Seen::default();
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
