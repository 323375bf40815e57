//! Tests of `informer graph` with a manager that runs in the test process.

use informer::client::Client;
use informer::k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use informer::runtime::{Controller, HttpServer, Manager, ManagerHandle, Outcome, ReconcileError};
use informer_apiserver::ApiServer;
use serde_json::json;
use tokio::time::timeout;

use crate::command::{DEADLINE, run};

/// Runs a controller that reconciles Secrets: it owns Services, writes ConfigMaps, which it watches, and
/// updates the labels of the Secret. Returns the URL of the console once the controller has reconciled.
async fn operator(server: &ApiServer) -> (String, ManagerHandle) {
    let secret = json!({"metadata": {"name": "web"}});
    server.create(&informer::Gvr::new("", "v1", "secrets"), "default", secret).unwrap();
    let controller = Controller::new::<Secret>("copy")
        .owns::<Service>()
        .watches_mapped::<ConfigMap>(|_| None)
        .reconcile(|request, ctx| async move {
            let Some(secret) = ctx.get::<Secret>(&request.key).await? else { return Ok(Outcome::Done) };
            let mut map = ConfigMap::default();
            map.metadata.name.clone_from(&secret.metadata.name);
            map.metadata.namespace.clone_from(&secret.metadata.namespace);
            ctx.client.apply(&map).await?;
            ctx.client.dry_run().apply(&map).await?;
            let mut edited = secret.edit();
            edited.metadata.labels.get_or_insert_default().insert("copied".to_owned(), "yes".to_owned());
            ctx.client.update(&edited).await?;
            Ok::<_, ReconcileError>(Outcome::Done)
        });
    let console = HttpServer::at("127.0.0.1:0");
    let mut bound = console.bound();
    let manager = Manager::new(Client::from_service(server.service(), "default"));
    let manager = manager.console(console).controller(controller);
    let (handle, data) = (manager.handle(), manager.console_data());
    tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let address =
        timeout(DEADLINE, bound.wait_for(Option::is_some)).await.expect("it listens").unwrap().unwrap();
    let reconciled = async {
        while data.snapshot().controllers.first().is_none_or(|controller| controller.writes.len() < 2) {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, reconciled).await.expect("a reconcile");
    (format!("http://{address}"), handle)
}

#[tokio::test]
async fn graph_of_a_running_program_has_its_sources_and_writes() {
    let server = ApiServer::builder().build();
    let (url, handle) = operator(&server).await;
    let text = run(["graph", "--attach", &url]).await;
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""), "{}", text.out);
    let lines: Vec<&str> = text.out.lines().collect();
    let tree = ["copy", "├─ for      secrets/v1", "├─ owns     services/v1", "├─ watches  configmaps/v1"];
    assert_eq!(lines[..4], tree, "{}", text.out);
    // The dry run is not counted. The second reconcile, after the change of the label, may have run.
    assert!(lines[4].starts_with("├─ writes   configmaps/v1  apply "), "{}", text.out);
    assert_eq!(lines[5], "└─ writes   secrets/v1     patch 1", "{}", text.out);
    assert!(text.out.contains("hint: copy writes configmaps/v1"), "{}", text.out);

    let mermaid = run(["graph", "--attach", &url, "--format", "mermaid"]).await;
    assert!(
        mermaid.out.starts_with("flowchart LR\n") && mermaid.out.contains("linkStyle"),
        "{}",
        mermaid.out
    );
    assert!(mermaid.err.starts_with("hint: copy writes configmaps/v1"), "{}", mermaid.err);
    let dot = run(["graph", "--attach", &url, "--format", "dot"]).await;
    assert!(dot.out.starts_with("digraph informer {\n") && dot.out.ends_with("}\n"), "{}", dot.out);
    handle.stop();
}

#[tokio::test]
async fn unreachable_program_and_missing_option_are_named() {
    let missing = run(["graph"]).await;
    assert!(missing.code == Some(2) && missing.err.contains("--attach <URL>"), "{}", missing.err);
    let format = run(["graph", "--attach", "http://127.0.0.1:1", "--format", "svg"]).await;
    assert!(format.code == Some(2) && format.err.contains("text, mermaid, dot"), "{}", format.err);
    let unreachable = run(["graph", "--attach", "http://127.0.0.1:1"]).await;
    assert!(
        unreachable.code == Some(1) && unreachable.err.contains("read 127.0.0.1:1: "),
        "{}",
        unreachable.err
    );
}

#[tokio::test]
async fn help_names_the_formats_and_how_to_make_an_image() {
    let help = run(["graph", "--help"]).await;
    for part in ["--attach <URL>", "--token-file", "--certificate-authority", "mermaid", "dot -Tsvg"] {
        assert!(help.out.contains(part), "no {part:?} in {}", help.out);
    }
}
