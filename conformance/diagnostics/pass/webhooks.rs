//! Webhooks. A closure names only its kind; a function needs nothing else.

use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
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
        .validate(|request: AdmissionRequest<ConfigMap>| async move {
            if request.dry_run { Ok(Allowed::new()) } else { Err(Denied::new("only dry runs")) }
        })
        .default(|_, mut map: ConfigMap| async move {
            map.metadata.labels.get_or_insert_default().insert("managed".to_owned(), "yes".to_owned());
            Ok(map)
        })
}

fn main() {
    let _ = webhooks;
}
