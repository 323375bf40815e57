//! A webhook server that defaults and validates config maps. See `README.md` in this folder.

use std::time::Duration;

use informer::k8s_openapi::ByteString;
use informer::k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer::runtime::{CachedClient, Manager, Tls, WriteError};
use informer_apiserver::CertificateAuthority;
use informer_examples::{PATIENCE, Result, connect, operator, user};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const NAMESPACE: &str = "example-webhook";
const NAME: &str = "example-webhook";
const MOMENT: Duration = Duration::from_millis(50);

/// Defaults a config map: adds the requesting user as an annotation, and converts the label `team` to lower
/// case.
async fn fill_in(request: AdmissionRequest<ConfigMap>, mut map: ConfigMap) -> Result<ConfigMap, Denied> {
    let labels = map.metadata.labels.get_or_insert_default();
    labels.entry("team".to_owned()).or_insert_with(|| "nobody".to_owned()).make_ascii_lowercase();
    let annotations = map.metadata.annotations.get_or_insert_default();
    annotations.entry("example.com/by".to_owned()).or_insert(request.user.username);
    Ok(map)
}

async fn judge(request: AdmissionRequest<ConfigMap>) -> Result<Allowed, Denied> {
    // The request to delete an object contains only the old object, which need not be validated.
    let Some(map) = request.object else { return Ok(Allowed::new()) };
    let data = map.data.unwrap_or_default();
    match data.keys().find(|name| name.contains("password")) {
        Some(name) => Err(Denied::invalid(format!("data.{name}: put it into a Secret"))),
        None if data.is_empty() => Ok(Allowed::new().warning("the config map is empty")),
        None => Ok(Allowed::new()),
    }
}

/// Serves and registers the webhooks, and creates config maps that the webhooks change or deny.
#[tokio::main]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let user = user(&client);
    let host = std::env::var("WEBHOOK_HOST").unwrap_or_else(|_| "127.0.0.1".to_owned());
    let (authority, files) = (CertificateAuthority::new("example")?, tempfile::tempdir()?);
    let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    let made = authority.issue_for([host.as_str()])?;
    std::fs::write(&certificate, made.chain())?;
    std::fs::write(&key, made.key())?;

    let listener = TcpListener::bind((host.as_str(), 0)).await?;
    let address = format!("https://{}", listener.local_addr()?);
    let tls = Tls::files(certificate, key, rustls::crypto::ring::default_provider());
    let webhooks = WebhookServer::on(listener, tls).default(fill_in).validate(judge);
    let manager = Manager::new(operator(&client).await?).add(webhooks);
    let (stop, own) = (manager.handle(), manager.handle().services().client.clone());
    let mut status = stop.status();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    status.wait_for(|status| *status == informer::runtime::ManagerStatus::Running).await?;
    register(&own, &address, authority.certificate()).await?;
    let used = tokio::time::timeout(PATIENCE * 3, use_it(&user)).await;
    own.delete::<MutatingWebhookConfiguration>(NAME).await?;
    own.delete::<ValidatingWebhookConfiguration>(NAME).await?;
    user.delete::<Namespace>(NAMESPACE).await?;
    stop.stop();
    running.await??;
    used.map_err(|_| "the webhooks were not called in time")?
}

/// Registers the webhooks and their CA in the API server. An operator in a cluster is usually registered by
/// manifests instead, because the address of its Service is known in advance.
async fn register(own: &CachedClient, address: &str, authority: &str) -> Result {
    let bundle = ByteString(authority.as_bytes().to_vec());
    let hook = |path: &str| {
        json!([{
            "name": "configmaps.example.com",
            "clientConfig": {"url": format!("{address}{path}"), "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }])
    };
    let configuration = |hooks: Value| json!({"metadata": {"name": NAME}, "webhooks": hooks});
    let mutating: MutatingWebhookConfiguration =
        serde_json::from_value(configuration(hook("/mutate--v1-configmap")))?;
    let validating: ValidatingWebhookConfiguration =
        serde_json::from_value(configuration(hook("/validate--v1-configmap")))?;
    own.force().apply(&mutating).await?;
    own.force().apply(&validating).await?;
    Ok(())
}

async fn use_it(user: &CachedClient) -> Result {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    user.create(&namespace).await?;
    // The API server loads a new webhook configuration with a short delay, so config maps are created until
    // one is defaulted.
    let mut asked = 0;
    let filled = loop {
        asked += 1;
        let made = user.create(&config_map(&format!("filled-{asked}"), "Blue", "greeting")).await?;
        if made.metadata.annotations.is_some() {
            break made;
        }
        tokio::time::sleep(MOMENT).await;
    };
    let team = filled.metadata.labels.as_ref().and_then(|labels| labels.get("team").cloned());
    println!("filled in: team {}", team.unwrap_or_default());
    // The API server may load the validating configuration later than the mutating one, so the dry run is
    // repeated until it is denied.
    let denied = loop {
        match user.dry_run().create(&config_map("denied", "blue", "password")).await {
            Err(error) => break error,
            Ok(_) => tokio::time::sleep(MOMENT).await,
        }
    };
    println!("denied: {}", reason(&denied));
    let mut edited = filled.edit();
    edited.data.get_or_insert_default().insert("db-password".to_owned(), "secret".to_owned());
    match user.update(&edited).await {
        Err(error) if error.is_invalid() => println!("an update is validated, too"),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("the update was not validated".into()),
    }
    Ok(())
}

/// Returns the server's message of a failed write, without the description of the operation.
fn reason(error: &WriteError) -> String {
    let whole = error.to_string();
    whole.split("denied the request: ").last().unwrap_or(&whole).to_owned()
}

fn config_map(name: &str, team: &str, key: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some(NAMESPACE.to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some([("team".to_owned(), team.to_owned())].into());
    map.data = Some([(key.to_owned(), "hello".to_owned())].into());
    map
}
