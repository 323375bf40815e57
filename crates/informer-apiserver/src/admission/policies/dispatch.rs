//! Evaluates ValidatingAdmissionPolicies and carries out the validation actions of their bindings.

use std::sync::Arc;

use serde_json::Value;

use super::validating::{Objection, View};
use super::{Binding, Judge, Policy};
use crate::admission::dispatch::Asked;
use crate::admission::expressions::Asker;
use crate::admission::matching::Seen;
use crate::admission::versions::Versions;
use crate::admission::{Admission, Object, review};
use crate::model::error::{ApiError, Cause};
use crate::registry::Resource;

/// The message and reason with which a write is denied.
struct Denial {
    message: String,
    reason: String,
}

impl Admission {
    /// Evaluates all policies. The error reports the first denial.
    pub(in crate::admission) async fn ask_policies(
        &self,
        asked: &Asked<'_>,
        versions: &mut Versions<'_>,
    ) -> Result<(), ApiError> {
        let mut first = None;
        for policy in self.policies::<Judge>().iter() {
            let denial = self.ask_policy(asked, policy, versions).await?;
            first = first.or(denial);
        }
        match first {
            None => Ok(()),
            Some(denial) => {
                let forbidden = self.forbidden(&asked.write(versions.now()), &denial.message);
                Err(denial.error(forbidden))
            }
        }
    }

    async fn ask_policy(
        &self,
        asked: &Asked<'_>,
        policy: &Policy<Judge>,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Denial>, ApiError> {
        let definition = &policy.definition;
        let seen = match self.seen_by(&definition.criteria, &asked.write(versions.now())) {
            Ok(None) => return Ok(None),
            Ok(Some(seen)) => seen,
            Err(error) => return Ok(policy.misconfigured(None, error.message())),
        };
        let params = match self.param_resource(definition) {
            Ok(params) => params,
            Err(why) => return Ok(policy.misconfigured(None, &why)),
        };
        let mut first = None;
        for binding in &policy.bindings {
            let matched = Matched { policy, binding, seen: &seen, params: params.as_ref() };
            let denial = self.ask_bound(asked, &matched, versions).await?;
            first = first.or(denial);
        }
        Ok(first)
    }

    async fn ask_bound(
        &self,
        asked: &Asked<'_>,
        matched: &Matched<'_>,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Denial>, ApiError> {
        let Matched { policy, binding, seen, params } = matched;
        let attributes = &asked.request.attributes;
        match self.seen_by(&binding.criteria, &asked.write(versions.now())) {
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
        if let Err(error) = self.turn_to(versions, &asked.own, seen).await {
            let why = format!("failed to convert object version: {}", error.message());
            return Ok(policy.misconfigured(Some(binding), &why));
        }
        let (object, old) = versions.seen(seen);
        let write = asked.write((object, old));
        let request = review::request(&write, seen);
        let judge = &policy.definition.work;
        let asker = judge.asks().then(|| Asker::of(&write, self.permissions()));
        let value = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let (object, old) = (value(object), value(old));
        let namespace = &self.namespace_seen(attributes)?;
        let mut first = None;
        for params in &params {
            let view = View {
                object: &object,
                old: &old,
                request: &request,
                params,
                namespace,
                asker: asker.as_ref(),
            };
            for objection in judge.objections(&view) {
                let denial = matched.follow(asked, objection);
                first = first.or(denial);
            }
        }
        Ok(first)
    }
}

/// A policy and a binding that match a write.
struct Matched<'a> {
    policy: &'a Policy<Judge>,
    binding: &'a Binding,
    seen: &'a Seen,
    params: Option<&'a Arc<Resource>>,
}

impl Matched<'_> {
    /// Carries out the `validationActions` of the binding. Returns a denial if the write is rejected.
    fn follow(&self, asked: &Asked<'_>, objection: Objection) -> Option<Denial> {
        let (policy, binding) = (&self.policy.name, &self.binding.name);
        let does = |action: &str| self.binding.actions.iter().any(|known| known == action);
        if does("Warn") && !objection.refuses {
            asked.request.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                objection.message
            ));
        }
        (objection.refuses || does("Deny")).then(|| Denial {
            message: denied(policy, Some(self.binding), &objection.message),
            reason: objection.reason,
        })
    }
}

impl Policy<Judge> {
    /// Returns the denial for a policy that cannot be evaluated, unless `failurePolicy` is `Ignore`.
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
    /// Returns the `Forbidden` error with the code and reason that the policy sets.
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
