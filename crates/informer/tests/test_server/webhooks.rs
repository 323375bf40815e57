//! Tests of webhooks that a `TestServer` calls in its process.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use informer::kube_client::Api;
use informer::kube_core::CustomResourceExt;
use informer::kube_core::crd::merge_crds;
use informer::runtime::{Cache, CachedClient};
use informer::testing::{TestServer, User, pod};
use informer::webhook::{
    AdmissionOperation, AdmissionRequest, Allowed, Conversion, Denied, FailurePolicy, WebhookOptions,
    WebhookServer,
};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;

mod v1 {
    use informer::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
    #[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
    pub(super) struct GreetingSpec {
        pub(super) text: String,
    }
}

mod v1beta1 {
    use informer::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Greeting", namespaced)]
    #[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
    pub(super) struct GreetingSpec {
        pub(super) words: String,
    }
}

fn client(server: &TestServer) -> CachedClient {
    CachedClient::new(&Cache::new(server.client_as(User::new("jane").groups(["system:masters"]))))
}

/// Returns the messages of an error and of its sources.
fn messages(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", messages(source)))
}

async fn label(request: AdmissionRequest<Pod>, mut pod: Pod) -> Result<Pod, Denied> {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.entry("by".to_owned()).or_insert(request.user.username);
    Ok(pod)
}

async fn check(request: AdmissionRequest<Pod>) -> Result<Allowed, Denied> {
    let old = request.old_object()?;
    let labels = |pod: Option<Pod>| pod.and_then(|pod| pod.metadata.labels).unwrap_or_default();
    match request.operation {
        AdmissionOperation::Delete if labels(old).contains_key("keep") => Err(Denied::new("it is kept")),
        AdmissionOperation::Delete => Ok(Allowed::new()),
        _ if labels(request.object).contains_key("by") => Ok(Allowed::new()),
        _ => Err(Denied::invalid("metadata.labels.by is missing")),
    }
}

#[tokio::test(start_paused = true)]
async fn defaults_and_validations_are_registered_by_their_types() {
    let server = TestServer::start().await;
    let operations = [AdmissionOperation::Create, AdmissionOperation::Update, AdmissionOperation::Delete];
    let options = WebhookOptions::new().operations(operations);
    let registered = server.webhooks(|webhooks| webhooks.default(label).validate_with(options, check));
    registered.await.unwrap();
    let (client, begin) = (client(&server), tokio::time::Instant::now());
    let created = client.create(&pod("default/web-0")).await.unwrap();
    assert_eq!(created.metadata.labels.as_ref().unwrap()["by"], "jane");

    let mut edited = created.edit();
    edited.metadata.labels.get_or_insert_default().insert("keep".to_owned(), "yes".to_owned());
    client.update(&edited).await.unwrap();
    let error = client.delete::<Pod>("default/web-0").await.unwrap_err().to_string();
    let denied = "admission webhook \"v1.pods.core\" denied the request: it is kept";
    assert!(error.contains(denied), "{error}");
    client.create(&pod("default/web-1")).await.unwrap();
    client.delete::<Pod>("default/web-1").await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO, "no call waits in paused time");
}

#[tokio::test(start_paused = true)]
async fn options_of_a_webhook_are_those_of_its_registration() {
    let server = TestServer::start().await;
    let options = || {
        let label = [("reviewed".to_owned(), "yes".to_owned())].into();
        let selector = LabelSelector { match_labels: Some(label), ..LabelSelector::default() };
        WebhookOptions::new().timeout(Duration::from_millis(1500)).object_selector(selector)
    };
    let slow = |_: AdmissionRequest<Pod>| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Allowed::new())
    };
    let ignored = options().failure_policy(FailurePolicy::Ignore);
    server.webhooks(|webhooks| webhooks.validate_with(ignored, slow)).await.unwrap();
    let (client, begin) = (client(&server), tokio::time::Instant::now());
    client.create(&pod("default/web-0")).await.expect("it has not the label");
    assert_eq!(begin.elapsed(), Duration::ZERO);
    let labeled = |key: &str| {
        let mut pod = pod(key);
        pod.metadata.labels = Some([("reviewed".to_owned(), "yes".to_owned())].into());
        pod
    };
    client.create(&labeled("default/web-1")).await.expect("the failure is ignored");
    assert_eq!(begin.elapsed(), Duration::from_secs(2), "the timeout is rounded up to seconds");
    server.webhooks(|webhooks| webhooks.validate_with(options(), slow)).await.unwrap();
    client.create(&labeled("default/web-2")).await.expect_err("the failure rejects the request");
    client.delete::<Pod>("default/web-1").await.expect("deletions are not reviewed");
}

#[tokio::test(start_paused = true)]
async fn later_registration_replaces_the_webhook_of_the_same_kind() {
    let server = TestServer::start().await;
    server.webhooks(|webhooks| webhooks.validate(check)).await.unwrap();
    let client = client(&server);
    client.create(&pod("default/web-0")).await.expect_err("nothing adds the label");
    server.webhooks(|webhooks| webhooks.default(label)).await.unwrap();
    client.create(&pod("default/web-0")).await.expect("both webhooks are registered");
    let deny = |_: AdmissionRequest<Pod>| async { Err::<Allowed, _>(Denied::new("never")) };
    server.webhooks(|webhooks| webhooks.validate(deny)).await.unwrap();
    let error = client.create(&pod("default/web-1")).await.unwrap_err().to_string();
    assert!(error.ends_with("denied the request: never"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn slow_webhook_times_out_after_the_registered_timeout() {
    let server = TestServer::start().await;
    let slow = |_: AdmissionRequest<Pod>| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Allowed::new())
    };
    server.webhooks(|webhooks| webhooks.validate(slow)).await.unwrap();
    let begin = tokio::time::Instant::now();
    let error = client(&server).create(&pod("default/web-0")).await.unwrap_err().to_string();
    assert!(error.contains("context deadline exceeded"), "{error}");
    assert_eq!(begin.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn webhook_can_call_the_server_that_calls_it() {
    let server = TestServer::start().await;
    let pods: Api<Pod> = Api::all(server.kube_client());
    let limit = move |_: AdmissionRequest<Pod>| {
        let pods = pods.clone();
        async move {
            let listed = pods.list(&Default::default()).await;
            match listed.map_err(|error| Denied::new(error.to_string()))?.items.len() {
                0 => Ok(Allowed::new()),
                _ => Err(Denied::new("there is one already")),
            }
        }
    };
    server.webhooks(|webhooks| webhooks.validate(limit)).await.unwrap();
    let client = client(&server);
    client.create(&pod("default/web-0")).await.unwrap();
    let error = client.create(&pod("default/web-1")).await.unwrap_err().to_string();
    assert!(error.ends_with("there is one already"), "{error}");
}

fn conversions(webhooks: WebhookServer) -> WebhookServer {
    let to_hub = |old: v1beta1::Greeting| {
        let spec = v1::GreetingSpec { text: old.spec.words };
        Ok::<_, Infallible>(v1::Greeting { metadata: old.metadata, spec })
    };
    let from_hub = |new: v1::Greeting| {
        let spec = v1beta1::GreetingSpec { words: new.spec.text };
        Ok(v1beta1::Greeting { metadata: new.metadata, spec })
    };
    webhooks.convert([Conversion::hub::<v1::Greeting>().spoke(to_hub, from_hub)])
}

#[tokio::test(start_paused = true)]
async fn conversions_are_registered_in_the_installed_crd() {
    let server = TestServer::start().await;
    let error = messages(&server.webhooks(conversions).await.unwrap_err());
    assert_eq!(
        error,
        "cannot register webhook /convert: there is no CRD of the kind Greeting in example.com; install it \
         before the webhooks"
    );
    let crds = vec![v1::Greeting::crd(), v1beta1::Greeting::crd()];
    server.create(&merge_crds(crds, "v1").unwrap()).await.unwrap();
    server.webhooks(conversions).await.unwrap();

    let client = client(&server);
    let spec = v1beta1::GreetingSpec { words: "good morning".to_owned() };
    let mut greeting = v1beta1::Greeting::new("hello", spec);
    greeting.metadata.namespace = Some("default".to_owned());
    client.create(&greeting).await.unwrap();
    let stored: v1::Greeting = server.get("default/hello").await.unwrap();
    assert_eq!(stored.spec.text, "good morning");
    let read = client.live().get::<v1beta1::Greeting>("default/hello").await.unwrap().unwrap();
    assert_eq!(read.spec.words, "good morning");
}

#[tokio::test(start_paused = true)]
async fn own_manifests_call_the_routed_service() {
    let server = TestServer::start().await;
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "shop"},
        "webhooks": [{
            "name": "pods.shop.example.com",
            "clientConfig": {
                "service": {"namespace": "shop-system", "name": "shop-webhook", "path": "/validate--v1-pod"},
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }],
    }))
    .unwrap();
    server.create(&configuration).await.unwrap();
    let client = client(&server);
    let error = client.create(&pod("default/web-0")).await.unwrap_err().to_string();
    assert!(error.contains("service \"shop-webhook\" not found"), "{error}");

    server.route_webhooks("shop-system/shop-webhook", |webhooks| webhooks.validate(check)).unwrap();
    let error = client.create(&pod("default/web-0")).await.unwrap_err().to_string();
    assert!(
        error.contains("\"pods.shop.example.com\" denied the request: metadata.labels.by is missing"),
        "{error}"
    );
    let mut labeled = pod("default/web-0");
    labeled.metadata.labels = Some([("by".to_owned(), "jane".to_owned())].into());
    client.create(&labeled).await.unwrap();

    // The path of the registration is not one of the webhooks.
    server.route_webhooks("shop-system/shop-webhook", |webhooks| webhooks.default(label)).unwrap();
    let error = client.create(&pod("default/web-1")).await.unwrap_err().to_string();
    assert!(error.contains("the server could not find the requested resource"), "{error}");

    let error = server.route_webhooks("shop-webhook", |webhooks| webhooks).unwrap_err();
    assert_eq!(
        messages(&error),
        "cannot route the webhooks of Service \"shop-webhook\": it has no namespace; write NAMESPACE/NAME"
    );
}
