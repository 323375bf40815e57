//! Evaluates ValidatingAdmissionPolicies and carries out the validation actions of their bindings.

use std::sync::Arc;

use serde_json::Value;

use super::validating::{View, Violation};
use super::{Binding, Policy, Validator};
use crate::admission::expressions::AuthorizerInput;
use crate::admission::versions::Versions;
use crate::admission::write::{Invocation, PhaseContext};
use crate::admission::{Admission, Object, review};
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::registry::Resource;

struct Denial {
    message: String,
    reason: String,
}

impl Admission {
    /// Evaluates all validating policies for a write. The error reports the first policy that denies the
    /// write.
    pub(in crate::admission) async fn evaluate_validating_policies(
        &self,
        context: &PhaseContext<'_>,
        versions: &mut Versions<'_>,
    ) -> Result<(), ApiError> {
        let mut first = None;
        for policy in self.policies::<Validator>().iter() {
            let denial = self.evaluate_policy(context, policy, versions).await?;
            first = first.or(denial);
        }
        match first {
            None => Ok(()),
            Some(denial) => {
                let forbidden = self.forbidden(&context.write(versions.current()), &denial.message);
                Err(denial.error(forbidden))
            }
        }
    }

    async fn evaluate_policy(
        &self,
        context: &PhaseContext<'_>,
        policy: &Policy<Validator>,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Denial>, ApiError> {
        let definition = &policy.definition;
        let invocation = match self.invocation_for(&definition.criteria, &context.write(versions.current())) {
            Ok(None) => return Ok(None),
            Ok(Some(invocation)) => invocation,
            Err(error) => return Ok(policy.misconfigured(None, error.message())),
        };
        let params = match self.param_resource(definition) {
            Ok(params) => params,
            Err(why) => return Ok(policy.misconfigured(None, &why)),
        };
        let mut first = None;
        for binding in &policy.bindings {
            let matched = Matched { policy, binding, invocation: &invocation, params: params.as_ref() };
            let denial = self.evaluate_binding(context, &matched, versions).await?;
            first = first.or(denial);
        }
        Ok(first)
    }

    async fn evaluate_binding(
        &self,
        context: &PhaseContext<'_>,
        matched: &Matched<'_>,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Denial>, ApiError> {
        let Matched { policy, binding, invocation, params } = matched;
        let attributes = &context.request.attributes;
        match self.invocation_for(&binding.criteria, &context.write(versions.current())) {
            Ok(None) => return Ok(None),
            Ok(Some(_)) => {}
            Err(error) => return Ok(policy.misconfigured(Some(binding), error.message())),
        }
        let params = match self.params(*params, binding, attributes).await {
            Ok(params) => params,
            Err(why) => return Ok(policy.misconfigured(Some(binding), &why)),
        };
        if params.is_empty() {
            return Ok(None);
        }
        if let Err(error) = self.convert_for(versions, &context.resource, invocation).await {
            let why = format!("failed to convert object version: {}", error.message());
            return Ok(policy.misconfigured(Some(binding), &why));
        }
        let (object, old) = versions.view(invocation);
        let write = context.write((object, old));
        let request = review::request(&write, invocation);
        let validator = &policy.definition.evaluator;
        let authorizer_input =
            validator.uses_authorizer().then(|| AuthorizerInput::of(&write, self.permissions()));
        let value = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let (object, old) = (value(object), value(old));
        let namespace = &self.namespace_object(attributes)?;
        let mut first = None;
        for params in &params {
            let view = View {
                object: &object,
                old: &old,
                request: &request,
                params,
                namespace,
                authorizer_input: authorizer_input.as_ref(),
            };
            for violation in validator.violations(&view) {
                let denial = matched.enforce(context, violation);
                first = first.or(denial);
            }
        }
        Ok(first)
    }
}

struct Matched<'a> {
    policy: &'a Policy<Validator>,
    binding: &'a Binding,
    invocation: &'a Invocation,
    params: Option<&'a Arc<Resource>>,
}

impl Matched<'_> {
    /// Carries out the `validationActions` of the binding (`Deny`, `Warn`, `Audit`) for a failed validation.
    /// Returns a denial if the write must be rejected.
    fn enforce(&self, context: &PhaseContext<'_>, violation: Violation) -> Option<Denial> {
        let (policy, binding) = (&self.policy.name, &self.binding.name);
        let has_action = |action: &str| self.binding.actions.iter().any(|known| known == action);
        if has_action("Warn") && !violation.unconditional {
            context.request.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                violation.message
            ));
        }
        (violation.unconditional || has_action("Deny")).then(|| Denial {
            message: denied(policy, Some(self.binding), &violation.message),
            reason: violation.reason,
        })
    }
}

impl Policy<Validator> {
    /// Returns a denial because the policy cannot be evaluated, or `None` if its `failurePolicy` is `Ignore`.
    fn misconfigured(&self, binding: Option<&Binding>, why: &str) -> Option<Denial> {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = denied(&self.name, binding, &format!("failed to configure {what}: {why}"));
        (!self.definition.fails_open).then(|| Denial { message, reason: String::new() })
    }
}

fn denied(policy: &str, binding: Option<&Binding>, why: &str) -> String {
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {why}")
}

impl Denial {
    /// Returns the `Forbidden` error of the write with the status code and reason that the policy sets.
    fn error(self, forbidden: ApiError) -> ApiError {
        let mut error = forbidden;
        (error.code, error.reason) = match self.reason.as_str() {
            "" | "Invalid" => (422, "Invalid".into()),
            "Forbidden" => (403, "Forbidden".into()),
            "Unauthorized" => (401, "Unauthorized".into()),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge".into()),
            _ => (422, self.reason.into()),
        };
        if let Some(details) = &mut error.details {
            details.causes.push(Cause { reason: "", message: self.message, field: String::new() });
        }
        error
    }
}
