//! Tests which field manager the client sets in its writes, and when server-side apply causes conflicts,
//! inside and outside of controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_core::Gvr;
use informer_runtime::{
    CachedClient, CancellationToken, Controller, LeaderElection, Manager, ManagerError, Outcome, Patch,
    ReconcileError, Request, ResourceKind, WriteError,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube_core::DynamicObject;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fixture::Server;

const OBJECT: &str = "a/page";

/// Stores the Secret `a/site`, which owns the ConfigMap `a/page` of these tests. It has the uid in the
/// ConfigMap's owner reference.
fn create_owner(server: &Server) {
    let owner = json!({"metadata": {"name": "site", "namespace": "a", "uid": "u"}});
    server.api.load(&Gvr::new("", "v1", "secrets"), [owner]).expect("the Secret is valid");
}

fn page(color: &str) -> ConfigMap {
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "site", "uid": "u", "controller": true});
    serde_json::from_value(json!({
        "metadata": {"name": "page", "namespace": "a", "ownerReferences": [owner]},
        "data": {"color": color},
    }))
    .expect("a valid ConfigMap")
}

/// A running controller of Secrets that calls the function `write` with its client whenever a Secret, or a
/// ConfigMap that is owned by a Secret, changes.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    fn start<Fut>(
        client: CachedClient,
        name: &str,
        write: impl Fn(CachedClient) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<(), ReconcileError>> + Send + 'static,
    {
        let controller =
            Controller::new::<Secret>(name).owns::<ConfigMap>().reconcile(move |_: Request, ctx| {
                let written = write(ctx.client.clone());
                async move {
                    written.await?;
                    Ok(Outcome::Done)
                }
            });
        let stop = CancellationToken::new();
        let manager = Manager::of(client);
        let task = tokio::spawn(manager.controller(controller).run_until(stop.clone().cancelled_owned()));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the manager does not panic").expect("the manager stops cleanly");
    }
}

async fn settled() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

fn color(server: &Server) -> Value {
    server.get("configmaps", OBJECT)["data"]["color"].clone()
}

/// Returns the sorted field managers of a ConfigMap, each as `manager/operation`.
fn managers(server: &Server, key: &str) -> Vec<String> {
    let object = server.get("configmaps", key);
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut managers: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}/{}", text(&entry["manager"]), text(&entry["operation"])))
        .collect();
    managers.sort();
    managers.dedup();
    managers
}

async fn edit_by_hand(server: &Server) {
    let patch = Patch::merge(json!({"data": {"color": "red"}}));
    let editor = server.client().field_owner("kubectl-edit");
    editor.patch::<ConfigMap>(OBJECT, &patch).await.expect("a successful edit");
    assert_eq!(color(server), "red");
}

/// Runs a controller that applies the page in blue, changes its color by hand, and checks that the controller
/// changes it back.
async fn assert_takes_back_an_edit<Fut>(apply: impl Fn(CachedClient) -> Fut + Send + Sync + 'static)
where
    Fut: Future<Output = Result<(), ReconcileError>> + Send + 'static,
{
    let server = Server::start();
    create_owner(&server);
    let running = Running::start(server.client(), "healer", apply);
    settled().await;
    assert_eq!(color(&server), "blue");
    edit_by_hand(&server).await;
    settled().await;
    assert_eq!(color(&server), "blue");
    assert_eq!(managers(&server, OBJECT), ["healer/Apply"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controller_apply_takes_back_fields_changed_by_another_manager() {
    assert_takes_back_an_edit(|client| async move {
        client.apply(&page("blue")).await?;
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_apply_in_a_controller_takes_back_fields_changed_by_another_manager() {
    assert_takes_back_an_edit(|client| async move {
        let mut desired = serde_json::to_value(page("blue")).expect("a ConfigMap is JSON");
        (desired["apiVersion"], desired["kind"]) = ("v1".into(), "ConfigMap".into());
        let desired: DynamicObject = serde_json::from_value(desired).expect("a valid object");
        client.dynamic(ResourceKind::of::<ConfigMap>()).apply(&desired).await?;
        Ok(())
    })
    .await;
}

fn service() -> Service {
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "site", "uid": "u", "controller": true});
    serde_json::from_value(json!({
        "metadata": {"name": "page", "namespace": "a", "ownerReferences": [owner]},
        "spec": {"ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}},
    }))
    .expect("a valid Service")
}

#[tokio::test(start_paused = true)]
async fn status_apply_in_a_controller_takes_back_fields_changed_by_another_manager() {
    for is_dynamic in [false, true] {
        let server = Server::start();
        create_owner(&server);
        let mut created = service();
        created.status = None;
        server.client().create(&created).await.expect("the Service is valid");
        let controller =
            Controller::new::<Secret>("healer").owns::<Service>().reconcile(move |_: Request, ctx| {
                let client = ctx.client.clone();
                async move {
                    let mut desired = service();
                    desired.spec = None;
                    if is_dynamic {
                        let mut desired = serde_json::to_value(desired)?;
                        (desired["apiVersion"], desired["kind"]) = ("v1".into(), "Service".into());
                        let desired: DynamicObject = serde_json::from_value(desired)?;
                        client.dynamic(ResourceKind::of::<Service>()).status().apply(&desired).await?;
                    } else {
                        client.status().apply(&desired).await?;
                    }
                    Ok(Outcome::Done)
                }
            });
        let stop = CancellationToken::new();
        let manager = Manager::of(server.client()).controller(controller);
        let task = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
        let address = || server.get("services", OBJECT)["status"]["loadBalancer"]["ingress"][0]["ip"].clone();
        settled().await;
        assert_eq!(address(), "10.0.0.1", "dynamic: {is_dynamic}");
        let taken = Patch::merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.9.9.9"}]}}}));
        let editor = server.client().field_owner("kubectl-edit");
        editor.status().patch::<Service>(OBJECT, &taken).await.expect("a successful edit");
        assert_eq!(address(), "10.9.9.9", "dynamic: {is_dynamic}");
        settled().await;
        assert_eq!(address(), "10.0.0.1", "dynamic: {is_dynamic}");
        stop.cancel();
        task.await.expect("the manager does not panic").expect("the manager stops cleanly");
    }
}

#[tokio::test(start_paused = true)]
async fn controller_apply_without_force_leaves_fields_of_another_manager() {
    let server = Server::start();
    create_owner(&server);
    let running = Running::start(server.client(), "polite", |client| async move {
        match client.without_force().apply(&page("blue")).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    });
    settled().await;
    edit_by_hand(&server).await;
    settled().await;
    assert_eq!(color(&server), "red");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_of_the_manager_client_win_over_those_of_the_controller() {
    let server = Server::start();
    create_owner(&server);
    let client = server.client().without_force().field_owner("the-operator");
    let running = Running::start(client, "polite", |client| async move {
        match client.apply(&page("blue")).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    });
    settled().await;
    assert_eq!(managers(&server, OBJECT), ["the-operator/Apply"]);
    edit_by_hand(&server).await;
    settled().await;
    assert_eq!(color(&server), "red");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_write_of_a_controller_has_its_name_as_field_owner() {
    let server = Server::start();
    create_owner(&server);
    let running = Running::start(server.client(), "healer", |client| async move {
        let created = match client.create(&page("blue")).await {
            Err(error) if error.is_already_exists() => return Ok(()),
            created => created?,
        };
        let mut edited = created.edit();
        edited.data.get_or_insert_default().insert("size".to_owned(), "1".to_owned());
        client.update(&edited).await?;
        client.patch::<ConfigMap>(OBJECT, &Patch::merge(json!({"data": {"shape": "round"}}))).await?;
        client
            .dynamic(informer_runtime::ResourceKind::of::<ConfigMap>())
            .patch(OBJECT, &Patch::merge(json!({"data": {"a": "b"}})))
            .await?;
        Ok(())
    });
    settled().await;
    let stored = server.get("configmaps", OBJECT);
    assert_eq!(stored["data"], json!({"a": "b", "color": "blue", "shape": "round", "size": "1"}));
    assert_eq!(managers(&server, OBJECT), ["healer/Update"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_apply_to_one_object_keep_each_others_fields() {
    let server = Server::start();
    create_owner(&server);
    let writes = Arc::new(AtomicUsize::new(0));
    let apply = |field: &'static str| {
        let writes = Arc::clone(&writes);
        move |client: CachedClient| {
            // If the controllers overwrote each other's fields, every write would cause another one, without
            // end. The number of writes is therefore limited.
            let contest = writes.fetch_add(1, Ordering::SeqCst) > 20;
            async move {
                let mut page = page("blue");
                page.data = Some([(field.to_owned(), "1".to_owned())].into());
                if !contest {
                    client.apply(&page).await?;
                }
                Ok(())
            }
        }
    };
    let running = [
        Running::start(server.client(), "first", apply("first")),
        Running::start(server.client(), "second", apply("second")),
    ];
    settled().await;
    assert_eq!(server.get("configmaps", OBJECT)["data"], json!({"first": "1", "second": "1"}));
    assert_eq!(managers(&server, OBJECT), ["first/Apply", "second/Apply"]);
    for running in running {
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outside_controllers_field_owner_is_the_program_and_apply_does_not_force() {
    let server = Server::start();
    create_owner(&server);
    let client = server.client();
    let program = std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    client.create(&page("blue")).await.unwrap();
    assert_eq!(managers(&server, OBJECT), [format!("{program}/Update")]);
    server.create("configmaps", "a/other", json!({"data": {"color": "red"}}));
    let mut other = page("blue");
    other.metadata.name = Some("other".to_owned());
    client
        .field_owner("somebody")
        .patch::<ConfigMap>("a/other", &Patch::merge(json!({"data": {"color": "green"}})))
        .await
        .unwrap();
    let error = client.apply(&other).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    client.force().apply(&other).await.unwrap();
    assert!(managers(&server, "a/other").contains(&format!("{program}/Apply")));
}

#[tokio::test(start_paused = true)]
async fn invalid_field_owner_is_rejected_before_the_request_is_sent() {
    let server = Server::start();
    create_owner(&server);
    let client = server.client();
    let before = server.api.requests().len();
    for owner in ["", "a\nb", "tab\tbed", &"x".repeat(129), &"ä".repeat(65)] {
        let error = client.field_owner(owner).apply(&page("blue")).await.unwrap_err();
        assert!(matches!(error, WriteError::FieldOwner { .. }), "{owner:?}: {error}");
        assert!(error.to_string().ends_with("use 1 to 128 bytes of printable characters"), "{error}");
    }
    assert_eq!(server.api.requests().len(), before);
    for owner in ["with space", &"x".repeat(128), "jürgen"] {
        client.field_owner(owner).force().apply(&page("blue")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn controller_name_that_is_an_invalid_field_owner_is_rejected() {
    let server = Server::start();
    let controller = Controller::new::<Secret>("x".repeat(129)).reconcile(|_, _| async { Ok(Outcome::Done) });
    let manager = Manager::new(server.api_client()).controller(controller);
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(text.iter().any(|text| text.contains("is longer than 128 bytes")), "{text:?}");
}

#[tokio::test(start_paused = true)]
async fn leases_and_events_have_the_program_as_field_owner() {
    let server = Server::start();
    let program = informer_client::program_name();
    let election = LeaderElection::new("operator").namespace("a");
    let manager = Manager::of(server.client()).leader_election(election);
    let stop = CancellationToken::new();
    let task = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
    settled().await;
    for resource in
        [Gvr::new("coordination.k8s.io", "v1", "leases"), Gvr::new("events.k8s.io", "v1", "events")]
    {
        let objects = server.api.list(&resource, "a").expect("the kind is served");
        assert!(!objects.is_empty(), "{resource:?}");
        for object in objects {
            assert_eq!(object["metadata"]["managedFields"][0]["manager"], program, "{object}");
        }
    }
    stop.cancel();
    task.await.expect("the manager does not panic").expect("the manager stops cleanly");
}
