//! What a policy wants changed of one write.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::validating::{BUDGET, View};
use super::{Compiled, StatedVariable, Work};
use crate::admission::expressions::Expression;
use crate::admission::hooks::{HookCache, StatedCondition};

/// The expressions of a policy, as they are stored.
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

/// The expressions of a policy, compiled.
pub(in crate::admission) struct Mutator {
    fails_open: bool,
    /// It is asked again where something was changed after it.
    pub(super) reinvoked: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
}

/// One change, by the expression that makes it.
pub(super) enum Mutation {
    /// An object with the fields that are to be set.
    Apply(Expression),
    /// The operations of a JSON patch.
    Patch(Expression),
}

/// What the expression of a change has come to.
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
    /// Whether it asks what users may do.
    pub(super) fn asks(&self) -> bool {
        let one = |expression: &Expression| Expression::asks(std::slice::from_ref(expression));
        Expression::asks(&self.conditions)
            || self.variables.iter().any(|(_, expression)| one(expression))
            || self.mutations.iter().any(|mutation| one(mutation.expression()))
    }

    /// Whether its conditions hold; the error says why that cannot be told.
    pub(super) fn applies(&self, view: &View<'_>) -> Result<bool, String> {
        view.meets(&self.conditions, self.fails_open)
    }

    /// What one of its changes comes to.
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
