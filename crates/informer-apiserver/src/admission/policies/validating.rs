//! Compiles and evaluates the expressions of a ValidatingAdmissionPolicy.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::{Compiled, StatedVariable, Work};
use crate::admission::conditions;
use crate::admission::expressions::{Asker, Expression, Failure, Outcome, Run};
use crate::admission::hooks::{HookCache, StatedCondition};

/// CEL cost limit of all validations of one policy, as in kube-apiserver. The audit annotations have the same
/// limit.
pub(super) const BUDGET: u64 = 10_000_000;
/// Longer results of a `messageExpression` are ignored, as in kube-apiserver.
const MESSAGE_MAX: usize = 5 * 1024;

/// The `spec` of a policy as stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rulings {
    match_conditions: Vec<StatedCondition>,
    variables: Vec<StatedVariable>,
    validations: Vec<StatedValidation>,
    audit_annotations: Vec<StatedAnnotation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedValidation {
    expression: String,
    message: String,
    message_expression: String,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedAnnotation {
    value_expression: String,
}

/// The compiled expressions of a policy.
pub(in crate::admission) struct Judge {
    fails_open: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    /// There is no audit log, but an annotation that fails rejects the write.
    annotations: Vec<Expression>,
}

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// The variables of expressions for one write. A missing object is `null`.
pub(super) struct View<'a> {
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
    pub(super) request: &'a Value,
    pub(super) params: &'a Value,
    pub(super) namespace: &'a Value,
    /// Present if the policy uses `authorizer`.
    pub(super) asker: Option<&'a Asker<'a>>,
}

/// A failed validation or expression.
pub(super) struct Objection {
    pub(super) message: String,
    /// Empty if the policy sets no reason.
    pub(super) reason: String,
    /// Rejects the write regardless of the binding's `validationActions`.
    pub(super) refuses: bool,
}

impl Work for Judge {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";

    fn read(spec: Value, fails_open: bool) -> Option<Self> {
        Some(Self::new(&serde_json::from_value(spec).ok()?, fails_open))
    }

    fn kept(cache: &HookCache) -> &Mutex<Compiled<Self>> {
        &cache.judges
    }
}

impl Judge {
    fn new(stated: &Rulings, fails_open: bool) -> Self {
        let validation = |stated: &StatedValidation| Validation {
            expression: Expression::new(&stated.expression),
            message: stated.message.trim().to_owned(),
            message_expression: Some(stated.message_expression.as_str())
                .filter(|text| !text.is_empty())
                .map(Expression::new),
            reason: stated.reason.clone(),
        };
        let annotations = stated.audit_annotations.iter();
        Self {
            fails_open,
            conditions: stated.match_conditions.iter().map(StatedCondition::read).collect(),
            variables: stated.variables.iter().map(StatedVariable::read).collect(),
            validations: stated.validations.iter().map(validation).collect(),
            annotations: annotations.map(|stated| Expression::new(&stated.value_expression)).collect(),
        }
    }

    /// Returns true if an expression uses `authorizer`.
    pub(super) fn asks(&self) -> bool {
        let one = |expression: &Expression| Expression::asks(std::slice::from_ref(expression));
        Expression::asks(&self.conditions)
            || Expression::asks(&self.annotations)
            || self.variables.iter().any(|(_, expression)| one(expression))
            || self.validations.iter().any(|validation| one(&validation.expression))
    }

    /// Evaluates the policy and returns its violations.
    pub(super) fn objections(&self, view: &View<'_>) -> Vec<Objection> {
        match self.applies(view) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return self.failed(why).into_iter().collect(),
        }
        let mut run = view.run(view.namespace, &self.variables);
        let found = self.validated(&mut run).and_then(|mut found| {
            found.extend(self.annotated(&mut run)?);
            Ok(found)
        });
        // Exceeding the cost budget counts as one failure.
        found.unwrap_or_else(|failure| self.failed(failure.why).into_iter().collect())
    }

    fn applies(&self, view: &View<'_>) -> Result<bool, String> {
        view.meets(&self.conditions, self.fails_open)
    }

    fn validated(&self, run: &mut Run<'_>) -> Result<Vec<Objection>, Failure> {
        run.refill(BUDGET);
        let mut outcomes = Vec::new();
        for validation in &self.validations {
            match run.evaluate(&validation.expression) {
                Err(failure) if failure.ends_all => return Err(failure),
                outcome => outcomes.push(outcome),
            }
        }
        // Message expressions are evaluated after all validations, with the rest of the budget.
        let found = self.validations.iter().zip(outcomes).filter_map(|(validation, outcome)| match outcome {
            Ok(Outcome::Bool(true)) => None,
            Ok(_) => match validation.told(run) {
                Ok(message) => Some(Objection { message, reason: validation.reason.clone(), refuses: false }),
                Err(failure) => self.failed(format!("failed messageExpression: {}", failure.why)),
            },
            Err(failure) => self.failed(failure.why),
        });
        Ok(found.collect())
    }

    fn annotated(&self, run: &mut Run<'_>) -> Result<Vec<Objection>, Failure> {
        run.refill(BUDGET);
        let mut found = Vec::new();
        for annotation in &self.annotations {
            let why = match run.evaluate(annotation) {
                Ok(Outcome::Text(_) | Outcome::Null) => continue,
                Ok(_) => {
                    format!("valueExpression '{}' resulted in an unsupported return type", annotation.text())
                }
                Err(failure) if failure.ends_all => return Err(failure),
                Err(_) if self.fails_open => continue,
                Err(failure) => failure.why,
            };
            found.push(Objection { message: why, reason: String::new(), refuses: true });
        }
        Ok(found)
    }

    /// Returns a violation for an evaluation error, unless `failurePolicy` is `Ignore`.
    fn failed(&self, message: String) -> Option<Objection> {
        (!self.fails_open).then(|| Objection { message, reason: String::new(), refuses: false })
    }
}

impl Validation {
    /// Returns the message for a violation.
    fn told(&self, run: &mut Run<'_>) -> Result<String, Failure> {
        let made = self.message_expression.as_ref().map(|expression| run.evaluate(expression));
        let made = match made {
            Some(Err(failure)) if failure.ends_all => return Err(failure),
            Some(Ok(Outcome::Text(text))) => text.trim().to_owned(),
            _ => String::new(),
        };
        Ok(match (made.as_str(), self.message.as_str()) {
            (made, _) if !made.is_empty() && made.len() <= MESSAGE_MAX && !made.contains('\n') => {
                made.to_owned()
            }
            (_, "") => format!("failed expression: {}", self.expression.text().trim()),
            (_, message) => message.to_owned(),
        })
    }
}

impl<'a> View<'a> {
    /// Evaluates match conditions. Returns an error if they cannot be decided.
    pub(super) fn meets(&self, conditions: &[Expression], fails_open: bool) -> Result<bool, String> {
        if conditions.is_empty() {
            return Ok(true);
        }
        // Match conditions have no `namespaceObject` and no variables.
        let mut run = self.run(&Value::Null, &[]);
        run.refill(conditions::BUDGET);
        conditions::hold(conditions, fails_open, &mut run)
    }

    pub(super) fn run(&self, namespace: &'a Value, variables: &'a [(String, Expression)]) -> Run<'a> {
        let subject = [
            ("object", self.object),
            ("oldObject", self.old),
            ("request", self.request),
            ("params", self.params),
            ("namespaceObject", namespace),
        ];
        let mut run = Run::new(&subject, variables);
        if let Some(asker) = self.asker {
            run.tell(asker);
        }
        run
    }
}
