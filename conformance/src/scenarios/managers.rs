use std::borrow::Cow;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use informer::Gvr;
use informer_apiserver::ReservedPort;
use informer_runtime::webhook::{
    AdmissionOperation, AdmissionRequest, Allowed, Conversion, Denied, WebhookOptions, WebhookServer,
};
use informer_runtime::{
    Controller, ControllerOptions, EventSubject, Manager, ManagerError, ManagerHandle, ManagerStatus,
    Outcome, Tls,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::bench::maps;
use crate::poll;
use crate::scenario::scenario;
use crate::server::definitions;
use crate::{Bench, Failure, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(the_server_calls_the_webhooks_of_a_manager),
        scenario!(a_webhook_of_a_manager_denies_connections_to_a_pod),
        scenario!(a_conversion_webhook_of_a_manager_converts_objects),
        scenario!(a_manager_starts_although_its_cache_needs_its_own_webhook),
        scenario!(repeated_events_of_a_manager_become_a_series),
    ]
}

pub(super) struct Running {
    pub(super) handle: ManagerHandle,
    pub(super) task: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    pub(super) async fn start(manager: Manager) -> Result<Self, Failure> {
        let handle = manager.handle();
        let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
        handle.status().wait_for(|status| *status == ManagerStatus::Running).await?;
        Ok(Self { handle, task })
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.handle.stop();
        Ok(self.task.await??)
    }
}

struct Certificate {
    folder: tempfile::TempDir,
    bundle: String,
}

impl Certificate {
    fn new() -> Result<Self, Failure> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem())?;
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem())?;
        Ok(Self { folder, bundle: STANDARD.encode(made.cert.pem()) })
    }

    fn tls(&self) -> Tls {
        let file = |name| self.folder.path().join(name);
        Tls::files(file("tls.crt"), file("tls.key"), rustls::crypto::ring::default_provider())
    }

    fn client_config(&self, address: SocketAddr, path: &str) -> Value {
        json!({"url": format!("https://{address}{path}"), "caBundle": self.bundle})
    }
}

async fn address(mut bound: watch::Receiver<Option<SocketAddr>>) -> Result<SocketAddr, Failure> {
    let bound = *bound.wait_for(Option::is_some).await?;
    bound.ok_or_else(|| "the webhook server does not listen".into())
}

pub(super) fn configuration(bench: &Bench, kind: &str, client_config: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": bench.namespace},
        "webhooks": [{
            "name": "maps.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}},
            "clientConfig": client_config,
            "rules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }],
        }],
    })
}

pub(super) fn map(name: &str, key: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {key: "x"}})
}

async fn the_server_calls_the_webhooks_of_a_manager(bench: Bench) -> Result<(), Failure> {
    let certificate = Certificate::new()?;
    let webhooks = WebhookServer::at("127.0.0.1:0", certificate.tls())
        .default(|request: AdmissionRequest<ConfigMap>, mut map: ConfigMap| async move {
            map.data.get_or_insert_default().insert("by".to_owned(), request.user.username);
            Ok(map)
        })
        .validate(|request: AdmissionRequest<ConfigMap>| async move {
            let data = request.object.and_then(|map| map.data).unwrap_or_default();
            if data.contains_key("password") {
                Err(Denied::new("put passwords into a Secret"))
            } else {
                Ok(Allowed::new())
            }
        });
    let bound = webhooks.bound();
    let running = Running::start(Manager::new(bench.client()).add(webhooks)).await?;
    let address = address(bound).await?;
    let admission = |resource: &str| Gvr::new("admissionregistration.k8s.io", "v1", resource);
    let (mutating, validating) =
        (admission("mutatingwebhookconfigurations"), admission("validatingwebhookconfigurations"));
    let calls = certificate.client_config(address, "/mutate--v1-configmap");
    bench.api.create(&mutating, "", &configuration(&bench, "MutatingWebhookConfiguration", &calls)).await?;
    let calls = certificate.client_config(address, "/validate--v1-configmap");
    bench
        .api
        .create(&validating, "", &configuration(&bench, "ValidatingWebhookConfiguration", &calls))
        .await?;

    let mut count = 0..;
    let by = loop {
        let name = format!("defaulted-{}", count.next().unwrap_or(0));
        let created = bench.api.create(&maps(), &bench.namespace, &map(&name, "value")).await?;
        assert_eq!(created["data"]["value"], "x", "existing data stays");
        match created["data"]["by"].as_str() {
            Some(by) => break by.to_owned(),
            None => poll::pause().await,
        }
    };
    assert_eq!(by, "admin");
    let denied = loop {
        let name = format!("denied-{}", count.next().unwrap_or(0));
        match bench.api.create(&maps(), &bench.namespace, &map(&name, "password")).await {
            Ok(_) => poll::pause().await,
            Err(error) => break error,
        }
    };
    let expected = "admission webhook \"maps.example.com\" denied the request: put passwords into a Secret";
    assert_eq!(denied.status, 403, "{denied}");
    assert!(denied.to_string().contains(expected), "{denied}");
    bench.api.delete(&mutating, "", &bench.namespace).await?;
    bench.api.delete(&validating, "", &bench.namespace).await?;
    running.stop().await
}

/// Requests of kubectl that open a connection to a pod.
const CONNECTIONS: [(Method, &str); 3] = [
    (Method::POST, "exec?command=sh&stdin=true&stdout=true&tty=true"),
    (Method::GET, "exec?command=sh&stdin=true&stdout=true&tty=true"),
    (Method::POST, "portforward?ports=8080"),
];

async fn a_webhook_of_a_manager_denies_connections_to_a_pod(bench: Bench) -> Result<(), Failure> {
    let certificate = Certificate::new()?;
    let resources = ["pods/exec", "pods/portforward"].map(|resource| Gvr::new("", "v1", resource));
    let connections = WebhookOptions::new().operations([AdmissionOperation::Connect]);
    let webhooks = WebhookServer::at("127.0.0.1:0", certificate.tls()).validate_raw(
        "/connections",
        connections,
        resources,
        |request: AdmissionRequest<Value>| async move {
            let options = request.object.unwrap_or_default();
            let detail =
                if options["kind"] == "PodExecOptions" { &options["command"] } else { &options["ports"] };
            Err::<Allowed, _>(Denied::new(format!("{} of {}: {detail}", options["kind"], request.name)))
        },
    );
    let bound = webhooks.bound();
    let running = Running::start(Manager::new(bench.client()).add(webhooks)).await?;
    let calls = certificate.client_config(address(bound).await?, "/connections");
    let mut configuration = configuration(&bench, "ValidatingWebhookConfiguration", &calls);
    let webhook = &mut configuration["webhooks"][0];
    webhook["name"] = json!("connections.example.com");
    webhook["rules"][0]["operations"] = json!(["CONNECT"]);
    webhook["rules"][0]["resources"] = json!(["pods/exec", "pods/portforward"]);
    let validating = Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    bench.api.create(&validating, "", &configuration).await?;
    let pods = Gvr::new("", "v1", "pods");
    let pod = json!({
        "metadata": {"name": "web-0"},
        "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "example.com/web"}]},
    });
    bench.api.create(&pods, &bench.namespace, &pod).await?;

    for (method, path) in CONNECTIONS {
        let path = format!("{}/web-0/{path}", pods.path(Some(&bench.namespace)));
        // Without the webhook the connection fails with another status, because there is no kubelet.
        let denied = loop {
            match bench.api.send(method.clone(), &path, "application/json", &Value::Null).await {
                Err(error) if error.status == 403 => break error.to_string(),
                _ => poll::pause().await,
            }
        };
        let expected = if path.contains("exec") {
            r#""PodExecOptions" of web-0: ["sh"]"#
        } else {
            r#""PodPortForwardOptions" of web-0: [8080]"#
        };
        let expected =
            format!("admission webhook \"connections.example.com\" denied the request: {expected}");
        assert!(denied.contains(&expected), "{denied}");
    }
    bench.api.delete(&validating, "", &bench.namespace).await?;
    bench.api.delete(&pods, &bench.namespace, "web-0").await?;
    running.stop().await
}

/// Declares two versions of one kind. The same field has another name in the old version than in the new one.
macro_rules! greeting {
    ($name:ident, $group:ident, $version:literal, $field:ident) => {
        #[derive(Clone, Serialize, Deserialize)]
        struct $name {
            metadata: ObjectMeta,
            $field: String,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                "Greeting".into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                "greetings".into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

const GREETINGS: &str = "managers.example.com";
greeting!(Greeting, GREETINGS, "v1", text);
greeting!(OldGreeting, GREETINGS, "v1beta1", words);

/// The group of the same kind for another scenario, because scenarios run concurrently.
const WELCOMES: &str = "welcomes.example.com";
greeting!(Welcome, WELCOMES, "v1", text);
greeting!(OldWelcome, WELCOMES, "v1beta1", words);

fn greetings(group: &str, version: &str) -> Gvr {
    Gvr::new(group, version, "greetings")
}

fn greeting_definition(group: &str, client_config: &Value) -> Value {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("greetings.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting", "listKind": "GreetingList"},
            "versions": [version("v1", true), version("v1beta1", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
            },
        },
    })
}

async fn a_conversion_webhook_of_a_manager_converts_objects(bench: Bench) -> Result<(), Failure> {
    let certificate = Certificate::new()?;
    let conversion = Conversion::hub::<Greeting>().spoke(
        |old: OldGreeting| Ok::<_, std::fmt::Error>(Greeting { metadata: old.metadata, text: old.words }),
        |new: Greeting| Ok(OldGreeting { metadata: new.metadata, words: new.text }),
    );
    let webhooks = WebhookServer::at("127.0.0.1:0", certificate.tls()).convert([conversion]);
    let bound = webhooks.bound();
    let running = Running::start(Manager::new(bench.client()).add(webhooks)).await?;
    let calls = certificate.client_config(address(bound).await?, "/convert");
    bench.api.create(&definitions(), "", &greeting_definition(GREETINGS, &calls)).await?;
    for version in ["v1", "v1beta1"] {
        while bench.api.list(&greetings(GREETINGS, version), &bench.namespace).await.is_err() {
            poll::pause().await;
        }
    }
    let old = json!({
        "apiVersion": "managers.example.com/v1beta1", "kind": "Greeting",
        "metadata": {"name": "hello", "labels": {"a": "b"}}, "words": "good morning",
    });
    let created = bench.api.create(&greetings(GREETINGS, "v1beta1"), &bench.namespace, &old).await?;
    assert_eq!((&created["apiVersion"], &created["words"]), (&old["apiVersion"], &old["words"]));
    let (stored, _) = bench.api.list(&greetings(GREETINGS, "v1"), &bench.namespace).await?;
    assert_eq!((&stored[0]["text"], &stored[0]["words"]), (&json!("good morning"), &Value::Null));
    assert_eq!(stored[0]["metadata"]["labels"]["a"], "b");
    bench.api.delete(&definitions(), "", "greetings.managers.example.com").await?;
    running.stop().await
}

/// Returns a controller that uses a version of the kind that is not the storage version. It sends the field
/// that it reads to the channel.
fn greeter(told: &mpsc::UnboundedSender<String>, warm_up: bool) -> Controller {
    let (told, options) = (told.clone(), ControllerOptions::new().warm_up(warm_up));
    Controller::new::<OldWelcome>("greeter").with_options(options).reconcile(move |request, ctx| {
        let told = told.clone();
        async move {
            let greeting =
                ctx.cache.get::<OldWelcome>(&request.key).await?.ok_or("the object is not in the cache")?;
            told.send(greeting.get()?.words.clone())?;
            Ok(Outcome::Done)
        }
    })
}

async fn a_manager_starts_although_its_cache_needs_its_own_webhook(bench: Bench) -> Result<(), Failure> {
    let certificate = Certificate::new()?;
    let port = ReservedPort::new()?;
    let address = port.address();
    let calls = certificate.client_config(address, "/convert");
    bench.api.create(&definitions(), "", &greeting_definition(WELCOMES, &calls)).await?;
    let stored = greetings(WELCOMES, "v1");
    while bench.api.list(&stored, &bench.namespace).await.is_err() {
        poll::pause().await;
    }
    let hello = json!({
        "apiVersion": "welcomes.example.com/v1", "kind": "Greeting", "metadata": {"name": "hello"}, "text": "good day",
    });
    bench.api.create(&stored, &bench.namespace, &hello).await?;
    let (told, mut words) = mpsc::unbounded_channel();
    for warm_up in [false, true] {
        let conversion = Conversion::hub::<Welcome>().spoke(
            |old: OldWelcome| Ok::<_, std::fmt::Error>(Welcome { metadata: old.metadata, text: old.words }),
            |new: Welcome| Ok(OldWelcome { metadata: new.metadata, words: new.text }),
        );
        let listener = TcpListener::bind(address).await?;
        let webhooks = WebhookServer::on(listener, certificate.tls()).convert([conversion]);
        let manager = Manager::new(bench.client()).controller(greeter(&told, warm_up)).add(webhooks);
        let running = Running::start(manager).await?;
        assert_eq!(words.recv().await.as_deref(), Some("good day"));
        running.stop().await?;
    }
    bench.api.delete(&definitions(), "", &format!("greetings.{WELCOMES}")).await?;
    Ok(())
}

async fn repeated_events_of_a_manager_become_a_series(bench: Bench) -> Result<(), Failure> {
    let running = Running::start(Manager::new(bench.client())).await?;
    let recorder = running.handle.recorder("conformance");
    let events = Gvr::new("events.k8s.io", "v1", "events");
    for count in [None, Some(2)] {
        let about = EventSubject::new("v1", "ConfigMap", &bench.namespace, "settings");
        recorder.warning(about, "Odd", "Checking", "something is odd");
        loop {
            let (seen, _) = bench.api.list(&events, &bench.namespace).await?;
            if seen.first().is_some_and(|event| event["series"]["count"].as_i64() == count) {
                assert_eq!((seen.len(), &seen[0]["reason"]), (1, &json!("Odd")));
                break;
            }
            poll::pause().await;
        }
    }
    running.stop().await?;
    assert_eq!(recorder.dropped(), 0);
    Ok(())
}
