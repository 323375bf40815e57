//! The webhooks of this operator: one module for each kind with admission webhooks, and the
//! conversions between versions.

pub mod shop;

use std::path::PathBuf;

use informer::prelude::*;
use informer::runtime::Tls;
use informer::webhook::{RegisteredWebhook, WebhookServer};

/// The settings of the webhook server.
#[derive(Clone, Debug, clap::Args)]
pub struct WebhookSettings {
    /// The address of the webhook server.
    #[arg(long, env = "WEBHOOK_ADDRESS", default_value = "0.0.0.0:9443")]
    pub webhook_address: String,
    /// The folder with tls.crt and tls.key, which are reloaded when they change. Without it,
    /// the program serves no webhooks.
    #[arg(long, env = "WEBHOOK_CERTIFICATES", value_name = "FOLDER")]
    pub webhook_certificates: Option<PathBuf>,
}

/// Adds the webhook server to a manager, if there is a folder of certificates.
pub fn add_to(manager: Manager, settings: &WebhookSettings) -> Manager {
    let Some(folder) = &settings.webhook_certificates else {
        tracing::warn!("no webhooks are served: --webhook-certificates is not set");
        return manager;
    };
    let tls = Tls::pem_files(folder.join("tls.crt"), folder.join("tls.key"));
    manager.add(register(WebhookServer::at(&settings.webhook_address, tls)))
}

/// Returns the webhooks of this operator. Their registration in `config/webhook` is generated
/// from them.
pub fn registered() -> Vec<RegisteredWebhook> {
    register(WebhookServer::standalone()).registered().to_vec()
}

/// Registers the webhooks of all kinds.
pub fn register(server: WebhookServer) -> WebhookServer {
    server.default(shop::default).validate(shop::validate)
}
