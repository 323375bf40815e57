//! Compiles and evaluates the expressions of a ValidatingAdmissionPolicy.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::{AdmissionPolicyCache, CompiledPolicies, PolicyEvaluator, VariableSpec};
use crate::admission::conditions::{self, MatchConditionSpec};
use crate::admission::expressions::{AuthorizerInput, EvaluationError, Expression, ExpressionValue, Run};

/// CEL cost limit of all validations of one policy, as in kube-apiserver. The audit annotations of the policy
/// have a separate limit of the same size.
pub(super) const BUDGET: u64 = 10_000_000;
/// Maximum length of the result of a `messageExpression` in bytes. As in kube-apiserver, a longer result is
/// ignored.
const MAX_MESSAGE_LEN: usize = 5 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValidatingPolicySpec {
    match_conditions: Vec<MatchConditionSpec>,
    variables: Vec<VariableSpec>,
    validations: Vec<ValidationSpec>,
    audit_annotations: Vec<AuditAnnotationSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValidationSpec {
    expression: String,
    message: String,
    message_expression: String,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuditAnnotationSpec {
    value_expression: String,
}

pub(in crate::admission) struct Validator {
    fails_open: bool,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    /// The compiled `auditAnnotations` of the policy. There is no audit log, so their values are not used,
    /// but an error in one of these expressions rejects the write.
    annotations: Vec<Expression>,
}

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// The values of the CEL variables for one evaluation of a policy. A missing object is `null`.
pub(super) struct View<'a> {
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
    pub(super) request: &'a Value,
    pub(super) params: &'a Value,
    pub(super) namespace: &'a Value,
    /// The input of the variable `authorizer`; present only if the policy uses it.
    pub(super) authorizer_input: Option<&'a AuthorizerInput<'a>>,
}

pub(super) struct Violation {
    pub(super) message: String,
    /// The `reason` that the policy sets for this validation, or an empty string.
    pub(super) reason: String,
    /// The write is rejected regardless of the binding's `validationActions`.
    pub(super) unconditional: bool,
}

impl PolicyEvaluator for Validator {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";

    fn read(spec: Value, fails_open: bool) -> Option<Self> {
        Some(Self::new(&serde_json::from_value(spec).ok()?, fails_open))
    }

    fn cache_slot(cache: &AdmissionPolicyCache) -> &Mutex<CompiledPolicies<Self>> {
        &cache.validators
    }
}

impl Validator {
    fn new(spec: &ValidatingPolicySpec, fails_open: bool) -> Self {
        let validation = |spec: &ValidationSpec| Validation {
            expression: Expression::new(&spec.expression),
            message: spec.message.trim().to_owned(),
            message_expression: Some(spec.message_expression.as_str())
                .filter(|text| !text.is_empty())
                .map(Expression::new),
            reason: spec.reason.clone(),
        };
        let annotations = spec.audit_annotations.iter();
        Self {
            fails_open,
            conditions: spec.match_conditions.iter().map(MatchConditionSpec::read).collect(),
            variables: spec.variables.iter().map(VariableSpec::read).collect(),
            validations: spec.validations.iter().map(validation).collect(),
            annotations: annotations.map(|spec| Expression::new(&spec.value_expression)).collect(),
        }
    }

    pub(super) fn uses_authorizer(&self) -> bool {
        let uses = |expression: &Expression| Expression::uses_authorizer(std::slice::from_ref(expression));
        Expression::uses_authorizer(&self.conditions)
            || Expression::uses_authorizer(&self.annotations)
            || self.variables.iter().any(|(_, expression)| uses(expression))
            || self.validations.iter().any(|validation| uses(&validation.expression))
    }

    pub(super) fn violations(&self, view: &View<'_>) -> Vec<Violation> {
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
        // If the cost budget is exceeded, the policy reports one violation for it and no others.
        found.unwrap_or_else(|failure| self.failed(failure.why).into_iter().collect())
    }

    fn applies(&self, view: &View<'_>) -> Result<bool, String> {
        view.meets(&self.conditions, self.fails_open)
    }

    fn validated(&self, run: &mut Run<'_>) -> Result<Vec<Violation>, EvaluationError> {
        run.set_budget(BUDGET);
        let mut outcomes = Vec::new();
        for validation in &self.validations {
            match run.evaluate(&validation.expression) {
                Err(failure) if failure.budget_exhausted => return Err(failure),
                outcome => outcomes.push(outcome),
            }
        }
        // Message expressions are evaluated after all validations, with the cost budget that the validations
        // left.
        let found = self.validations.iter().zip(outcomes).filter_map(|(validation, outcome)| match outcome {
            Ok(ExpressionValue::Bool(true)) => None,
            Ok(_) => match validation.evaluate_message(run) {
                Ok(message) => {
                    Some(Violation { message, reason: validation.reason.clone(), unconditional: false })
                }
                Err(failure) => self.failed(format!("failed messageExpression: {}", failure.why)),
            },
            Err(failure) => self.failed(failure.why),
        });
        Ok(found.collect())
    }

    fn annotated(&self, run: &mut Run<'_>) -> Result<Vec<Violation>, EvaluationError> {
        run.set_budget(BUDGET);
        let mut found = Vec::new();
        for annotation in &self.annotations {
            let why = match run.evaluate(annotation) {
                Ok(ExpressionValue::Text(_) | ExpressionValue::Null) => continue,
                Ok(_) => {
                    format!("valueExpression '{}' resulted in an unsupported return type", annotation.text())
                }
                Err(failure) if failure.budget_exhausted => return Err(failure),
                Err(_) if self.fails_open => continue,
                Err(failure) => failure.why,
            };
            found.push(Violation { message: why, reason: String::new(), unconditional: true });
        }
        Ok(found)
    }

    /// Returns a violation for a failed evaluation, or `None` if the policy's `failurePolicy` is `Ignore`.
    fn failed(&self, message: String) -> Option<Violation> {
        (!self.fails_open).then(|| Violation { message, reason: String::new(), unconditional: false })
    }
}

impl Validation {
    /// Returns the message for a failed validation: the result of `messageExpression`, or else the static
    /// message.
    fn evaluate_message(&self, run: &mut Run<'_>) -> Result<String, EvaluationError> {
        let evaluated = self.message_expression.as_ref().map(|expression| run.evaluate(expression));
        let evaluated = match evaluated {
            Some(Err(failure)) if failure.budget_exhausted => return Err(failure),
            Some(Ok(ExpressionValue::Text(text))) => text.trim().to_owned(),
            _ => String::new(),
        };
        Ok(match (evaluated.as_str(), self.message.as_str()) {
            (evaluated, _)
                if !evaluated.is_empty()
                    && evaluated.len() <= MAX_MESSAGE_LEN
                    && !evaluated.contains('\n') =>
            {
                evaluated.to_owned()
            }
            (_, "") => format!("failed expression: {}", self.expression.text().trim()),
            (_, message) => message.to_owned(),
        })
    }
}

impl<'a> View<'a> {
    /// Evaluates the match conditions. Returns an error if none is false and one cannot be evaluated.
    pub(super) fn meets(&self, conditions: &[Expression], fails_open: bool) -> Result<bool, String> {
        if conditions.is_empty() {
            return Ok(true);
        }
        // CEL expressions of match conditions cannot use `namespaceObject` or the variables of the policy.
        let mut run = self.run(&Value::Null, &[]);
        run.set_budget(conditions::BUDGET);
        conditions::all_true(conditions, fails_open, &mut run)
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
        if let Some(authorizer_input) = self.authorizer_input {
            run.bind_authorizer(authorizer_input);
        }
        run
    }
}
