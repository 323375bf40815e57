//! Compiles and evaluates the expressions of a MutatingAdmissionPolicy.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::validating::{BUDGET, View};
use super::{Compiled, StatedVariable, Work};
use crate::admission::expressions::Expression;
use crate::admission::hooks::{HookCache, StatedCondition};

/// The `spec` of a policy as stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stated {
    match_conditions: Vec<StatedCondition>,
    variables: Vec<StatedVariable>,
    mutations: Vec<StatedMutation>,
    reinvocation_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedMutation {
    patch_type: String,
    json_patch: Option<StatedExpression>,
    apply_configuration: Option<StatedExpression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatedExpression {
    expression: String,
}

/// The compiled expressions of a policy.
pub(in crate::admission) struct Mutator {
    fails_open: bool,
    /// `reinvocationPolicy` is `IfNeeded`.
    pub(super) reinvoked: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
}

/// A compiled entry of `spec.mutations`.
pub(super) enum Mutation {
    /// Evaluates to an object with the fields to apply.
    Apply(Expression),
    /// Evaluates to the operations of a JSON patch.
    Patch(Expression),
}

/// The value of a mutation's expression.
pub(super) enum Made {
    Object(Value),
    Operations(Value),
}

impl Work for Mutator {
    const POLICIES: &'static str = "mutatingadmissionpolicies";
    const BINDINGS: &'static str = "mutatingadmissionpolicybindings";

    fn read(spec: Value, fails_open: bool) -> Option<Self> {
        let stated: Stated = serde_json::from_value(spec).ok()?;
        Some(Self {
            fails_open,
            reinvoked: stated.reinvocation_policy == "IfNeeded",
            conditions: stated.match_conditions.iter().map(StatedCondition::read).collect(),
            variables: stated.variables.iter().map(StatedVariable::read).collect(),
            mutations: stated.mutations.into_iter().filter_map(Mutation::read).collect(),
        })
    }

    fn kept(cache: &HookCache) -> &Mutex<Compiled<Self>> {
        &cache.mutators
    }
}

impl Mutation {
    fn read(stated: StatedMutation) -> Option<Self> {
        let making = |stated: StatedExpression| Expression::making(&stated.expression);
        match stated.patch_type.as_str() {
            "ApplyConfiguration" => stated.apply_configuration.map(making).map(Self::Apply),
            "JSONPatch" => stated.json_patch.map(making).map(Self::Patch),
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
    /// Returns true if an expression uses `authorizer`.
    pub(super) fn asks(&self) -> bool {
        let one = |expression: &Expression| Expression::asks(std::slice::from_ref(expression));
        Expression::asks(&self.conditions)
            || self.variables.iter().any(|(_, expression)| one(expression))
            || self.mutations.iter().any(|mutation| one(mutation.expression()))
    }

    /// Evaluates the match conditions. Returns an error if they cannot be decided.
    pub(super) fn applies(&self, view: &View<'_>) -> Result<bool, String> {
        view.meets(&self.conditions, self.fails_open)
    }

    /// Evaluates the expression of a mutation.
    pub(super) fn make(&self, mutation: &Mutation, view: &View<'_>) -> Result<Made, String> {
        let mut run = view.run(view.namespace, &self.variables);
        run.refill(BUDGET);
        let made = run.make(mutation.expression()).map_err(|failure| failure.why)?;
        Ok(match mutation {
            Mutation::Apply(_) => Made::Object(made),
            Mutation::Patch(_) => Made::Operations(made),
        })
    }
}
