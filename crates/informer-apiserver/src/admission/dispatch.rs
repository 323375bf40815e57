//! Asking policies and webhooks: the policies that change and the mutating webhooks, after each other; then the policies that decide;
//! then the validating webhooks, at once.

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

/// What upstream calls webhooks as.
const USER_AGENT: &str = "kube-apiserver-admission";

/// How the call of one webhook went wrong.
enum Failure {
    /// It could not be asked, or said nothing that makes sense: its failure policy decides.
    Call(String),
    /// The write is refused.
    Refused(ApiError),
}

impl Admission {
    /// Runs one phase of admission: of a creation if `old` is absent, of a deletion if `object` is. Returns what policies and
    /// webhooks made of the object.
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

    /// Asks the plugins again that change objects, in the version of the request; whether they have.
    fn plug_in_again(&self, asked: &Asked<'_>, versions: &mut Versions<'_>) -> Result<bool, ApiError> {
        let attributes = &asked.request.attributes;
        // What is updated they see after the webhooks alone.
        let is_theirs = asked.operation == Operation::Create && attributes.subresource.is_empty();
        let Some(object) = versions.object_mut().filter(|_| is_theirs) else { return Ok(false) };
        let (kind, before) = (&asked.own.kind, object.clone());
        let namespace = Some(attributes.namespace.as_str()).filter(|_| kind.namespaced);
        self.plug_in(kind, namespace, object)?;
        Ok(*object != before)
    }

    /// The webhooks that may be asked.
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
                    // Upstream compares, but the times of field managers lose their fraction on the way: every patch
                    // counts.
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

    /// How a webhook is to see a write; `None` where it is not for it.
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

    /// The object after what a webhook wants changed; `None` where it wants nothing.
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
            // Of its subresources only the status is the object itself.
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

    /// Asks one webhook. An answer that refuses is a failure.
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
    /// Where the write goes.
    pub(super) own: Arc<Resource>,
    phase: Phase,
    pub(super) operation: Operation,
}

impl Asked<'_> {
    pub(super) fn write<'b>(&'b self, (object, old): Pair<'b>) -> Write<'b> {
        Write { attributes: &self.request.attributes, operation: self.operation, object, old }
    }
}

/// The mutating webhooks' round, and the one after it for those that want to see what became of the object.
struct Round<'a> {
    versions: Versions<'a>,
    changed: bool,
    /// It is the second round.
    again: bool,
    /// Called so far, and to be called again when something changes.
    called: BTreeSet<usize>,
    /// To be called again.
    due: BTreeSet<usize>,
}

impl<'a> Round<'a> {
    fn new(versions: Versions<'a>) -> Self {
        Self { versions, changed: false, again: false, called: BTreeSet::new(), due: BTreeSet::new() }
    }

    /// Begins the second round, after policies that may have `changed` the object.
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

/// Lets a failure pass where the webhook's policy says so.
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
