//! Compiles the stored webhook configurations.

use std::sync::Arc;
use std::time::Duration;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::Phase;
use super::attributes::GROUP;
use super::conditions::MatchConditionSpec;
use super::expressions::Expression;
use super::matching::{Criteria, RuleWithOperations, selector};
use crate::admission::Admission;
use crate::model::json::parse;
use crate::registry::storage::OrderedMap;
use crate::webhook::ClientConfig;

/// Default of a webhook's `timeoutSeconds`.
const TIMEOUT_SECONDS: u64 = 10;

pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client: ClientConfig,
    pub(super) criteria: Criteria,
    /// `failurePolicy` is `Ignore`.
    pub(super) fails_open: bool,
    pub(super) conditions: Vec<Expression>,
    pub(super) timeout: Duration,
    /// The webhook declares that it has no side effects on dry run, so dry-run requests may call it.
    pub(super) supports_dry_run: bool,
    /// The first version in `admissionReviewVersions` that this server supports.
    pub(super) review_version: Option<&'static str>,
    /// `reinvocationPolicy` is `IfNeeded`.
    pub(super) reinvoked: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookSpec {
    #[serde(default)]
    name: String,
    #[serde(default)]
    client_config: ClientConfig,
    #[serde(default)]
    rules: Vec<RuleWithOperations>,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    namespace_selector: Option<Value>,
    object_selector: Option<Value>,
    #[serde(default)]
    match_conditions: Vec<MatchConditionSpec>,
    timeout_seconds: Option<u64>,
    side_effects: Option<String>,
    #[serde(default)]
    admission_review_versions: Vec<String>,
    reinvocation_policy: Option<String>,
}

impl Hook {
    /// Compiles a stored webhook. Returns `None` if it cannot be decoded; validation rejects such a
    /// configuration, so only internal writes can store it.
    fn new(spec: &Value) -> Option<Self> {
        let spec: WebhookSpec = serde_json::from_value(spec.clone()).ok()?;
        let known = |version: &String| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        let criteria = Criteria {
            rules: Some(spec.rules),
            excluded: Vec::new(),
            equivalent: spec.match_policy.as_deref() != Some("Exact"),
            namespaces: selector(spec.namespace_selector.as_ref()),
            objects: selector(spec.object_selector.as_ref()),
        };
        Some(Self {
            name: spec.name,
            client: spec.client_config,
            criteria,
            fails_open: spec.failure_policy.as_deref() == Some("Ignore"),
            conditions: spec.match_conditions.iter().map(MatchConditionSpec::read).collect(),
            timeout: Duration::from_secs(spec.timeout_seconds.unwrap_or(TIMEOUT_SECONDS)),
            supports_dry_run: matches!(spec.side_effects.as_deref(), Some("None" | "NoneOnDryRun")),
            review_version: spec.admission_review_versions.iter().find_map(known),
            reinvoked: spec.reinvocation_policy.as_deref() == Some("IfNeeded"),
        })
    }
}

/// Cache of compiled webhooks. An entry is valid until a configuration is added or removed or its
/// resourceVersion changes.
#[derive(Default)]
pub(crate) struct HookCache {
    mutating: Mutex<CompiledWebhooks>,
    validating: Mutex<CompiledWebhooks>,
}

#[derive(Default)]
struct CompiledWebhooks {
    /// The resourceVersions of the webhook configurations from which `hooks` was compiled, in order.
    versions: Vec<u64>,
    hooks: Arc<Vec<Hook>>,
}

impl std::fmt::Debug for HookCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookCache")
    }
}

impl HookCache {
    pub(crate) fn clear(&self) {
        *self.mutating.lock() = CompiledWebhooks::default();
        *self.validating.lock() = CompiledWebhooks::default();
    }
}

impl Admission {
    /// Returns true if any webhook is configured or any policy is bound.
    pub(crate) fn has_hooks(&self) -> bool {
        let configured = |phase| self.configurations(phase).iter().next().is_some();
        configured(Phase::Mutate) || configured(Phase::Validate) || self.has_policies()
    }

    fn configurations(&self, phase: Phase) -> OrderedMap {
        let resource = match phase {
            Phase::Mutate => "mutatingwebhookconfigurations",
            Phase::Validate => "validatingwebhookconfigurations",
        };
        match self.resource(&Gvr::new(GROUP, "v1", resource)) {
            Ok(resource) => self.storage.read().live(resource.table),
            Err(_) => OrderedMap::default(),
        }
    }

    /// Returns the webhooks of a phase, ordered by the name of the configuration and by their position in it.
    pub(super) fn hooks(&self, phase: Phase) -> Arc<Vec<Hook>> {
        let stored = self.configurations(phase);
        let versions: Vec<u64> = stored.iter().map(|stored| stored.version).collect();
        let cache = match phase {
            Phase::Mutate => &self.hooks.mutating,
            Phase::Validate => &self.hooks.validating,
        };
        let mut compiled = cache.lock();
        if compiled.versions != versions {
            let hooks = stored.iter().flat_map(|stored| {
                let configuration = parse(stored.as_slice());
                configuration["webhooks"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Hook::new)
                    .collect::<Vec<_>>()
            });
            *compiled = CompiledWebhooks { hooks: Arc::new(hooks.collect()), versions };
        }
        Arc::clone(&compiled.hooks)
    }
}
