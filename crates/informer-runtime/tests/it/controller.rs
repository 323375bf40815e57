use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{FaultMatch, Verb};
use informer_client::{Dynamic, Metadata, ResourceKind};
use informer_core::Gvr;
use informer_runtime::handler::{enqueue_object, map};
use informer_runtime::predicate::generation_changed;
use informer_runtime::source::{Enqueuer, function, watch, watch_metadata, watch_of, watch_typed};
use informer_runtime::{
    Cache, CachedClient, CancellationToken, Controller, ControllerBuilder, ControllerDefaults,
    ControllerHandle, ControllerOptions, ControllerPhase, Manager, ManagerError, Outcome, Request,
    RunnableGroup, runnable,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fixture::Server;

#[derive(Clone, Default)]
pub(crate) struct ReconciledRequests(pub(crate) Arc<Mutex<Vec<String>>>);

impl ReconciledRequests {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut seen = self.take();
        seen.sort();
        seen
    }

    pub(crate) fn by(&self, builder: ControllerBuilder) -> Controller {
        let seen = self.clone();
        builder.reconcile(move |request: Request, _| {
            seen.0.lock().push(request.to_string());
            async { Ok(Outcome::Done) }
        })
    }
}

pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    pub(crate) fn start(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.task.await.expect("a manager does not panic")
    }
}

pub(crate) async fn quiet() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

pub(crate) fn config_map(server: &Server, key: &str) -> Value {
    server.create("configmaps", key, json!({"data": {"a": "b"}}))
}

pub(crate) fn touch(server: &Server, key: &str, change: Value) {
    let gvr = crate::fixture::gvr("configmaps");
    let (namespace, name) = key.split_once('/').expect("a key with a namespace");
    let mut object = server.get("configmaps", key);
    for (field, value) in change.as_object().expect("fields") {
        object[field] = value.clone();
    }
    assert_eq!(object["metadata"]["name"], name);
    server.api.update(&gvr, namespace, object).expect("a change");
}

pub(crate) fn delete(server: &Server, resource: &str, key: &str) {
    let (namespace, name) = key.split_once('/').expect("a key with a namespace");
    server.api.delete(&crate::fixture::gvr(resource), namespace, name).expect("it exists");
}

#[tokio::test(start_paused = true)]
async fn creates_updates_and_deletes_are_reconciled() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/old");
    let controller = seen.by(Controller::new::<ConfigMap>("maps"));
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(seen.take(), ["a/old"]);
    config_map(&server, "a/new");
    quiet().await;
    touch(&server, "a/old", json!({"data": {"a": "c"}}));
    quiet().await;
    delete(&server, "configmaps", "a/new");
    quiet().await;
    assert_eq!(seen.take(), ["a/new", "a/old", "a/new"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn change_of_owned_object_enqueues_its_current_and_former_owner() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/web");
    let controller = seen.by(Controller::new::<ConfigMap>("maps").owns::<Secret>());
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(seen.take(), ["a/web"]);
    let reference = |name: &str, controller: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": controller});
    let owned = json!({"metadata": {"ownerReferences": [reference("web", true), reference("other", false)]}});
    server.create("secrets", "a/child", owned);
    quiet().await;
    assert_eq!(seen.take(), ["a/web"], "only the controlling owner");
    let mut child = server.get("secrets", "a/child");
    child["metadata"]["ownerReferences"] = json!([reference("next", true)]);
    server.api.update(&crate::fixture::gvr("secrets"), "a", child).expect("a change");
    quiet().await;
    assert_eq!(seen.sorted(), ["a/next", "a/web"], "the former owner, too");
    delete(&server, "secrets", "a/child");
    quiet().await;
    assert_eq!(seen.take(), ["a/next"]);
    server.create("secrets", "a/nobodys", json!({}));
    quiet().await;
    assert_eq!(seen.take(), [""; 0]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_owner_option_enqueues_all_owners() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    let owned = watch_metadata::<Secret>().every_owner();
    let controller = seen.by(Controller::new::<ConfigMap>("maps").owns_with(owned));
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    let reference =
        |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u"});
    let owners =
        json!([reference("ConfigMap", "one"), reference("Pod", "no"), reference("ConfigMap", "two")]);
    server.create("secrets", "a/child", json!({"metadata": {"ownerReferences": owners}}));
    quiet().await;
    assert_eq!(seen.sorted(), ["a/one", "a/two"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn typed_watch_is_used_by_context_get() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/x");
    let heard = seen.clone();
    let controller = Controller::builder().named("maps").for_with(watch_typed::<ConfigMap>());
    let controller = controller.reconcile(move |request: Request, ctx| {
        let heard = heard.clone();
        async move {
            let map = ctx.get::<ConfigMap>(&request.key).await?.ok_or("the ConfigMap is not in the cache")?;
            heard.0.lock().extend(map.data.iter().flatten().map(|(name, value)| format!("{name}={value}")));
            Ok(Outcome::Done)
        }
    });
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(seen.take(), ["a=b"]);
    assert_eq!(server.api.count_requests(Verb::Watch, "configmaps"), 1, "in one representation");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_kinds_are_mapped_and_predicates_are_per_kind() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    let every = map(|_: &informer_client::Lazy<Secret>| ["a/all".parse::<Request>().unwrap()]);
    let builder =
        Controller::builder().named("maps").for_with(watch::<ConfigMap>().filter(generation_changed()));
    let controller = seen.by(builder.watches::<Secret>(every));
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    config_map(&server, "a/x");
    quiet().await;
    touch(&server, "a/x", json!({"data": {"a": "c"}}));
    quiet().await;
    assert_eq!(seen.take(), ["a/x"], "config maps have no generation, so none of their updates passes");
    let secret = server.create("secrets", "a/s", json!({}));
    quiet().await;
    server
        .api
        .update(&crate::fixture::gvr("secrets"), "a", {
            let mut changed = secret;
            changed["data"] = json!({"k": "dg=="});
            changed
        })
        .unwrap();
    quiet().await;
    assert_eq!(seen.take(), ["a/all", "a/all"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn event_filter_applies_to_every_kind() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    let builder = Controller::new::<ConfigMap>("maps").owns::<Secret>();
    let builder = builder.event_filter(|event| event.key().namespace() != Some("ignored"));
    let raw = function("raw", |enqueuer: Enqueuer<Request>| async move {
        enqueuer.enqueue(0).add("ignored/raw".parse().unwrap());
        Ok(())
    });
    let controller = seen.by(builder.source(raw));
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    config_map(&server, "ignored/x");
    config_map(&server, "a/x");
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u", "controller": true}]);
    for key in ["ignored/child", "a/child"] {
        server.create("secrets", key, json!({"metadata": {"ownerReferences": owner}}));
    }
    quiet().await;
    assert_eq!(seen.sorted(), ["a/owner", "a/x", "ignored/raw"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reconciler_reads_the_cache_and_writes_to_the_server() {
    let server = Server::start();
    config_map(&server, "a/web");
    let controller = Controller::new::<ConfigMap>("copies").watches::<Secret>(enqueue_object()).reconcile(
        |request, ctx| async move {
            let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
            if ctx.get::<Secret>(&request.key).await?.is_none() {
                let mut secret =
                    Secret { type_: map.data.as_ref().map(|data| data["a"].clone()), ..Secret::default() };
                secret.metadata.name = map.metadata.name.clone();
                secret.metadata.namespace = map.metadata.namespace.clone();
                ctx.client.create(&secret).await?;
            }
            Ok(Outcome::requeue_after(Duration::from_secs(60)))
        },
    );
    let handle = controller.handle();
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(server.get("secrets", "a/web")["type"], "b");
    tokio::time::sleep(Duration::from_secs(65)).await;
    let counts = handle.state().unwrap().reconciles;
    assert_eq!((counts.requeue_after, counts.error), (3, 0), "the map, its copy, and a minute later");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn context_get_of_unwatched_kind_fails_without_creating_an_informer() {
    let server = Server::start();
    config_map(&server, "a/web");
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&said);
    let controller = Controller::new::<ConfigMap>("maps").reconcile(move |request, ctx| {
        let heard = Arc::clone(&heard);
        async move {
            let error = ctx.get::<Pod>(&request.key).await.expect_err("no source watches pods");
            heard.lock().push(error.to_string());
            let cached = ctx.get_cached::<Pod>(&request.key).expect_err("no source watches pods");
            assert_eq!(cached.to_string(), error.to_string());
            Ok(Outcome::Done)
        }
    });
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    quiet().await;
    assert_eq!(
        *said.lock(),
        [
            "get Pod.v1 a/web: the kind is not in the cache; let the controller watch it, or read it with `ctx.client`"
        ]
    );
    assert!(server.api.requests().iter().all(|request| !format!("{:?}", request.gvr).contains("pods")));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controllers_share_informers_per_representation() {
    let (server, first, second) =
        (Server::start(), ReconciledRequests::default(), ReconciledRequests::default());
    config_map(&server, "a/x");
    let metadata = Controller::builder().named("metadata").for_with(watch_metadata::<ConfigMap>());
    let again = Controller::builder().named("again").for_with(watch_metadata::<ConfigMap>());
    let lazy = Controller::new::<ConfigMap>("lazy");
    let manager = Manager::new(server.api_client());
    let manager = manager.controller(first.by(metadata)).controller(second.by(again));
    let running = Running::start(manager.controller(ReconciledRequests::default().by(lazy)));
    quiet().await;
    assert_eq!((first.take(), second.take()), (vec!["a/x".to_owned()], vec!["a/x".to_owned()]));
    let opened = server.api.requests().iter().filter(|request| request.verb == Verb::Watch).count();
    assert_eq!(opened, 2, "one watch for each representation");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn watching_a_pinned_kind_in_another_representation_stops_the_manager() {
    let server = Server::start();
    let maps = ResourceKind::of::<ConfigMap>();
    let cache = Cache::builder(server.api_client()).pin_representation::<Metadata<ConfigMap>>(&maps).build();
    let lazy = ReconciledRequests::default().by(Controller::new::<ConfigMap>("lazy"));
    let manager = Manager::of(CachedClient::new(&cache)).controller(lazy);
    let text = with_causes(&manager.run_until(std::future::pending::<()>()).await.unwrap_err());
    assert!(text.ends_with("read ConfigMap.v1 as Lazy: the cache is pinned to Metadata; read it as that, or change `pin_representation`"), "{text}");
    assert_eq!(server.api.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn duplicate_controller_names_are_rejected_per_manager() {
    let server = Server::start();
    let maps = || ReconciledRequests::default().by(Controller::new::<ConfigMap>("maps"));
    let manager = Manager::new(server.api_client()).controller(maps()).controller(maps());
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    assert!(format!("{error:?}").contains("the name maps is taken in this manager"), "{error:?}");
    let skipping = ControllerOptions::new().skip_name_validation();
    let twice = ReconciledRequests::default().by(Controller::new::<ConfigMap>("maps").with_options(skipping));
    let first = Running::start(Manager::new(server.api_client()).controller(maps()).controller(twice));
    let second = Running::start(Manager::new(server.api_client()).controller(maps()));
    quiet().await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_controller_is_reported_by_the_manager() {
    let server = Server::start();
    let nothing = ReconciledRequests::default().by(Controller::builder().named("idle"));
    let manager = Manager::new(server.api_client()).controller(nothing);
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    assert!(format!("{error:?}").contains("NothingWatched"), "{error:?}");
}

pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_list_stops_the_manager_after_the_sync_timeout_with_the_reason() {
    let server = Server::start();
    server.api.faults().on(FaultMatch::list("secrets")).status(403);
    server.api.faults().on(FaultMatch::watch("secrets")).status(403);
    let options = ControllerOptions::new().sync_timeout(Duration::from_secs(10));
    let controller =
        ReconciledRequests::default().by(Controller::new::<Secret>("secrets").with_options(options));
    let manager = Manager::new(server.api_client()).controller(controller);
    let begin = tokio::time::Instant::now();
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("controller secrets: the source kind Secret.v1 failed to start"), "{text}");
    assert!(text.contains("not synced after 10s") && text.contains("403"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

/// Returns a controller of the custom kind `Widget`, whose CRD may be missing when the controller starts.
fn widgets(seen: &ReconciledRequests) -> Controller {
    let kind = ResourceKind::new("example.com", "v1", "Widget", "widgets");
    let options = ControllerOptions::new().sync_timeout(Duration::from_secs(60));
    seen.by(Controller::builder().named("widgets").with_options(options).for_with(watch_of::<Dynamic>(kind)))
}

fn define_widgets(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    });
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    server.api.create(&definitions, "", definition).expect("a valid object");
}

#[tokio::test(start_paused = true)]
async fn crd_installed_while_its_controller_waits_is_reconciled() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/x");
    let maps = seen.by(Controller::new::<ConfigMap>("maps"));
    let manager = Manager::new(server.api_client()).controller(widgets(&seen)).controller(maps);
    let running = Running::start(manager);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(seen.take(), ["a/x"], "other controllers do not wait for it");
    define_widgets(&server);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}});
    server.api.create(&Gvr::new("example.com", "v1", "widgets"), "a", widget).expect("the CRD exists");
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(seen.take(), ["a/one"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_crd_stops_the_manager_after_the_sync_timeout_with_the_reason() {
    let server = Server::start();
    let manager = Manager::new(server.api_client()).controller(widgets(&ReconciledRequests::default()));
    let begin = tokio::time::Instant::now();
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let text = with_causes(&error);
    assert!(text.contains("the source kind Widget.v1.example.com failed to start"), "{text}");
    assert!(text.contains("not synced after 60s") && text.contains("404"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(65), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn unsynced_kind_does_not_block_other_controllers() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/x");
    server.api.faults().on(FaultMatch::list("secrets")).status(403);
    server.api.faults().on(FaultMatch::watch("secrets")).status(403);
    let stuck = ReconciledRequests::default().by(Controller::new::<Secret>("secrets"));
    let fine = seen.by(Controller::new::<ConfigMap>("maps"));
    let running = Running::start(Manager::new(server.api_client()).controller(stuck).controller(fine));
    quiet().await;
    assert_eq!(seen.take(), ["a/x"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_reconciles_only_cached_namespaces() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    for key in ["a/x", "b/x", "c/x"] {
        config_map(&server, key);
    }
    let cache = Cache::builder(server.api_client()).namespaces(["a", "b"]).build();
    let controller = seen.by(Controller::new::<ConfigMap>("maps"));
    let running = Running::start(Manager::of(CachedClient::new(&cache)).controller(controller));
    quiet().await;
    assert_eq!(seen.sorted(), ["a/x", "b/x"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_kind_has_requests_without_namespace() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    server.create("nodes", "n1", json!({}));
    let running = Running::start(
        Manager::new(server.api_client()).controller(seen.by(Controller::new::<Node>("nodes"))),
    );
    quiet().await;
    assert_eq!(seen.take(), ["n1"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_defaults_of_the_manager_are_applied() {
    let server = Server::start();
    let mut defaults = ControllerDefaults::default();
    defaults.workers = Some(3);
    defaults.workers_by_kind.insert("Deployment.apps".to_owned(), 5);
    let maps = ReconciledRequests::default().by(Controller::new::<ConfigMap>("maps"));
    let deployments = ReconciledRequests::default().by(Controller::new::<Deployment>("deployments"));
    let handles: [ControllerHandle; 2] = [maps.handle(), deployments.handle()];
    let manager = Manager::new(server.api_client()).controller_defaults(defaults);
    let running = Running::start(manager.controller(maps).controller(deployments));
    quiet().await;
    let states = handles.map(|handle| handle.state().unwrap());
    assert_eq!([states[0].workers, states[1].workers], [3, 5]);
    assert!(states.iter().all(|state| state.phase == ControllerPhase::Running));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_added_to_running_manager_starts_at_once() {
    let (server, seen) = (Server::start(), ReconciledRequests::default());
    config_map(&server, "a/x");
    let manager = Manager::new(server.api_client());
    let handle = manager.handle();
    let running = Running::start(manager);
    quiet().await;
    handle.add(seen.by(Controller::new::<ConfigMap>("maps"))).unwrap();
    quiet().await;
    assert_eq!(seen.take(), ["a/x"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_controller_gets_no_events_and_its_informer_keeps_running() {
    let server = Server::start();
    let manager = Manager::new(server.api_client());
    let cache = manager.handle().services().cache.clone();
    let informer = cache.informer::<ConfigMap>();
    let seen = ReconciledRequests::default();
    let broken = Controller::new::<ConfigMap>("broken");
    let broken = seen.by(broken.with_options(ControllerOptions::new().leader_only(false)));
    // This runnable is in the group of the controller and takes 5 s to stop. The cache stops only after this
    // group, so the test can check meanwhile that the controller has removed its handlers from a running
    // informer.
    let slow = runnable("slow", |stop: CancellationToken| async move {
        stop.cancelled().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    let running = Running::start(manager.add(slow.group(RunnableGroup::Others)).controller(broken));
    quiet().await;
    let handlers = || informer.scoped_informers()[0].informer.state().handlers.len();
    assert_eq!(handlers(), 1);
    let stop = tokio::spawn(running.stop());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(handlers(), 0);
    assert!(!informer.is_stopped(), "others may still read it");
    stop.await.unwrap().unwrap();
}
