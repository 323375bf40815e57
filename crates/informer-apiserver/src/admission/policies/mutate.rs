//! Evaluates MutatingAdmissionPolicies.
//!
//! All policies are matched before the first of them changes the object. Failures are reported together after
//! all policies
//! have run. Both are as in kube-apiserver.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::apply::{Failed, Target};
use super::mutating::{Mutation, Mutator};
use super::validating::View;
use super::{Binding, Policy};
use crate::admission::dispatch::Asked;
use crate::admission::expressions::Asker;
use crate::admission::matching::Seen;
use crate::admission::versions::Versions;
use crate::admission::{Admission, Object, Operation, review};
use crate::model::error::{ApiError, Cause};
use crate::registry::Resource;

/// Reinvocation state of the mutating policies of one write.
#[derive(Default)]
pub(in crate::admission) struct Reinvocation {
    /// The second round is running.
    again: bool,
    /// Policies called so far that must be reinvoked if the object changes.
    asked: BTreeSet<Key>,
    /// Policies to reinvoke.
    due: BTreeSet<Key>,
}

/// The names of a policy, a binding and the parameter object.
type Key = (String, String, String);

impl Reinvocation {
    /// Starts the second round. `changed` is true if webhooks or plugins changed the object after the first
    /// round.
    pub(in crate::admission) fn again(&mut self, changed: bool) {
        self.again = true;
        if changed {
            self.require();
        }
    }

    fn require(&mut self) {
        self.due.append(&mut self.asked);
    }

    fn leaves_out(&self, key: &Key) -> bool {
        self.again && !self.due.contains(key)
    }
}

/// The effect of one round of policies.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::admission) struct Acted {
    /// A policy has applied a patch, possibly without effect.
    pub(in crate::admission) at_all: bool,
    /// The object differs from the one before.
    pub(in crate::admission) changed: bool,
}

/// A matching policy with a binding and parameters.
struct Call<'a> {
    policy: &'a Policy<Mutator>,
    binding: &'a Binding,
    seen: Arc<Seen>,
    params: Value,
}

/// The message and reason with which a policy rejects a write.
struct Refusal {
    message: String,
    reason: &'static str,
}

/// The rejections of all policies of one round.
#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    /// Adds a rejection, unless `failurePolicy` is `Ignore`.
    fn add(&mut self, policy: &Policy<Mutator>, binding: Option<&Binding>, why: &str, reason: &'static str) {
        if policy.definition.fails_open {
            tracing::debug!(policy = policy.name, why, "a policy is passed over");
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

    /// Returns one error with all rejections as causes, and the message and reason of the first.
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
    /// Applies the mutating policies to the object of a write.
    pub(in crate::admission) async fn change_by_policies(
        &self,
        asked: &Asked<'_>,
        versions: &mut Versions<'_>,
        rounds: &mut Reinvocation,
    ) -> Result<Acted, ApiError> {
        let policies = self.policies::<Mutator>();
        let is_for_none = asked.operation == Operation::Delete || asked.request.attributes.is_question();
        if policies.is_empty() || is_for_none {
            return Ok(Acted::default());
        }
        let mut refusals = Refusals::default();
        let calls = self.mutators_for(asked, &policies, versions, &mut refusals).await;
        let namespace = match calls.is_empty() {
            true => Value::Null,
            false => self.namespace_seen(&asked.request.attributes)?,
        };
        let acted = Acted::default();
        let mut round = Round { shared: self, asked, namespace, versions, rounds, refusals, acted };
        for call in &calls {
            round.call(call).await?;
        }
        let Round { acted, refusals, .. } = round;
        if acted.at_all {
            rounds.require();
        }
        match refusals.0.is_empty() {
            true => Ok(acted),
            false => Err(refusals.error(self.forbidden(&asked.write(versions.now()), ""))),
        }
    }

    /// Returns the matching policies with their bindings and parameters.
    async fn mutators_for<'p>(
        &self,
        asked: &Asked<'_>,
        policies: &'p [Policy<Mutator>],
        versions: &Versions<'_>,
        refusals: &mut Refusals,
    ) -> Vec<Call<'p>> {
        let mut calls = Vec::new();
        for policy in policies {
            let seen = match self.seen_by(&policy.definition.criteria, &asked.write(versions.now())) {
                Ok(None) => continue,
                Ok(Some(seen)) => Arc::new(seen),
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
                match self.bound(asked, of.as_ref(), binding, versions).await {
                    Ok(all) => calls.extend(all.into_iter().map(|params| Call {
                        policy,
                        binding,
                        seen: Arc::clone(&seen),
                        params,
                    })),
                    Err(why) => refusals.misconfigured(policy, Some(binding), &why),
                }
            }
        }
        calls
    }

    /// Returns the parameter objects of a binding for a write; empty if the binding does not match.
    async fn bound(
        &self,
        asked: &Asked<'_>,
        of: Option<&Arc<Resource>>,
        binding: &Binding,
        versions: &Versions<'_>,
    ) -> Result<Vec<Value>, String> {
        match self.seen_by(&binding.criteria, &asked.write(versions.now())) {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(_)) => self.params(of, binding, &asked.request.attributes).await,
            Err(error) => Err(error.message().to_owned()),
        }
    }
}

/// One round of mutating policies, run in sequence.
struct Round<'a, 'v> {
    shared: &'a Admission,
    asked: &'a Asked<'a>,
    /// `namespaceObject` of the expressions.
    namespace: Value,
    versions: &'a mut Versions<'v>,
    rounds: &'a mut Reinvocation,
    refusals: Refusals,
    acted: Acted,
}

impl Round<'_, '_> {
    /// Runs one policy.
    async fn call(&mut self, call: &Call<'_>) -> Result<(), ApiError> {
        let Call { policy, binding, seen, params } = call;
        let mutator = &policy.definition.work;
        if let Err(error) = self.shared.turn_to(self.versions, &self.asked.own, seen).await {
            self.refusals.misconfigured(policy, None, error.message());
            return Ok(());
        }
        match self.told(call, |view| mutator.applies(view)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                self.refusals.add(policy, Some(binding), &why, "Invalid");
                return Ok(());
            }
        }
        let key = (policy.name.clone(), binding.name.clone(), name_of(params));
        if self.rounds.leaves_out(&key) {
            return Ok(());
        }
        let before = self.versions.seen(seen).0.cloned();
        for mutation in &mutator.mutations {
            match self.change(call, mutation) {
                Ok(()) => {}
                Err(Failed::Refused(error)) => return Err(error),
                Err(Failed::Denied(why)) => self.refusals.add(policy, Some(binding), &why, "Invalid"),
            }
        }
        if self.versions.seen(seen).0 != before.as_ref() {
            self.acted.changed = true;
            self.rounds.require();
        }
        if mutator.reinvoked {
            self.rounds.asked.insert(key);
        }
        Ok(())
    }

    /// Applies one mutation, unless there is no object.
    fn change(&mut self, call: &Call<'_>, mutation: &Mutation) -> Result<(), Failed> {
        let Some(object) = self.versions.seen(&call.seen).0 else { return Ok(()) };
        let mutator = &call.policy.definition.work;
        let made = self.told(call, |view| mutator.make(mutation, view)).map_err(Failed::Denied)?;
        let target = Target {
            resource: call.seen.converted.as_ref().unwrap_or(&self.asked.own),
            // `status` is the only subresource whose object is the resource itself.
            whole: matches!(self.asked.request.attributes.subresource.as_str(), "" | "status"),
            seen: &call.seen,
        };
        let changed = self.shared.changed(&target, object, made)?;
        self.versions.change(&call.seen, changed);
        self.acted.at_all = true;
        Ok(())
    }

    /// Calls `evaluate` with the current objects.
    fn told<T>(&self, call: &Call<'_>, say: impl FnOnce(&View<'_>) -> T) -> T {
        let (object, old) = self.versions.seen(&call.seen);
        let write = self.asked.write((object, old));
        let request = review::request(&write, &call.seen);
        let asks = call.policy.definition.work.asks();
        let asker = asks.then(|| Asker::of(&write, self.shared.permissions()));
        let value = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        say(&View {
            object: &value(object),
            old: &value(old),
            request: &request,
            params: &call.params,
            namespace: &self.namespace,
            asker: asker.as_ref(),
        })
    }
}

fn name_of(params: &Value) -> String {
    let part = |name: &str| params["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}
