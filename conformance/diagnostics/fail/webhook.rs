//! Webhooks of a type that is not a kind, with the wrong result, and with a value that is not a function.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer_diagnostics::WebsiteSpec;

async fn of_spec(_: AdmissionRequest<WebsiteSpec>) -> Result<Allowed, Denied> {
    Ok(Allowed::new())
}

fn webhooks(server: WebhookServer) -> WebhookServer {
    let server = server.validate(of_spec);
    let server = server.validate(|_: AdmissionRequest<Pod>| async move { true });
    let server = server.validate::<Pod>("deny");
    server.default::<Pod>("fill")
}

fn main() {
    let _ = webhooks;
}
