use std::time::Duration;

use informer::cache::{SharedInformer, SharedInformerFactory};
use informer::client::{Client, Dynamic, KubeListWatch, Metadata, ResourceKind};
use informer::source::SourceErrorKind;
use informer::{Gvr, Object};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::watched::PATIENCE;
use crate::{Bench, Failure, InitialRead, Scenario, ServerError, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_sync_timeout_names_a_missing_kind),
        scenario!(a_sync_timeout_names_only_unsynced_kinds),
        scenario!(a_forbidden_kind_is_named_and_syncs_after_the_grant),
        scenario!(a_revoked_permission_is_reported_at_the_next_watch),
        scenario!(a_missing_watch_permission_is_reported),
        scenario!(a_namespaced_permission_suffices_for_a_namespaced_informer),
        scenario!(requests_above_the_stream_limit_wait),
    ]
}

/// Waits for the sync of the informer, which must time out, and returns the error.
async fn sync_error<O: Object>(watched: &Watched<O>) -> Result<String, Failure> {
    let waited = watched.informer.wait_for_sync(Duration::from_millis(50)).await;
    Ok(waited.err().ok_or("the informer is synced")?.to_string())
}

async fn a_sync_timeout_names_a_missing_kind(bench: Bench) -> Result<(), Failure> {
    let kind = ResourceKind::new("nobody.example.com", "v1", "Ghost", "ghosts");
    let informer: SharedInformer<Dynamic> =
        SharedInformer::new(KubeListWatch::of(bench.client(), kind).namespace(&*bench.namespace));
    let watched = Watched::start(informer)?;
    watched.until_state(|state| state.reflector.last_error.is_some()).await?;
    let text = sync_error(&watched).await?;
    assert!(text.contains("ghosts.nobody.example.com") && text.contains("404"), "{text}");
    assert!(text.contains("CustomResourceDefinition"), "the error names the CRD as remedy: {text}");
    Ok(())
}

async fn a_sync_timeout_names_only_unsynced_kinds(bench: Bench) -> Result<(), Failure> {
    let factory = SharedInformerFactory::new(bench.client()).namespace(&*bench.namespace);
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.metadata::<Secret>());
    factory.dynamic(ResourceKind::new("nobody.example.com", "v1", "Ghost", "ghosts"));
    factory.start();
    maps.wait_for_sync(PATIENCE).await?;
    secrets.wait_for_sync(PATIENCE).await?;
    let error = factory
        .wait_for_cache_sync(Duration::from_millis(300))
        .await
        .err()
        .ok_or("all informers are synced")?;
    assert_eq!(error.unsynced().len(), 1, "{error}");
    assert!(error.to_string().contains("ghosts"), "{error}");
    factory.shutdown().await;
    Ok(())
}

async fn guest(bench: &Bench, user: &str) -> Result<Client, Failure> {
    let token = bench.server.token_of(user)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    std::fs::write(&path, token)?;
    let config = bench.server.config_by_token_file(bench.server.address(), Some(&path)).await;
    let client = Client::new(config?).map_err(ServerError::from)?;
    // The first request of the client reads the token file. The file may be deleted after that.
    let _ = client.request(http::Request::get("/version").body(bytes::Bytes::new())?).await?;
    Ok(client)
}

fn rbac(resource: &str) -> Gvr {
    Gvr::new("rbac.authorization.k8s.io", "v1", resource)
}

async fn grant(bench: &Bench, user: &str, verbs: &[&str]) -> Result<(), Failure> {
    let role = json!({
        "metadata": {"name": user},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    });
    let binding = json!({
        "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"},
    });
    bench.api.create(&rbac("roles"), &bench.namespace, &role).await?;
    bench.api.create(&rbac("rolebindings"), &bench.namespace, &binding).await?;
    Ok(())
}

fn last_kind(watched: &Watched<Map>) -> Option<SourceErrorKind> {
    watched.informer.state().reflector.last_error.map(|error| error.kind())
}

async fn a_forbidden_kind_is_named_and_syncs_after_the_grant(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let watched = Watched::start(bench.maps_by(&guest(&bench, "guest-0").await?, InitialRead::List))?;
    watched.until_state(|state| state.reflector.last_error.is_some()).await?;
    let text = sync_error(&watched).await?;
    assert!(text.contains("403") && text.contains("guest-0") && text.contains("configmaps"), "{text}");
    assert!(text.contains("grant list and watch"), "the error contains the remedy: {text}");
    grant(&bench, "guest-0", &["list", "watch"]).await?;
    bench.settled(&watched, &maps()).await
}

async fn a_revoked_permission_is_reported_at_the_next_watch(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    grant(&bench, "guest-1", &["list", "watch"]).await?;
    let cable = crate::Cable::to(bench.server.address()).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    std::fs::write(&path, bench.server.token_of("guest-1")?)?;
    let client = Client::new(bench.server.config_by_token_file(cable.address(), Some(&path)).await?)?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::Stream)).await?;
    bench.api.delete(&rbac("rolebindings"), &bench.namespace, "guest-1").await?;
    // The server authorizes a watch only when the watch starts, and its authorizer caches decisions. Watches
    // are therefore repeated until one is forbidden.
    while last_kind(&watched) != Some(SourceErrorKind::Forbidden) {
        let opened = watched.informer.state().reflector.watches_opened;
        cable.cut();
        let tried_again = || {
            let state = watched.informer.state().reflector;
            state.watches_opened > opened || last_kind(&watched) == Some(SourceErrorKind::Forbidden)
        };
        crate::poll::until(tried_again).await;
    }
    assert_eq!(watched.informer.indexer().len(), 1, "the cache keeps its objects");
    grant_again(&bench, "guest-1").await?;
    bench.create("b").await?;
    bench.settled(&watched, &maps()).await
}

async fn grant_again(bench: &Bench, user: &str) -> Result<(), Failure> {
    bench.api.delete(&rbac("roles"), &bench.namespace, user).await?;
    grant(bench, user, &["list", "watch"]).await
}

async fn a_missing_watch_permission_is_reported(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    grant(&bench, "guest-2", &["list"]).await?;
    let watched = Watched::start(bench.maps_by(&guest(&bench, "guest-2").await?, InitialRead::List))?;
    watched.until(|cache| cache.len() == 1).await?;
    watched.until_state(|state| state.reflector.is_failing()).await?;
    let error =
        watched.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("watch") && error.contains("403"), "{error}");
    Ok(())
}

async fn a_namespaced_permission_suffices_for_a_namespaced_informer(bench: Bench) -> Result<(), Failure> {
    grant(&bench, "guest-3", &["get", "list", "watch"]).await?;
    bench.create("a").await?;
    let client = guest(&bench, "guest-3").await?;
    let everywhere = Watched::start(SharedInformer::<Map>::new(KubeListWatch::all(&client)))?;
    let here = Watched::start(bench.maps_by(&client, InitialRead::Stream))?;
    bench.settled(&here, &maps()).await?;
    everywhere.until_state(|state| state.reflector.last_error.is_some()).await?;
    let error =
        everywhere.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("at the cluster scope"), "{error}");
    Ok(())
}

async fn requests_above_the_stream_limit_wait(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 20).await?;
    let mut informers = Vec::new();
    // 130 is more than the number of streams that one HTTP/2 connection carries concurrently.
    for _ in 0..130 {
        let source: KubeListWatch<Metadata<ConfigMap>> = bench.source(&bench.client(), InitialRead::List);
        informers.push(Watched::start(SharedInformer::new(source))?);
    }
    bench.change("map-3", "1").await?;
    let truth = bench.truth(&maps(), &bench.namespace).await?;
    for watched in &informers {
        bench.equal(watched, &truth).await?;
    }
    Ok(())
}
