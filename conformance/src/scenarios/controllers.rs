use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use informer::Gvr;
use informer::client::Client;
use informer_runtime::handler::enqueue_owner;
use informer_runtime::multicluster::{Cluster, Clusters, watch_in};
use informer_runtime::source::{kind_in, watch};
use informer_runtime::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer_runtime::{
    Cache, CachedClient, Context, Controller, ControllerOptions, HttpServer, LeaderElection,
    ManagedCertificates, Manager, Outcome, ReconcileError, Request,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::clients::cached;
use super::managers::{Running, configuration, map};
use crate::bench::maps;
use crate::poll;
use crate::scenario::scenario;
use crate::{Api, ApiError, Bench, Failure, Scenario, ServerError};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_reconcile_names_the_events_that_caused_it),
        scenario!(a_controller_reconciles_objects_of_several_clusters),
        scenario!(a_controller_watches_kinds_of_two_caches),
        scenario!(pages_of_a_manager_are_served_to_authorized_users),
        scenario!(the_server_trusts_the_managed_certificate_of_a_webhook),
    ]
}

/// The records of a reconciler, in order. Clones share them.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<String>>>);

impl Records {
    fn add(&self, record: String) {
        self.0.lock().push(record);
    }

    fn contain(&self, text: &str) -> bool {
        self.0.lock().iter().any(|record| record.contains(text))
    }

    async fn until(&self, text: &str) {
        poll::until(|| self.contain(text)).await;
    }
}

fn secrets() -> Gvr {
    Gvr::new("", "v1", "secrets")
}

/// Returns a Secret that a config map controls.
fn owned_secret(namespace: &str, name: &str, map: &str, uid: &Value) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": map, "uid": uid, "controller": true});
    json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"copied": "eWVz"},
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
    })
}

/// Returns a controller that records the causes of its reconciles. A value `fail` makes the next reconcile
/// fail, and a value `wait` makes it request another one. Both happen once.
fn controller_with_causes(records: &Records) -> Controller {
    let (records, once) = (records.clone(), Arc::new((AtomicBool::new(false), AtomicBool::new(false))));
    let options = ControllerOptions::new().record_causes(true);
    let builder = Controller::new::<ConfigMap>("maps").owns::<Secret>().with_options(options);
    builder.reconcile(move |request: Request, ctx: Context| {
        let (records, once) = (records.clone(), Arc::clone(&once));
        async move {
            records.add(format!("{request}: {}", ctx.causes()));
            let map = ctx.get::<ConfigMap>(&request.key).await?;
            let value = map.as_ref().and_then(|map| map.data.as_ref()?.get("value").cloned());
            match value.as_deref() {
                Some("fail") if !once.0.swap(true, Ordering::SeqCst) => Err("the value is `fail`".into()),
                Some("wait") if !once.1.swap(true, Ordering::SeqCst) => {
                    Ok(Outcome::requeue_after(Duration::from_millis(100)))
                }
                _ => Ok(Outcome::Done),
            }
        }
    })
}

async fn a_reconcile_names_the_events_that_caused_it(bench: Bench) -> Result<(), Failure> {
    let created = bench.create("web").await?;
    let (records, web) = (Records::default(), bench.key("web"));
    let controller = controller_with_causes(&records);
    let queue = controller.handle();
    let manager = Manager::of(cached(&bench, bench.client())).controller(controller);
    let running = Running::start(manager).await?;
    records.until(&format!("listed ConfigMap {web}")).await;
    let child = owned_secret(&bench.namespace, "child", "web", &created["metadata"]["uid"]);
    bench.api.create(&secrets(), &bench.namespace, &child).await?;
    records.until(&format!("{web}: added Secret {}", bench.key("child"))).await;
    bench.change("web", "1").await?;
    records.until(&format!("updated ConfigMap {web} (data.value)")).await;
    let metadata = json!({"metadata": {"labels": {"tier": "front"}, "annotations": {"note": "x"}}});
    bench.api.merge(&maps(), &bench.namespace, "web", &metadata).await?;
    // On a newer server, fields that the client does not know follow if the encoding of the object changes.
    records.until(&format!("updated ConfigMap {web} (metadata.annotations, metadata.labels")).await;
    bench.api.delete(&secrets(), &bench.namespace, "child").await?;
    records.until(&format!("deleted Secret {}", bench.key("child"))).await;
    bench.change("web", "fail").await?;
    records.until("retry of failure 1").await;
    bench.change("web", "wait").await?;
    records.until("requeue requested after 100ms").await;
    queue.enqueue(web.parse()?);
    records.until("enqueued by the program").await;
    bench.delete("web").await?;
    records.until(&format!("deleted ConfigMap {web}")).await;
    running.stop().await
}

/// Copies a config map to a Secret of the same cluster, and records the call.
async fn copy(records: Records, request: Request, cluster: Cluster) -> Result<Outcome, ReconcileError> {
    records.add(format!("{}:{request}", cluster.name()));
    let Some(map) = cluster.client().get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    let namespace = request.namespace().unwrap_or_default();
    let secret = owned_secret(namespace, request.name(), request.name(), &json!(map.metadata.uid));
    cluster.client().apply(&serde_json::from_value::<Secret>(secret)?).await?;
    Ok(Outcome::Done)
}

/// Adds a cluster. All clusters of a scenario are namespaces of one server, since a scenario has one server.
fn engage(clusters: &Clusters, name: &str, client: Client, namespace: &str) -> Result<(), Failure> {
    let cache = Cache::builder(client).namespaces([namespace]).build();
    clusters.engage_with(name, CachedClient::new(&cache))?;
    Ok(())
}

/// Waits until a Secret exists, and returns it.
async fn until_secret(bench: &Bench, namespace: &str, name: &str) -> Value {
    let path = format!("{}/{name}", secrets().path(Some(namespace)));
    loop {
        match bench.api.read(&path).await {
            Ok(secret) => return secret,
            Err(_) => poll::pause().await,
        }
    }
}

async fn a_controller_reconciles_objects_of_several_clusters(bench: Bench) -> Result<(), Failure> {
    let east = bench.namespace.clone();
    let [west, south] = ["west", "south"].map(|name| format!("{east}-{name}"));
    let create = async |namespace: &str, name: &str| {
        bench.api.create(&maps(), namespace, &map(name, "key")).await.map(drop)
    };
    for namespace in [&west, &south] {
        let object = json!({"metadata": {"name": namespace}});
        bench.api.create(&Gvr::new("", "v1", "namespaces"), "", &object).await?;
    }
    for namespace in [&east, &west, &south] {
        create(namespace, "first").await?;
    }
    let (clusters, records) = (Clusters::new(), Records::default());
    let (cable, unreliable) = bench.cable().await?;
    engage(&clusters, "east", bench.client(), &east)?;
    engage(&clusters, "west", unreliable, &west)?;
    let log = records.clone();
    let controller = Controller::of_requests("copy")
        .source(watch_in(&clusters, watch::<ConfigMap>()))
        .source(watch_in(&clusters, watch::<Secret>()).owners::<ConfigMap>(false))
        .reconcile(clusters.reconcile(move |request, cluster, _| copy(log.clone(), request, cluster)));
    let manager = Manager::new(bench.client())
        .leader_election(LeaderElection::new("copy").namespace(&*east))
        .add(clusters.clone())
        .controller(controller);
    let running = Running::start(manager).await?;
    for namespace in [&east, &west] {
        let secret = until_secret(&bench, namespace, "first").await;
        let manager = &secret["metadata"]["managedFields"][0]["manager"];
        assert_eq!(manager, "copy", "a write has the name of the controller");
    }

    cable.unplug().await;
    create(&west, "second").await?;
    create(&east, "second").await?;
    until_secret(&bench, &east, "second").await;
    assert!(
        !records.contain(&format!("west:{west}/second")),
        "the API server of that cluster is unreachable"
    );
    cable.plug();
    until_secret(&bench, &west, "second").await;
    bench.api.delete(&secrets(), &west, "first").await?;
    until_secret(&bench, &west, "first").await;

    engage(&clusters, "south", bench.client(), &south)?;
    until_secret(&bench, &south, "first").await;
    assert!(engage(&clusters, "south", bench.client(), &south).is_err(), "the name is in use");
    assert!(clusters.disengage("west").await);
    create(&west, "third").await?;
    create(&east, "third").await?;
    until_secret(&bench, &east, "third").await;
    assert!(!records.contain(&format!("west:{west}/third")), "a disengaged cluster is not reconciled");
    running.stop().await?;
    assert!(clusters.names().is_empty());
    Ok(())
}

async fn a_controller_watches_kinds_of_two_caches(bench: Bench) -> Result<(), Failure> {
    let other = format!("{}-other", bench.namespace);
    let object = json!({"metadata": {"name": other}});
    bench.api.create(&Gvr::new("", "v1", "namespaces"), "", &object).await?;
    bench.create("web").await?;
    // The owner is in the namespace of the Secrets: the garbage collector deletes objects whose owner is in
    // another namespace.
    let owner = bench.api.create(&maps(), &other, &json!({"metadata": {"name": "web"}})).await?;
    let owned = |name: &str| owned_secret(&other, name, "web", &owner["metadata"]["uid"]);
    bench.api.create(&secrets(), &other, &owned("first")).await?;
    bench.visible(&secrets()).await?;

    let (records, web) = (Records::default(), bench.key("web"));
    let cache = Cache::builder(bench.client()).namespaces([&*other]).build();
    let log = records.clone();
    let controller = Controller::new::<ConfigMap>("maps")
        .source(kind_in(&cache, watch::<Secret>(), enqueue_owner::<ConfigMap>()))
        .with_options(ControllerOptions::new().record_causes(true))
        .reconcile(move |request: Request, ctx: Context| {
            log.add(format!("{request}: {}", ctx.causes()));
            async { Ok(Outcome::Done) }
        });
    let manager = Manager::of(cached(&bench, bench.client())).add(cache.clone()).controller(controller);
    let running = Running::start(manager).await?;
    records.until(&format!("{web}: listed ConfigMap {web}")).await;
    records.until(&format!("{other}/web: listed Secret {other}/first")).await;
    bench.api.create(&secrets(), &other, &owned("second")).await?;
    records.until(&format!("{other}/web: added Secret {other}/second")).await;
    bench.api.delete(&secrets(), &other, "first").await?;
    records.until(&format!("{other}/web: deleted Secret {other}/first")).await;
    running.stop().await?;
    assert!(cache.informer::<Secret>().is_stopped(), "the manager stops the caches that were added to it");
    Ok(())
}

/// Grants a user `get` on a path of any server that asks the API server, and waits until the API server
/// allows it.
async fn allow(bench: &Bench, user: &str, path: &str) -> Result<(), Failure> {
    let rbac = |resource: &str| Gvr::new("rbac.authorization.k8s.io", "v1", resource);
    let metadata = json!({"name": bench.namespace});
    let rules = json!([{"nonResourceURLs": [path], "verbs": ["get"]}]);
    bench.api.create(&rbac("clusterroles"), "", &json!({"metadata": metadata, "rules": rules})).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": bench.namespace},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    bench.api.create(&rbac("clusterrolebindings"), "", &binding).await?;
    let attributes = json!({"path": path, "verb": "get"});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "nonResourceAttributes": attributes},
    });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    while bench.api.send(Method::POST, reviews, "application/json", &review).await?["status"]["allowed"]
        != true
    {
        poll::pause().await;
    }
    Ok(())
}

async fn pages_of_a_manager_are_served_to_authorized_users(bench: Bench) -> Result<(), Failure> {
    const PAGE: &str = "/debug/reconciles";
    let (user, other) = ("guest-4", "guest-5");
    allow(&bench, user, PAGE).await?;
    bench.create("web").await?;
    let pages = HttpServer::at("127.0.0.1:0").authorized_by(bench.client());
    let mut bound = pages.bound();
    let records = Records::default();
    let manager = Manager::of(cached(&bench, bench.client()))
        .controller(controller_with_causes(&records))
        .debug_pages(pages);
    let running = Running::start(manager).await?;
    let address = bound.wait_for(Option::is_some).await?.ok_or("the server does not listen")?;
    let pages_as = |token: Option<String>| -> Result<Api, Failure> {
        let mut config = kube_client::Config::new(format!("https://{address}").parse()?);
        // Without a certificate of the program, the server generates one and signs it itself.
        config.accept_invalid_certs = true;
        config.auth_info.token = token.map(Into::into);
        Ok(Api::new(Client::new(config).map_err(ServerError::from)?))
    };
    let token = |user: &str| bench.server.token_of(user).map(Some);
    let web = format!("listed ConfigMap {}", bench.key("web"));
    loop {
        let page = pages_as(token(user)?)?.read(PAGE).await?;
        assert_eq!(page["controllers"][0]["name"], "maps");
        // Other ConfigMaps of the namespace, such as that of the server's certificate, are reconciled, too.
        let recent = page["controllers"][0]["recent"].as_array().cloned().unwrap_or_default();
        if recent.iter().any(|reconcile| reconcile["causes"][0] == web) {
            break;
        }
        poll::pause().await;
    }
    let status = async |token, path| {
        Ok::<_, Failure>(pages_as(token)?.read(path).await.err().map(|error| error.status))
    };
    assert_eq!(status(token(user)?, "/debug/queues").await?, Some(403), "the user may not get this page");
    assert_eq!(status(token(other)?, PAGE).await?, Some(403), "this user has no permission");
    assert_eq!(status(Some("unknown".to_owned()), PAGE).await?, Some(401));
    assert_eq!(status(None, PAGE).await?, Some(401));
    running.stop().await?;
    for resource in ["clusterrolebindings", "clusterroles"] {
        let gvr = Gvr::new("rbac.authorization.k8s.io", "v1", resource);
        bench.api.delete(&gvr, "", &bench.namespace).await?;
    }
    Ok(())
}

/// Starts a replica whose webhook denies config maps with a password, and returns the URL of the webhook.
async fn replica(bench: &Bench, name: &'static str) -> Result<(Running, String), Failure> {
    let certificates = ManagedCertificates::new(bench.client(), "certificates", "webhooks")
        .namespace(&*bench.namespace)
        .name("127.0.0.1")
        .validating_webhooks(&*bench.namespace);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}/validate--v1-configmap", listener.local_addr()?);
    let validate = move |request: AdmissionRequest<ConfigMap>| async move {
        let data = request.object.and_then(|map| map.data).unwrap_or_default();
        if data.contains_key("password") {
            Err(Denied::new(format!("denied by {name}")))
        } else {
            Ok(Allowed::new())
        }
    };
    let webhooks = WebhookServer::on(listener, certificates).validate(validate);
    Ok((Running::start(Manager::new(bench.client()).add(webhooks)).await?, url))
}

/// Creates config maps until the webhook of a replica denies one. Returns the number of requests that failed
/// because the API server could not call the webhook.
async fn until_denied_by(bench: &Bench, replica: &str) -> Result<usize, Failure> {
    let (mut failed, expected) = (0, format!("denied by {replica}"));
    loop {
        let name = format!("map-{}", uuid::Uuid::new_v4());
        match bench.api.create(&maps(), &bench.namespace, &map(&name, "password")).await {
            Err(error) if error.status == 403 && error.to_string().contains(&expected) => return Ok(failed),
            Err(error) if error.status == 500 => failed += 1,
            Ok(_) | Err(ApiError { status: 403, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        poll::pause().await;
    }
}

async fn the_server_trusts_the_managed_certificate_of_a_webhook(bench: Bench) -> Result<(), Failure> {
    let webhooks = Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    let path = format!("{}/{}", webhooks.path(None), bench.namespace);
    let secret = format!("{}/certificates", secrets().path(Some(&bench.namespace)));
    let (first, url) = replica(&bench, "first").await?;
    // The configuration has no `caBundle`: the replica adds it when it observes the configuration.
    let kind = "ValidatingWebhookConfiguration";
    bench.api.create(&webhooks, "", &configuration(&bench, kind, &json!({"url": url}))).await?;
    until_denied_by(&bench, "first").await?;
    bench.api.create(&maps(), &bench.namespace, &map("allowed", "value")).await?;

    let edit = async |operation: Value| {
        bench.api.send(Method::PATCH, &path, "application/json-patch+json", &json!([operation])).await
    };
    edit(json!({"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"})).await?;
    while bench.api.read(&path).await?["webhooks"][0]["clientConfig"]["caBundle"].is_null() {
        poll::pause().await;
    }
    until_denied_by(&bench, "first").await?;
    let before = bench.api.read(&secret).await?["data"].clone();
    bench.api.delete(&secrets(), &bench.namespace, "certificates").await?;
    let restored = until_secret(&bench, &bench.namespace, "certificates").await;
    assert_eq!(restored["data"], before, "a deleted Secret is restored with the certificate in use");

    let (second, url) = replica(&bench, "second").await?;
    edit(json!({"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": url})).await?;
    let failed = until_denied_by(&bench, "second").await?;
    assert_eq!(failed, 0, "the replicas have the same certificate, which the server trusts");
    bench.api.delete(&webhooks, "", &bench.namespace).await?;
    first.stop().await?;
    second.stop().await
}
