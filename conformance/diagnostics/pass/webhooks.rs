//! Webhooks: closures without annotations, if the kind is named, and functions.

use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::webhook::{AdmissionRequest, Allowed, Denied, WebhookOptions, WebhookServer};
use informer_diagnostics::Website;

async fn check(request: AdmissionRequest<Website>) -> Result<Allowed, Denied> {
    match request.object {
        Some(site) if site.spec.image.is_empty() => Err(Denied::invalid("spec.image: required")),
        _ => Ok(Allowed::new()),
    }
}

fn webhooks(server: WebhookServer) -> WebhookServer {
    server
        .validate(check)
        .validate::<ConfigMap>(|request| async move {
            let Some(map) = request.object else { return Ok(Allowed::new()) };
            if map.data.is_some() { Ok(Allowed::new()) } else { Err(Denied::invalid("data: required")) }
        })
        .validate(|_: AdmissionRequest<ConfigMap>| async { Ok(Allowed::new()) })
        .validate_with::<ConfigMap>(WebhookOptions::new(), |_| async { Ok(Allowed::new()) })
        .default::<ConfigMap>(|_, mut map| async move {
            map.metadata.labels.get_or_insert_default().insert("managed".to_owned(), "yes".to_owned());
            Ok(map)
        })
}

fn main() {
    let _ = webhooks;
}
