//! Admission policies: CEL expressions from the stored policies and their bindings that mutate or validate
//! writes.
//!
//! Mutating policies run before the mutating webhooks, and validating policies before the validating
//! webhooks. The server evaluates policies itself and holds no lock meanwhile.

mod apply;
mod dispatch;
mod mutate;
mod mutating;

mod params;
mod patches;
mod validating;

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

pub(super) use self::mutate::Reinvocation;
pub(super) use self::mutating::Mutator;
pub(super) use self::validating::Validator;
use super::attributes::GROUP;
use super::expressions::Expression;
use super::matching::{Criteria, RuleWithOperations, selector};
use crate::admission::Admission;
use crate::model::json::parse;
use crate::registry::storage::OrderedMap;

/// The compiled expressions of a policy, either validating ([`Validator`]) or mutating ([`Mutator`]).
pub(super) trait PolicyEvaluator: Sized {
    const POLICIES: &'static str;
    const BINDINGS: &'static str;

    /// `fails_open` is true if the `failurePolicy` of the policy is `Ignore`.
    fn read(spec: Value, fails_open: bool) -> Option<Self>;

    fn cache_slot(cache: &AdmissionPolicyCache) -> &Mutex<CompiledPolicies<Self>>;
}

pub(super) struct Policy<W> {
    name: String,
    definition: Arc<Definition<W>>,
    bindings: Vec<Binding>,
}

struct Definition<W> {
    version: u64,
    criteria: Criteria,
    /// `failurePolicy` is `Ignore`.
    fails_open: bool,
    param_kind: Option<ParamKind>,
    evaluator: W,
}

struct Binding {
    name: String,
    criteria: Criteria,
    actions: Vec<String>,
    params: Option<ParamRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParamKind {
    api_version: String,
    kind: String,
}

struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<LabelSelector>,
    /// `parameterNotFoundAction` is `Deny`.
    needed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MatchResourcesSpec {
    resource_rules: Vec<RuleWithOperations>,
    exclude_resource_rules: Vec<RuleWithOperations>,
    match_policy: Option<String>,
    namespace_selector: Option<Value>,
    object_selector: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec {
    param_kind: Option<ParamKind>,
    match_constraints: MatchResourcesSpec,
    failure_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VariableSpec {
    name: String,
    expression: String,
}

impl VariableSpec {
    fn read(&self) -> (String, Expression) {
        (self.name.clone(), Expression::new(&self.expression))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingSpec {
    policy_name: String,
    param_ref: Option<ParamRefSpec>,
    match_resources: MatchResourcesSpec,
    validation_actions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParamRefSpec {
    name: String,
    namespace: String,
    selector: Option<Value>,
    parameter_not_found_action: String,
}

impl MatchResourcesSpec {
    fn read(self) -> Criteria {
        Criteria {
            rules: Some(self.resource_rules).filter(|rules| !rules.is_empty()),
            excluded: self.exclude_resource_rules,
            equivalent: self.match_policy.as_deref() != Some("Exact"),
            namespaces: selector(self.namespace_selector.as_ref()),
            objects: selector(self.object_selector.as_ref()),
        }
    }
}

impl<W: PolicyEvaluator> Definition<W> {
    /// Returns `None` if the `spec` cannot be decoded; validation rejects such a policy, so only internal
    /// writes can store it.
    fn new(version: u64, policy: &Value) -> Option<Self> {
        let spec = policy["spec"].clone();
        let parsed: PolicySpec = serde_json::from_value(spec.clone()).ok()?;
        let fails_open = parsed.failure_policy.as_deref() == Some("Ignore");
        Some(Self {
            version,
            criteria: parsed.match_constraints.read(),
            fails_open,
            evaluator: W::read(spec, fails_open)?,
            param_kind: parsed.param_kind,
        })
    }
}

impl Binding {
    /// Returns the name of the policy that the binding refers to, and the compiled binding.
    fn new(binding: &Value) -> Option<(String, Self)> {
        let parsed: BindingSpec = serde_json::from_value(binding["spec"].clone()).ok()?;
        let params = parsed.param_ref.map(|parsed| ParamRef {
            selector: parsed.selector.as_ref().map(|parsed| selector(Some(parsed))),
            needed: parsed.parameter_not_found_action == "Deny",
            name: parsed.name,
            namespace: parsed.namespace,
        });
        let name = binding["metadata"]["name"].as_str()?.to_owned();
        let criteria = parsed.match_resources.read();
        Some((parsed.policy_name, Self { name, criteria, actions: parsed.validation_actions, params }))
    }
}

/// The compiled policies that have a binding. They are valid until a policy or binding is added, removed or
/// updated.
pub(super) struct CompiledPolicies<W> {
    /// The resourceVersions of the policies and of the bindings from which `policies` was compiled, in order.
    versions: [Vec<u64>; 2],
    policies: Arc<Vec<Policy<W>>>,
}

impl<W> Default for CompiledPolicies<W> {
    fn default() -> Self {
        Self { versions: Default::default(), policies: Arc::default() }
    }
}

/// Cache of the compiled policies.
#[derive(Default)]
pub(crate) struct AdmissionPolicyCache {
    validators: Mutex<CompiledPolicies<Validator>>,
    mutators: Mutex<CompiledPolicies<Mutator>>,
}

impl std::fmt::Debug for AdmissionPolicyCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdmissionPolicyCache")
    }
}

impl AdmissionPolicyCache {
    pub(crate) fn clear(&self) {
        *self.validators.lock() = CompiledPolicies::default();
        *self.mutators.lock() = CompiledPolicies::default();
    }
}

impl Admission {
    /// A policy without a binding has no effect.
    pub(super) fn has_policies(&self) -> bool {
        [Validator::BINDINGS, Mutator::BINDINGS]
            .iter()
            .any(|bindings| self.stored_policies(bindings).iter().next().is_some())
    }

    fn stored_policies(&self, resource: &str) -> OrderedMap {
        match self.resource(&Gvr::new(GROUP, "v1", resource)) {
            Ok(resource) => self.storage.read().live(resource.table),
            Err(_) => OrderedMap::default(),
        }
    }

    /// Returns the policies that have a binding, ordered by name.
    fn policies<W: PolicyEvaluator>(&self) -> Arc<Vec<Policy<W>>> {
        let bindings = self.stored_policies(W::BINDINGS);
        let definitions = match bindings.iter().next() {
            Some(_) => self.stored_policies(W::POLICIES),
            None => OrderedMap::default(),
        };
        let versions =
            [&definitions, &bindings].map(|stored| stored.iter().map(|stored| stored.version).collect());
        let mut compiled = W::cache_slot(&self.policies).lock();
        if compiled.versions != versions {
            let policies = Arc::new(read(&definitions, &bindings, &compiled.policies));
            *compiled = CompiledPolicies { versions, policies };
        }
        Arc::clone(&compiled.policies)
    }
}

/// Reuses the compiled expressions in `before` of policies that are unchanged.
fn read<W: PolicyEvaluator>(
    definitions: &OrderedMap,
    bindings: &OrderedMap,
    before: &[Policy<W>],
) -> Vec<Policy<W>> {
    let mut bound: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
    for (policy, binding) in bindings.iter().filter_map(|stored| Binding::new(&parse(stored.as_slice()))) {
        bound.entry(policy).or_default().push(binding);
    }
    let policies = definitions.iter().filter_map(|stored| {
        let name = stored.key.name();
        let bindings = bound.remove(name)?;
        let known = before.iter().find(|policy| policy.definition.version == stored.version);
        let definition = match known {
            Some(known) => Arc::clone(&known.definition),
            None => Arc::new(Definition::new(stored.version, &parse(stored.as_slice()))?),
        };
        Some(Policy { name: name.to_owned(), definition, bindings })
    });
    policies.collect()
}
