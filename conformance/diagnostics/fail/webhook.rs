//! Webhooks of a type that is not a kind, and with the wrong result.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer_diagnostics::WebsiteSpec;

async fn of_spec(_: AdmissionRequest<WebsiteSpec>) -> Result<Allowed, Denied> {
    Ok(Allowed::new())
}

fn webhooks(server: WebhookServer) -> WebhookServer {
    let server = server.validate(of_spec);
    server.validate(|_: AdmissionRequest<Pod>| async move { true })
}

fn main() {
    let _ = webhooks;
}
