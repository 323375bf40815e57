//! How the API server calls an admission webhook.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::AdmissionOperation;

/// The maximum timeout of a webhook, in seconds. The API server rejects longer ones.
const MAX_TIMEOUT_SECONDS: u64 = 30;

/// How the API server calls an admission webhook: for which requests, and what happens if the call fails.
///
/// The options have no effect on the webhook server itself. They become part of the webhook's registration:
/// of a [`WebhookConfigurations`](super::WebhookConfigurations), and so of the manifests and tests of the
/// program.
///
/// ```
/// use std::time::Duration;
///
/// use informer_runtime::webhook::{AdmissionOperation, Allowed, FailurePolicy, WebhookOptions, WebhookServer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let options = WebhookOptions::new()
///     .operations([AdmissionOperation::Delete])
///     .failure_policy(FailurePolicy::Ignore)
///     .timeout(Duration::from_secs(2));
/// let webhooks = WebhookServer::standalone()
///     .validate_with::<ConfigMap>(options, |_| async { Ok(Allowed::new().warning("it was in use")) });
/// # drop(webhooks);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookOptions {
    pub(super) operations: Vec<AdmissionOperation>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) timeout: Duration,
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) object_selector: Option<LabelSelector>,
}

/// The response of the API server to a request if a webhook that reviews it cannot be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is rejected.
    #[default]
    Fail,
    /// The request is allowed.
    Ignore,
}

impl FailurePolicy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

impl WebhookOptions {
    /// Returns the default options: creations and updates are reviewed, a failed call rejects the request,
    /// and a call times out after 10 seconds.
    pub fn new() -> Self {
        Self {
            operations: vec![AdmissionOperation::Create, AdmissionOperation::Update],
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(10),
            namespace_selector: None,
            object_selector: None,
        }
    }

    /// Sets the operations that the webhook reviews.
    ///
    /// A webhook that reviews deletions, with [`FailurePolicy::Fail`], blocks the deletion of namespaces
    /// while it is unavailable.
    pub fn operations(mut self, operations: impl IntoIterator<Item = AdmissionOperation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Sets the response of the API server if the webhook cannot be called or times out.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// Sets the timeout of a call. The API server has whole seconds from 1 to 30; other values are rounded up
    /// and limited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reviews only the objects in namespaces with these labels, and cluster-scoped objects.
    pub fn namespace_selector(mut self, selector: LabelSelector) -> Self {
        self.namespace_selector = Some(selector);
        self
    }

    /// Reviews only objects with these labels, before or after the change.
    pub fn object_selector(mut self, selector: LabelSelector) -> Self {
        self.object_selector = Some(selector);
        self
    }

    pub(super) fn timeout_seconds(&self) -> i32 {
        let seconds = self.timeout.as_millis().div_ceil(1000).clamp(1, MAX_TIMEOUT_SECONDS.into());
        i32::try_from(seconds).expect("at most MAX_TIMEOUT_SECONDS")
    }
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self::new()
    }
}
