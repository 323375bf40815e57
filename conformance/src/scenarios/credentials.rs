use std::path::Path;

use informer::cache::SharedInformer;
use informer::client::Client;
use informer::source::SourceErrorKind;
use serde_json::json;

use crate::bench::{Map, maps};
use crate::poll;
use crate::scenario::scenario;
use crate::{Bench, Cable, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_client_certificate_authenticates),
        scenario!(a_changed_token_file_is_read_again).slow(),
        scenario!(a_revoked_token_is_reported_and_replaced).slow(),
        scenario!(a_service_account_token_authenticates),
        scenario!(a_server_with_an_untrusted_certificate_is_rejected),
        scenario!(a_client_without_credentials_is_reported_as_anonymous),
        scenario!(a_client_certificate_survives_cuts),
    ]
}

async fn a_client_certificate_authenticates(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let config = bench.server.config_by_certificate(bench.server.address()).await?;
    let watched = Watched::synced(bench.maps_by(&Client::new(config)?, InitialRead::Stream)).await?;
    bench.change("a", "1").await?;
    bench.settled(&watched, &maps()).await
}

async fn a_client_certificate_survives_cuts(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let cable = Cable::to(bench.server.address()).await?;
    let config = bench.server.config_by_certificate(cable.address()).await?;
    let watched = Watched::synced(bench.maps_by(&Client::new(config)?, InitialRead::List)).await?;
    for round in 0..3 {
        cable.unplug().await;
        bench.change("a", &round.to_string()).await?;
        cable.plug();
        bench.settled(&watched, &maps()).await?;
    }
    assert_eq!(watched.informer.state().reflector.relists.total(), 0);
    Ok(())
}

/// Returns the token of a new service account that may read config maps of the scenario's namespace. The
/// token becomes invalid when its secret is deleted.
async fn account_token(bench: &Bench, name: &str) -> Result<String, Failure> {
    let (namespace, api) = (&*bench.namespace, &bench.api);
    let core = |resource: &str| informer::Gvr::new("", "v1", resource);
    let rbac = |resource: &str| informer::Gvr::new("rbac.authorization.k8s.io", "v1", resource);
    let named = json!({"metadata": {"name": name}});
    api.create(&core("serviceaccounts"), namespace, &named).await?;
    let secret = api.create(&core("secrets"), namespace, &named).await?;
    let role = json!({
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
    });
    api.create(&rbac("roles"), namespace, &role).await?;
    let binding = json!({
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"},
    });
    api.create(&rbac("rolebindings"), namespace, &binding).await?;
    let request = json!({"spec": {"expirationSeconds": 600, "boundObjectRef": {
        "apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"],
    }}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let response = api.send(http::Method::POST, &path, "application/json", &request).await?;
    response["status"]["token"].as_str().map(str::to_owned).ok_or_else(|| "the response has no token".into())
}

async fn by_token_file(bench: &Bench, cable: &Cable, path: &Path) -> Result<SharedInformer<Map>, Failure> {
    let config = bench.server.config_by_token_file(cable.address(), Some(path)).await?;
    Ok(bench.maps_by(&Client::new(config)?, InitialRead::List))
}

async fn a_service_account_token_authenticates(bench: Bench) -> Result<(), Failure> {
    let cable = Cable::to(bench.server.address()).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    std::fs::write(&path, account_token(&bench, "reader").await?)?;
    let watched = Watched::start(by_token_file(&bench, &cable, &path).await?)?;
    bench.create("a").await?;
    bench.settled(&watched, &maps()).await
}

async fn a_changed_token_file_is_read_again(bench: Bench) -> Result<(), Failure> {
    let cable = Cable::to(bench.server.address()).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    std::fs::write(&path, account_token(&bench, "first").await?)?;
    let watched = Watched::start(by_token_file(&bench, &cable, &path).await?)?;
    bench.create("a").await?;
    bench.settled(&watched, &maps()).await?;
    let old_path = folder.path().join("old");
    std::fs::copy(&path, &old_path)?;
    let old = bench.server.config_by_token_file(bench.server.address(), Some(&old_path)).await?;
    let old = crate::Api::new(Client::new(old)?);
    // Writes the new token before the old one expires, as a kubelet does.
    std::fs::write(&path, account_token(&bench, "second").await?)?;
    bench.api.delete(&informer::Gvr::new("", "v1", "secrets"), &bench.namespace, "first").await?;
    // A real server continues to accept the invalid token for some seconds.
    while old.list(&maps(), &bench.namespace).await.is_ok() {
        poll::pause().await;
    }
    // The open watch continues without a valid token, but the next watch needs one.
    cable.cut();
    bench.create("b").await?;
    // The client reads the token file again at least once a minute, so the loop ends.
    while bench.settled(&watched, &maps()).await.is_err() {}
    assert!(
        watched.seen().iter().all(|seen| matches!(seen.what, CallKind::Added | CallKind::Initial)),
        "no change was lost"
    );
    Ok(())
}

async fn a_revoked_token_is_reported_and_replaced(bench: Bench) -> Result<(), Failure> {
    let cable = Cable::to(bench.server.address()).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("token");
    std::fs::write(&path, account_token(&bench, "first").await?)?;
    let watched = Watched::start(by_token_file(&bench, &cable, &path).await?)?;
    bench.create("a").await?;
    bench.settled(&watched, &maps()).await?;
    bench.api.delete(&informer::Gvr::new("", "v1", "secrets"), &bench.namespace, "first").await?;
    let unauthorized = || {
        let last = watched.informer.state().reflector.last_error;
        last.is_some_and(|error| error.kind() == SourceErrorKind::Unauthorized)
    };
    while !unauthorized() {
        let opened = watched.informer.state().reflector.watches_opened;
        cable.cut();
        poll::until(|| watched.informer.state().reflector.watches_opened > opened || unauthorized()).await;
    }
    let error =
        watched.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("401") && error.contains("check the credentials"), "{error}");
    assert_eq!(watched.informer.indexer().len(), 1);
    bench.change("a", "1").await?;
    std::fs::write(&path, account_token(&bench, "second").await?)?;
    // The client reads the token file again at least once a minute. In addition, the backoff grows up to half
    // a minute.
    poll::until(|| {
        let story = watched.story("a");
        story == [CallKind::Added, CallKind::Updated] || story == [CallKind::Initial, CallKind::Updated]
    })
    .await;
    bench.settled(&watched, &maps()).await
}

async fn a_server_with_an_untrusted_certificate_is_rejected(bench: Bench) -> Result<(), Failure> {
    let mut config = bench.server.config(bench.server.address()).await?;
    config.root_cert = None;
    let client = Client::new(config)?;
    let watched = Watched::start(bench.maps_by(&client, InitialRead::List))?;
    watched.until_state(|state| state.reflector.last_error.is_some()).await?;
    let error =
        watched.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    assert!(!watched.informer.has_synced());
    Ok(())
}

async fn a_client_without_credentials_is_reported_as_anonymous(bench: Bench) -> Result<(), Failure> {
    let config = bench.server.config_by_token_file(bench.server.address(), None).await?;
    let watched = Watched::start(bench.maps_by(&Client::new(config)?, InitialRead::List))?;
    watched.until_state(|state| state.reflector.last_error.is_some()).await?;
    let error =
        watched.informer.state().reflector.last_error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("system:anonymous") && error.contains("403"), "{error}");
    Ok(())
}
