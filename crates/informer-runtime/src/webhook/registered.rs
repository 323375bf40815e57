//! The webhooks of a server, for their registration in the API server.

use informer_core::{Gvk, Gvr};

use super::WebhookOptions;

/// A webhook of a [`WebhookServer`](super::WebhookServer), with what its registration in an API server needs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RegisteredWebhook {
    /// A webhook that changes objects, for a `MutatingWebhookConfiguration`.
    Mutating {
        /// The path at which the server serves the webhook.
        path: String,
        /// The resource whose objects the webhook changes.
        resource: Gvr,
        /// How the API server calls the webhook.
        options: WebhookOptions,
    },
    /// A webhook that validates objects, for a `ValidatingWebhookConfiguration`.
    Validating {
        /// The path at which the server serves the webhook.
        path: String,
        /// The resource whose objects the webhook validates.
        resource: Gvr,
        /// How the API server calls the webhook.
        options: WebhookOptions,
    },
    /// A webhook that converts custom resources, for `spec.conversion` of a CRD.
    Conversion {
        /// The path at which the server serves the webhook. The conversions of all kinds have one path.
        path: String,
        /// The custom kind in its hub version.
        kind: Gvk,
    },
    /// A webhook that authenticates tokens, for `--authentication-token-webhook-config-file` of an API
    /// server.
    Authentication {
        /// The path at which the server serves the webhook.
        path: String,
    },
    /// A webhook that authorizes requests, for `--authorization-config` of an API server.
    Authorization {
        /// The path at which the server serves the webhook.
        path: String,
    },
}

impl RegisteredWebhook {
    /// Returns the path at which the server has the webhook, such as `/validate--v1-configmap`.
    pub fn path(&self) -> &str {
        match self {
            Self::Mutating { path, .. }
            | Self::Validating { path, .. }
            | Self::Conversion { path, .. }
            | Self::Authentication { path }
            | Self::Authorization { path } => path,
        }
    }
}
