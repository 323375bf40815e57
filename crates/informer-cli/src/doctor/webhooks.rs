//! Checks admission webhooks and conversion webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::Value;

use super::api::{Api, ApiFailure};
use super::certificates::Validity;
use super::findings::{Findings, Level};

const CHECK: &str = "webhooks";

const CONFIGURATIONS: [(&str, &str); 2] = [
    (
        "ValidatingWebhookConfiguration",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ),
    ("MutatingWebhookConfiguration", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
];

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The port of a webhook whose configuration contains no port.
const DEFAULT_PORT: u64 = 443;

/// An admission or conversion webhook to check, and the level at which its problems are reported.
struct Webhook<'a> {
    /// The name for messages: that of the configuration, and that of the webhook in it.
    name: String,
    client_config: &'a Value,
    /// The level of problems of this webhook. It is a warning if the failure policy makes the server ignore
    /// failed calls.
    level: Level,
}

pub(super) async fn check(api: &Api, now: f64, findings: &mut Findings) {
    let (mut count, before) = (0, findings.len());
    for (kind, path) in CONFIGURATIONS {
        let Some(list) = list(api, path, findings).await else { continue };
        for configuration in list["items"].as_array().into_iter().flatten() {
            for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
                count += 1;
                check_webhook(api, &of_configuration(kind, configuration, webhook), now, findings).await;
            }
        }
    }
    if let Some(list) = list(api, CRDS, findings).await {
        for crd in list["items"].as_array().into_iter().flatten() {
            let conversion = &crd["spec"]["conversion"];
            if conversion["strategy"] == "Webhook" {
                count += 1;
                let name = format!("conversion of {}", text(&crd["metadata"]["name"]));
                let client_config = &conversion["webhook"]["clientConfig"];
                let webhook = Webhook { name, client_config, level: Level::Problem };
                check_webhook(api, &webhook, now, findings).await;
            }
        }
    }
    if findings.len() == before {
        findings.ok(CHECK, format!("all {count} have endpoints and valid CA bundles"));
    }
}

async fn list(api: &Api, path: &str, findings: &mut Findings) -> Option<Value> {
    match api.get(path).await {
        Ok(list) => Some(list),
        Err(failure) => {
            let resource = path.rsplit('/').next().unwrap_or_default();
            let remedy = format!("grant list on {resource}");
            findings.warning(CHECK, format!("cannot be checked: {failure}"), remedy);
            None
        }
    }
}

fn of_configuration<'a>(kind: &str, configuration: &Value, webhook: &'a Value) -> Webhook<'a> {
    let ignored = webhook["failurePolicy"] == "Ignore";
    Webhook {
        name: format!(
            "{kind} {}, webhook {}",
            text(&configuration["metadata"]["name"]),
            text(&webhook["name"])
        ),
        client_config: &webhook["clientConfig"],
        level: if ignored { Level::Warning } else { Level::Problem },
    }
}

async fn check_webhook(api: &Api, webhook: &Webhook<'_>, now: f64, findings: &mut Findings) {
    check_bundle(webhook, now, findings);
    let service = &webhook.client_config["service"];
    if !service.is_object() {
        return;
    }
    let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
    let port = service["port"].as_u64().unwrap_or(DEFAULT_PORT);
    let Webhook { name: webhook_name, level, .. } = webhook;
    let mut report = |level: Level, message: String, remedy: &str| {
        findings.report(level, CHECK, format!("{webhook_name}: {message}"), remedy);
    };
    let unknown = |failure: &ApiFailure| format!("cannot be checked: {failure}");
    match api.get(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await {
        Ok(found) if found["spec"]["type"] == "ExternalName" => return,
        Ok(found) => {
            let ports = found["spec"]["ports"].as_array().into_iter().flatten();
            if !ports.into_iter().any(|found| found["port"] == port) {
                return report(
                    *level,
                    format!("service {namespace}/{name} has no port {port}"),
                    "set clientConfig.service.port to a port of the service",
                );
            }
        }
        Err(failure) if failure.is(StatusCode::NOT_FOUND) => {
            return report(
                *level,
                format!("service {namespace}/{name} does not exist"),
                "install the operator again, or delete the configuration of its webhooks",
            );
        }
        Err(failure) => return report(Level::Warning, unknown(&failure), "grant get on services"),
    }
    let slices = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
    );
    match api.get(&slices).await {
        Ok(list) if !has_ready_endpoint(&list) => report(
            *level,
            format!("service {namespace}/{name} has no ready endpoints"),
            "check the pods of the service, and its selector",
        ),
        Ok(_) => {}
        Err(failure) => {
            report(Level::Warning, unknown(&failure), "grant list on endpointslices.discovery.k8s.io");
        }
    }
}

fn has_ready_endpoint(slices: &Value) -> bool {
    let slices = slices["items"].as_array().into_iter().flatten();
    let mut endpoints = slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    // An endpoint without the condition `ready` counts as ready, as the API of EndpointSlices defines it.
    endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false)
}

fn check_bundle(webhook: &Webhook<'_>, now: f64, findings: &mut Findings) {
    let Webhook { name, client_config, level } = webhook;
    let remedy = "renew the CA certificate, and write it to caBundle (cert-manager's cainjector does)";
    let mut report =
        |level, message: String| findings.report(level, CHECK, format!("{name}: {message}"), remedy);
    let bundle = client_config["caBundle"].as_str().unwrap_or_default();
    if bundle.is_empty() {
        // A webhook with a URL may have a certificate of a public CA, for which it needs no CA bundle. A
        // public CA issues no certificate for the name of a Service.
        if client_config["service"].is_object() {
            report(*level, "the CA bundle is empty".to_owned());
        }
        return;
    }
    let pem = STANDARD.decode(bundle).map_err(|error| format!("it is not base64: {error}"));
    match pem.and_then(|pem| Validity::of_pem(&pem, now, true)) {
        Ok(Validity::Until(_)) => {}
        Ok(validity @ Validity::ExpiresSoon(_)) => {
            report(Level::Warning, format!("the CA bundle {}", validity.text()));
        }
        Ok(validity) => report(*level, format!("the CA bundle {}", validity.text())),
        Err(why) => report(*level, format!("the CA bundle cannot be read: {why}")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
