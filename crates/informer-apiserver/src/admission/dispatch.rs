//! Dispatches a write to policies and webhooks.
//!
//! Mutating policies and mutating webhooks run one after the other. Validating policies follow, then the
//! validating webhooks, which are
//! called concurrently.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use super::hooks::Hook;
use super::matching::{Seen, Write};
use super::policies::Reinvocation;
use super::review::{self, Verdict};
use super::versions::{Pair, Versions};
use super::{AdmissionRequest, Object, Operation, Phase};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::registry::Resource;
use crate::webhook::Post;

/// The `User-Agent` header of webhook calls; the same as that of kube-apiserver.
const USER_AGENT: &str = "kube-apiserver-admission";

/// The reason why a webhook call failed.
enum Failure {
    /// The webhook could not be called or returned an invalid response. `failurePolicy` decides.
    Call(String),
    /// The write is rejected.
    Refused(ApiError),
}

impl Admission {
    /// Runs one phase of admission and returns the object after mutation.
    ///
    /// The operation is CREATE if `old` is absent, and DELETE if `object` is absent.
    pub(crate) async fn run_admission(
        &self,
        request: &AdmissionRequest,
        phase: Phase,
        object: Option<Object>,
        old: Option<&Object>,
    ) -> Result<Option<Object>, ApiError> {
        let operation = Operation::of(object.is_some(), old.is_some());
        let own = self.resource(&request.attributes.gvr)?;
        let asked = Asked { request, own, phase, operation };
        let versions = Versions::new(object, old);
        match phase {
            Phase::Mutate => self.mutate(&asked, versions).await,
            Phase::Validate => self.validate(&asked, versions).await,
        }
    }

    async fn mutate(&self, asked: &Asked<'_>, versions: Versions<'_>) -> Result<Option<Object>, ApiError> {
        let hooks = self.hooks_for(asked);
        let (mut round, mut policies) = (Round::new(versions), Reinvocation::default());
        let acted = self.change_by_policies(asked, &mut round.versions, &mut policies).await?;
        self.mutate_once(asked, &hooks, &mut round).await?;
        if acted.at_all || round.changed {
            let plugged = self.plug_in_again(asked, &mut round.versions)?;
            policies.again(round.changed || plugged);
            let acted = self.change_by_policies(asked, &mut round.versions, &mut policies).await?;
            round.again(acted.changed || plugged);
            self.mutate_once(asked, &hooks, &mut round).await?;
        }
        Ok(round.versions.into_object())
    }

    /// Runs the mutating plugins again on the object in the version of the request. Returns true if they
    /// changed it.
    fn plug_in_again(&self, asked: &Asked<'_>, versions: &mut Versions<'_>) -> Result<bool, ApiError> {
        let attributes = &asked.request.attributes;
        // On updates the plugins run only once, after the mutating webhooks.
        let is_theirs = asked.operation == Operation::Create && attributes.subresource.is_empty();
        let Some(object) = versions.object_mut().filter(|_| is_theirs) else { return Ok(false) };
        let (kind, before) = (&asked.own.kind, object.clone());
        let namespace = Some(attributes.namespace.as_str()).filter(|_| kind.namespaced);
        self.plug_in(kind, namespace, object)?;
        Ok(*object != before)
    }

    /// Returns the webhooks of this phase. Webhook configurations are exempt from webhooks.
    fn hooks_for(&self, asked: &Asked<'_>) -> Arc<Vec<Hook>> {
        match asked.request.attributes.is_configuration() {
            true => Arc::default(),
            false => self.hooks(asked.phase),
        }
    }

    async fn mutate_once(
        &self,
        asked: &Asked<'_>,
        hooks: &Arc<Vec<Hook>>,
        round: &mut Round<'_>,
    ) -> Result<(), ApiError> {
        for (index, hook) in hooks.iter().enumerate() {
            let Some(seen) = self.calls_for(asked, hook, &mut round.versions).await? else { continue };
            if round.again && !round.due.contains(&index) {
                continue;
            }
            self.turn_to(&mut round.versions, &asked.own, &seen).await?;
            let objects = round.versions.seen(&seen);
            let outcome = self.call(asked, hook, &seen, objects).await;
            let patched = match outcome {
                Ok(verdict) => self.patched(asked, (hook, &seen), verdict, objects.0),
                Err(failure) => Err(failure),
            };
            let changed = match patched {
                Ok(Some(object)) => {
                    round.versions.change(&seen, object);
                    // Every patch counts as a change. A comparison would report false changes, because
                    // conversion drops the fractional
                    // seconds of the times in `managedFields`.
                    true
                }
                Ok(None) => false,
                Err(failure) => {
                    passed_over(hook, failure)?;
                    false
                }
            };
            round.called(index, changed, hook.reinvoked);
        }
        self.turn_back(&mut round.versions, &asked.own).await
    }

    /// Returns the version in which a webhook receives a write, or `None` if the webhook does not match.
    async fn calls_for(
        &self,
        asked: &Asked<'_>,
        hook: &Hook,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Seen>, ApiError> {
        let Some(seen) = self.seen_by(&hook.criteria, &asked.write(versions.now()))? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(seen));
        }
        self.turn_to(versions, &asked.own, &seen).await?;
        let holds = self.conditions_hold(hook, &asked.write(versions.seen(&seen)), &seen)?;
        Ok(holds.then_some(seen))
    }

    /// Applies the patch of a webhook. Returns `None` if there is no patch or it is empty.
    fn patched(
        &self,
        asked: &Asked<'_>,
        (hook, seen): (&Hook, &Seen),
        verdict: Verdict,
        object: Option<&Object>,
    ) -> Result<Option<Object>, Failure> {
        let Some(patch) = verdict.patch else { return Ok(None) };
        let undecodable =
            |why: String| Failure::Call(format!("received undecodable patch in webhook response: {why}"));
        let patch = crate::model::json_patch::JsonPatch::read(&patch).map_err(undecodable)?;
        if patch.is_empty() {
            return Ok(None);
        }
        let internal = |why: &str| Failure::Refused(ApiError::internal(why));
        let Some(object) = object else {
            return Err(internal(&format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        let patched = patch.apply(Value::Object(object.clone())).map_err(|why| internal(&why))?;
        let resource = seen.converted.as_ref().unwrap_or(&asked.own);
        match (asked.request.attributes.subresource.as_str(), patched) {
            // `status` is the only subresource whose object is the resource itself.
            ("" | "status", patched) => self.refit(resource, patched).map(Some).map_err(|why| internal(&why)),
            (_, Value::Object(patched)) => Ok(Some(patched)),
            (_, _) => Err(internal("the patched object is none")),
        }
    }

    async fn validate(
        &self,
        asked: &Asked<'_>,
        mut versions: Versions<'_>,
    ) -> Result<Option<Object>, ApiError> {
        if !asked.request.attributes.is_question() {
            self.ask_policies(asked, &mut versions).await?;
        }
        let hooks = self.hooks_for(asked);
        let mut relevant = Vec::new();
        for hook in hooks.iter() {
            if let Some(seen) = self.calls_for(asked, hook, &mut versions).await? {
                self.turn_to(&mut versions, &asked.own, &seen).await?;
                relevant.push((hook, seen));
            }
        }
        let calls = relevant.iter().map(|(hook, seen)| self.call(asked, hook, seen, versions.seen(seen)));
        let outcomes = join_all(calls).await;
        for ((hook, _), outcome) in relevant.iter().zip(outcomes) {
            if let Err(failure) = outcome {
                passed_over(hook, failure)?;
            }
        }
        Ok(versions.into_object())
    }

    /// Calls one webhook. A response that denies the request becomes [`Failure::Refused`].
    async fn call(
        &self,
        asked: &Asked<'_>,
        hook: &Hook,
        seen: &Seen,
        (object, old): Pair<'_>,
    ) -> Result<Verdict, Failure> {
        if asked.request.attributes.dry_run && !hook.dry_runs {
            let message = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Failure::Refused(ApiError::bad_request(message)));
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return Err(Failure::Call(why.to_owned()));
        };
        let shown = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let uid = uuid::Uuid::new_v4().to_string();
        let request = review::request(&asked.write((object, old)), seen);
        let review = review::review(version, &uid, request, shown(object), shown(old));
        let post = Post { config: &hook.client, user_agent: USER_AGENT, timeout: hook.timeout };
        let mut body = review.to_string().into_bytes();
        body.push(b'\n');
        let answer = self.webhooks.post(&*self.clock, &post, body).await;
        let answer = answer.map_err(|error| Failure::Call(format!("failed to call webhook: {error}")))?;
        let verdict =
            review::read(&answer, version, &uid, asked.phase == Phase::Mutate).map_err(Failure::Call)?;
        verdict.warnings.iter().for_each(|warning| asked.request.warn(warning.clone()));
        match verdict.allowed {
            true => Ok(verdict),
            false => Err(Failure::Refused(review::refusal(hook, &verdict.result))),
        }
    }
}

/// A write in one phase of admission.
pub(super) struct Asked<'a> {
    pub(super) request: &'a AdmissionRequest,
    /// The resource that is written.
    pub(super) own: Arc<Resource>,
    phase: Phase,
    pub(super) operation: Operation,
}

impl Asked<'_> {
    pub(super) fn write<'b>(&'b self, (object, old): Pair<'b>) -> Write<'b> {
        Write { attributes: &self.request.attributes, operation: self.operation, object, old }
    }
}

/// State of the two rounds of mutating webhooks. The second round reinvokes webhooks if the object has
/// changed since their call.
struct Round<'a> {
    versions: Versions<'a>,
    changed: bool,
    /// The second round is running.
    again: bool,
    /// Webhooks called so far that must be reinvoked if the object changes.
    called: BTreeSet<usize>,
    /// Webhooks to reinvoke.
    due: BTreeSet<usize>,
}

impl<'a> Round<'a> {
    fn new(versions: Versions<'a>) -> Self {
        Self { versions, changed: false, again: false, called: BTreeSet::new(), due: BTreeSet::new() }
    }

    /// Starts the second round. `changed` is true if policies or plugins changed the object after the first
    /// round.
    fn again(&mut self, changed: bool) {
        self.again = true;
        if changed {
            self.due.append(&mut self.called);
        }
    }

    fn called(&mut self, index: usize, changed: bool, reinvoked: bool) {
        if changed {
            self.changed = true;
            self.due.append(&mut self.called);
        }
        if reinvoked {
            self.called.insert(index);
        }
    }
}

/// Ignores a failed call if the webhook's `failurePolicy` is `Ignore`.
fn passed_over(hook: &Hook, failure: Failure) -> Result<(), ApiError> {
    match failure {
        Failure::Refused(error) => Err(error),
        Failure::Call(why) if hook.fails_open => {
            tracing::debug!(webhook = hook.name, why, "a webhook is passed over");
            Ok(())
        }
        Failure::Call(why) => {
            Err(ApiError::internal(&format!("failed calling webhook {:?}: {why}", hook.name)))
        }
    }
}
