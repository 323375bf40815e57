//! Evaluates MutatingAdmissionPolicies.
//!
//! As in kube-apiserver, all policies are matched before the first of them changes the object, and failures
//! are reported together after all policies have run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::apply::{ApplyError, PatchTarget};
use super::mutating::{Mutation, Mutator};
use super::validating::View;
use super::{Binding, Policy};
use crate::admission::expressions::AuthorizerInput;
use crate::admission::versions::Versions;
use crate::admission::write::{Invocation, PhaseContext};
use crate::admission::{Admission, Object, Operation, review};
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::registry::Resource;

/// Records which mutating policies must run again in the second round of one write.
#[derive(Default)]
pub(in crate::admission) struct Reinvocation {
    second_round: bool,
    /// Keys of the policies that have run and must run again if the object changes.
    called: BTreeSet<EvaluationKey>,
    due: BTreeSet<EvaluationKey>,
}

/// The names that identify one evaluation of a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EvaluationKey {
    policy: String,
    binding: String,
    /// The name of the parameter object.
    param: String,
}

impl Reinvocation {
    /// Starts the second round of mutating policies. `changed` is true if webhooks or plugins changed the
    /// object after the first round.
    pub(in crate::admission) fn start_second_round(&mut self, changed: bool) {
        self.second_round = true;
        if changed {
            self.require_reinvocation();
        }
    }

    fn require_reinvocation(&mut self) {
        self.due.append(&mut self.called);
    }

    fn skips(&self, key: &EvaluationKey) -> bool {
        self.second_round && !self.due.contains(key)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::admission) struct RoundOutcome {
    /// A policy has applied a patch, even if the object did not change.
    pub(in crate::admission) patched: bool,
    pub(in crate::admission) changed: bool,
}

struct PolicyInvocation<'a> {
    policy: &'a Policy<Mutator>,
    binding: &'a Binding,
    invocation: Arc<Invocation>,
    params: Value,
}

struct Refusal {
    message: String,
    reason: &'static str,
}

#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    /// Adds the rejection of a write by a policy, unless the policy's `failurePolicy` is `Ignore`.
    fn add(&mut self, policy: &Policy<Mutator>, binding: Option<&Binding>, why: &str, reason: &'static str) {
        if policy.definition.fails_open {
            tracing::debug!(policy = policy.name, why, "ignoring a failed policy: failurePolicy is Ignore");
            return;
        }
        let message = match binding {
            Some(Binding { name, .. }) => {
                format!("policy '{}' with binding '{name}' denied request: {why}", policy.name)
            }
            None => format!("policy {:?} denied request: {why}", policy.name),
        };
        self.0.push(Refusal { message, reason });
    }

    fn misconfigured(&mut self, policy: &Policy<Mutator>, binding: Option<&Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.add(policy, binding, &format!("failed to configure {what}: {why}"), "");
    }

    /// Combines all rejections into one error, which has the message and reason of the first and lists all as
    /// causes.
    fn error(self, forbidden: ApiError) -> ApiError {
        let mut error = forbidden;
        if let Some(first) = self.0.first() {
            error.message.clone_from(&first.message);
            if !first.reason.is_empty() {
                error.reason = first.reason.into();
            }
        }
        if let Some(details) = &mut error.details {
            let cause =
                |refusal: Refusal| Cause { reason: "", message: refusal.message, field: String::new() };
            details.causes.extend(self.0.into_iter().map(cause));
        }
        error
    }
}

impl Admission {
    pub(in crate::admission) async fn apply_mutating_policies(
        &self,
        context: &PhaseContext<'_>,
        versions: &mut Versions<'_>,
        reinvocation: &mut Reinvocation,
    ) -> Result<RoundOutcome, ApiError> {
        let policies = self.policies::<Mutator>();
        let is_for_none = context.operation == Operation::Delete || context.request.attributes.is_review();
        if policies.is_empty() || is_for_none {
            return Ok(RoundOutcome::default());
        }
        let mut refusals = Refusals::default();
        let calls = self.matching_policies(context, &policies, versions, &mut refusals).await;
        let namespace =
            if calls.is_empty() { Value::Null } else { self.namespace_object(&context.request.attributes)? };
        let outcome = RoundOutcome::default();
        let mut round =
            PolicyRound { shared: self, context, namespace, versions, reinvocation, refusals, outcome };
        for call in &calls {
            round.call(call).await?;
        }
        let PolicyRound { outcome, refusals, .. } = round;
        if outcome.patched {
            reinvocation.require_reinvocation();
        }
        if refusals.0.is_empty() {
            Ok(outcome)
        } else {
            Err(refusals.error(self.forbidden(&context.write(versions.current()), "")))
        }
    }

    async fn matching_policies<'p>(
        &self,
        context: &PhaseContext<'_>,
        policies: &'p [Policy<Mutator>],
        versions: &Versions<'_>,
        refusals: &mut Refusals,
    ) -> Vec<PolicyInvocation<'p>> {
        let mut calls = Vec::new();
        for policy in policies {
            let invocation =
                match self.invocation_for(&policy.definition.criteria, &context.write(versions.current())) {
                    Ok(None) => continue,
                    Ok(Some(invocation)) => Arc::new(invocation),
                    Err(error) => {
                        refusals.misconfigured(policy, None, error.message());
                        continue;
                    }
                };
            let of = match self.param_resource(&policy.definition) {
                Ok(of) => of,
                Err(why) => {
                    refusals.misconfigured(policy, None, &why);
                    continue;
                }
            };
            for binding in &policy.bindings {
                match self.matching_params(context, of.as_ref(), binding, versions).await {
                    Ok(all) => calls.extend(all.into_iter().map(|params| PolicyInvocation {
                        policy,
                        binding,
                        invocation: Arc::clone(&invocation),
                        params,
                    })),
                    Err(why) => refusals.misconfigured(policy, Some(binding), &why),
                }
            }
        }
        calls
    }

    /// Returns the parameter objects of a policy binding for a write; empty if the binding does not match.
    async fn matching_params(
        &self,
        context: &PhaseContext<'_>,
        of: Option<&Arc<Resource>>,
        binding: &Binding,
        versions: &Versions<'_>,
    ) -> Result<Vec<Value>, String> {
        match self.invocation_for(&binding.criteria, &context.write(versions.current())) {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(_)) => self.params(of, binding, &context.request.attributes).await,
            Err(error) => Err(error.message().to_owned()),
        }
    }
}

struct PolicyRound<'a, 'v> {
    shared: &'a Admission,
    context: &'a PhaseContext<'a>,
    namespace: Value,
    versions: &'a mut Versions<'v>,
    reinvocation: &'a mut Reinvocation,
    refusals: Refusals,
    outcome: RoundOutcome,
}

impl PolicyRound<'_, '_> {
    async fn call(&mut self, call: &PolicyInvocation<'_>) -> Result<(), ApiError> {
        let PolicyInvocation { policy, binding, invocation, params } = call;
        let mutator = &policy.definition.evaluator;
        if let Err(error) = self.shared.convert_for(self.versions, &self.context.resource, invocation).await {
            self.refusals.misconfigured(policy, None, error.message());
            return Ok(());
        }
        match self.with_view(call, |view| mutator.applies(view)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                self.refusals.add(policy, Some(binding), &why, "Invalid");
                return Ok(());
            }
        }
        let key = EvaluationKey {
            policy: policy.name.clone(),
            binding: binding.name.clone(),
            param: name_of(params),
        };
        if self.reinvocation.skips(&key) {
            return Ok(());
        }
        let before = self.versions.view(invocation).0.cloned();
        for mutation in &mutator.mutations {
            match self.change(call, mutation) {
                Ok(()) => {}
                Err(ApplyError::Refused(error)) => return Err(error),
                Err(ApplyError::Denied(why)) => self.refusals.add(policy, Some(binding), &why, "Invalid"),
            }
        }
        if self.versions.view(invocation).0 != before.as_ref() {
            self.outcome.changed = true;
            self.reinvocation.require_reinvocation();
        }
        if mutator.reinvoked {
            self.reinvocation.called.insert(key);
        }
        Ok(())
    }

    /// Applies one mutation of a policy. Does nothing for a DELETE, which has no new object.
    fn change(&mut self, call: &PolicyInvocation<'_>, mutation: &Mutation) -> Result<(), ApplyError> {
        let Some(object) = self.versions.view(&call.invocation).0 else { return Ok(()) };
        let mutator = &call.policy.definition.evaluator;
        let patch =
            self.with_view(call, |view| mutator.evaluate(mutation, view)).map_err(ApplyError::Denied)?;
        let target = PatchTarget {
            resource: call.invocation.converted.as_ref().unwrap_or(&self.context.resource),
            // `status` is the only subresource that has the resource's own kind in its requests.
            whole: matches!(self.context.request.attributes.subresource.as_str(), "" | "status"),
            invocation: &call.invocation,
        };
        let changed = self.shared.changed(&target, object, patch)?;
        self.versions.set_object(&call.invocation, changed);
        self.outcome.patched = true;
        Ok(())
    }

    fn with_view<T>(&self, call: &PolicyInvocation<'_>, evaluate: impl FnOnce(&View<'_>) -> T) -> T {
        let (object, old) = self.versions.view(&call.invocation);
        let write = self.context.write((object, old));
        let request = review::request(&write, &call.invocation);
        let uses_authorizer = call.policy.definition.evaluator.uses_authorizer();
        let authorizer_input =
            uses_authorizer.then(|| AuthorizerInput::of(&write, self.shared.permissions()));
        let value = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        evaluate(&View {
            object: &value(object),
            old: &value(old),
            request: &request,
            params: &call.params,
            namespace: &self.namespace,
            authorizer_input: authorizer_input.as_ref(),
        })
    }
}

fn name_of(params: &Value) -> String {
    let part = |name: &str| params["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}
