//! Compiles and evaluates the expressions of a MutatingAdmissionPolicy.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::validating::{BUDGET, View};
use super::{AdmissionPolicyCache, CompiledPolicies, PolicyEvaluator, VariableSpec};
use crate::admission::conditions::MatchConditionSpec;
use crate::admission::expressions::Expression;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MutatingPolicySpec {
    match_conditions: Vec<MatchConditionSpec>,
    variables: Vec<VariableSpec>,
    mutations: Vec<MutationSpec>,
    reinvocation_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MutationSpec {
    patch_type: String,
    json_patch: Option<ExpressionSpec>,
    apply_configuration: Option<ExpressionSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionSpec {
    expression: String,
}

pub(in crate::admission) struct Mutator {
    fails_open: bool,
    /// `reinvocationPolicy` is `IfNeeded`.
    pub(super) reinvoked: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
}

pub(super) enum Mutation {
    /// A mutation whose expression returns an object with the fields to apply.
    Apply(Expression),
    /// A mutation whose expression returns the operations of a JSON patch.
    Patch(Expression),
}

pub(super) enum PatchValue {
    Object(Value),
    Operations(Value),
}

impl PolicyEvaluator for Mutator {
    const POLICIES: &'static str = "mutatingadmissionpolicies";
    const BINDINGS: &'static str = "mutatingadmissionpolicybindings";

    fn read(spec: Value, fails_open: bool) -> Option<Self> {
        let spec: MutatingPolicySpec = serde_json::from_value(spec).ok()?;
        Some(Self {
            fails_open,
            reinvoked: spec.reinvocation_policy == "IfNeeded",
            conditions: spec.match_conditions.iter().map(MatchConditionSpec::read).collect(),
            variables: spec.variables.iter().map(VariableSpec::read).collect(),
            mutations: spec.mutations.into_iter().filter_map(Mutation::read).collect(),
        })
    }

    fn cache_slot(cache: &AdmissionPolicyCache) -> &Mutex<CompiledPolicies<Self>> {
        &cache.mutators
    }
}

impl Mutation {
    fn read(spec: MutationSpec) -> Option<Self> {
        let compile = |spec: ExpressionSpec| Expression::with_patch_types(&spec.expression);
        match spec.patch_type.as_str() {
            "ApplyConfiguration" => spec.apply_configuration.map(compile).map(Self::Apply),
            "JSONPatch" => spec.json_patch.map(compile).map(Self::Patch),
            _ => None,
        }
    }

    fn expression(&self) -> &Expression {
        match self {
            Self::Apply(expression) | Self::Patch(expression) => expression,
        }
    }
}

impl Mutator {
    pub(super) fn uses_authorizer(&self) -> bool {
        let uses = |expression: &Expression| Expression::uses_authorizer(std::slice::from_ref(expression));
        Expression::uses_authorizer(&self.conditions)
            || self.variables.iter().any(|(_, expression)| uses(expression))
            || self.mutations.iter().any(|mutation| uses(mutation.expression()))
    }

    /// Evaluates the match conditions. Returns an error if none is false and one cannot be evaluated.
    pub(super) fn applies(&self, view: &View<'_>) -> Result<bool, String> {
        view.meets(&self.conditions, self.fails_open)
    }

    pub(super) fn evaluate(&self, mutation: &Mutation, view: &View<'_>) -> Result<PatchValue, String> {
        let mut run = view.run(view.namespace, &self.variables);
        run.set_budget(BUDGET);
        let value = run.evaluate_to_json(mutation.expression()).map_err(|failure| failure.why)?;
        Ok(match mutation {
            Mutation::Apply(_) => PatchValue::Object(value),
            Mutation::Patch(_) => PatchValue::Operations(value),
        })
    }
}
