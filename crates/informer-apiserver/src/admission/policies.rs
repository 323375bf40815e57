//! Admission policies: expressions in CEL that decide writes or change them, read from the stored policies and their bindings.
//!
//! Those that change are asked before the mutating webhooks and those that decide before the validating ones, as upstream, and inside
//! this process: nothing is held while they run.

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
pub(super) use self::validating::Judge;
use super::expressions::Expression;
use super::hooks::{GROUP, HookCache, selector};
use super::matching::{Criteria, Rule};
use crate::admission::Admission;
use crate::model::json::parse;
use crate::registry::storage::OrderedMap;

/// What a policy does about a write.
pub(super) trait Work: Sized {
    /// The resource of such policies.
    const POLICIES: &'static str;
    /// The resource of their bindings.
    const BINDINGS: &'static str;

    /// Reads the `spec` of a policy.
    fn read(spec: Value, fails_open: bool) -> Option<Self>;

    /// Where such policies are kept compiled.
    fn kept(cache: &HookCache) -> &Mutex<Compiled<Self>>;
}

/// A policy, ready to be asked.
pub(super) struct Policy<W> {
    name: String,
    definition: Arc<Definition<W>>,
    bindings: Vec<Binding>,
}

/// What a policy says.
struct Definition<W> {
    /// The version of the policy.
    version: u64,
    criteria: Criteria,
    /// Failures to decide are passed over.
    fails_open: bool,
    param_kind: Option<ParamKind>,
    work: W,
}

/// Where a policy holds, and what becomes of what it says.
struct Binding {
    name: String,
    criteria: Criteria,
    actions: Vec<String>,
    params: Option<ParamRef>,
}

/// The kind of the objects that a policy is told beside the write.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParamKind {
    api_version: String,
    kind: String,
}

/// Which of them.
struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<LabelSelector>,
    /// A write is refused when there are none.
    needed: bool,
}

/// `matchConstraints` and `matchResources` as they are stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedCriteria {
    resource_rules: Vec<Rule>,
    exclude_resource_rules: Vec<Rule>,
    match_policy: Option<String>,
    namespace_selector: Option<Value>,
    object_selector: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedPolicy {
    param_kind: Option<ParamKind>,
    match_constraints: StatedCriteria,
    failure_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatedVariable {
    name: String,
    expression: String,
}

impl StatedVariable {
    fn read(&self) -> (String, Expression) {
        (self.name.clone(), Expression::new(&self.expression))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedBinding {
    policy_name: String,
    param_ref: Option<StatedRef>,
    match_resources: StatedCriteria,
    validation_actions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedRef {
    name: String,
    namespace: String,
    selector: Option<Value>,
    parameter_not_found_action: String,
}

impl StatedCriteria {
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

impl<W: Work> Definition<W> {
    /// Reads a policy; one that cannot be read is none, since it would not have been accepted.
    fn new(version: u64, policy: &Value) -> Option<Self> {
        let spec = policy["spec"].clone();
        let stated: StatedPolicy = serde_json::from_value(spec.clone()).ok()?;
        let fails_open = stated.failure_policy.as_deref() == Some("Ignore");
        Some(Self {
            version,
            criteria: stated.match_constraints.read(),
            fails_open,
            work: W::read(spec, fails_open)?,
            param_kind: stated.param_kind,
        })
    }
}

impl Binding {
    /// Reads a binding, with the name of its policy.
    fn new(binding: &Value) -> Option<(String, Self)> {
        let stated: StatedBinding = serde_json::from_value(binding["spec"].clone()).ok()?;
        let params = stated.param_ref.map(|stated| ParamRef {
            selector: stated.selector.as_ref().map(|stated| selector(Some(stated))),
            needed: stated.parameter_not_found_action == "Deny",
            name: stated.name,
            namespace: stated.namespace,
        });
        let name = binding["metadata"]["name"].as_str()?.to_owned();
        let criteria = stated.match_resources.read();
        Some((stated.policy_name, Self { name, criteria, actions: stated.validation_actions, params }))
    }
}

/// The policies that have bindings, for as long as these and those stay as they are.
pub(super) struct Compiled<W> {
    /// The versions of the policies and of the bindings, in their order.
    of: [Vec<u64>; 2],
    policies: Arc<Vec<Policy<W>>>,
}

impl<W> Default for Compiled<W> {
    fn default() -> Self {
        Self { of: Default::default(), policies: Arc::default() }
    }
}

impl Admission {
    /// Whether any policy might be asked: without a binding none is.
    pub(super) fn has_policies(&self) -> bool {
        [Judge::BINDINGS, Mutator::BINDINGS]
            .iter()
            .any(|bindings| self.stored_policies(bindings).iter().next().is_some())
    }

    fn stored_policies(&self, resource: &str) -> OrderedMap {
        match self.resource(&Gvr::new(GROUP, "v1", resource)) {
            Ok(resource) => self.storage.read().live(resource.table),
            Err(_) => OrderedMap::default(),
        }
    }

    /// The policies that are bound, by their names.
    fn policies<W: Work>(&self) -> Arc<Vec<Policy<W>>> {
        let bindings = self.stored_policies(W::BINDINGS);
        let definitions = match bindings.iter().next() {
            Some(_) => self.stored_policies(W::POLICIES),
            None => OrderedMap::default(),
        };
        let of = [&definitions, &bindings].map(|stored| stored.iter().map(|stored| stored.version).collect());
        let mut compiled = W::kept(&self.hooks).lock();
        if compiled.of != of {
            let policies = Arc::new(read(&definitions, &bindings, &compiled.policies));
            *compiled = Compiled { of, policies };
        }
        Arc::clone(&compiled.policies)
    }
}

/// Reads all policies; those that have not changed stay compiled.
fn read<W: Work>(definitions: &OrderedMap, bindings: &OrderedMap, before: &[Policy<W>]) -> Vec<Policy<W>> {
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
