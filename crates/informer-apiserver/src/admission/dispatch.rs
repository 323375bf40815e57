//! Dispatches a write to policies and webhooks.
//!
//! Mutating policies and mutating webhooks run one after the other. Validating policies follow, then the
//! validating webhooks, which are called concurrently.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use super::hooks::Hook;
use super::policies::Reinvocation;
use super::review::{self, ReviewResult};
use super::versions::Versions;
use super::write::{Invocation, Pair, PhaseContext};
use super::{AdmissionRequest, Object, Operation, Phase};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::webhook::Post;

const USER_AGENT: &str = "kube-apiserver-admission";

enum WebhookFailure {
    /// The webhook could not be called or returned an invalid response. Its `failurePolicy` decides whether
    /// the write fails.
    Call(String),
    Refused(ApiError),
}

impl Admission {
    /// Runs one admission phase of a write or a connection and returns the object after mutation.
    ///
    /// For a write, the operation is CREATE if `old` is absent, and DELETE if `object` is absent.
    pub(crate) async fn run_admission(
        &self,
        request: &AdmissionRequest,
        phase: Phase,
        object: Option<Object>,
        old: Option<&Object>,
    ) -> Result<Option<Object>, ApiError> {
        let operation = request.attributes.operation(object.is_some(), old.is_some());
        let resource = self.resource(&request.attributes.gvr)?;
        let context = PhaseContext { request, resource, phase, operation };
        let versions = Versions::new(object, old);
        match phase {
            Phase::Mutate => self.mutate(&context, versions).await,
            Phase::Validate => self.validate(&context, versions).await,
        }
    }

    async fn mutate(
        &self,
        context: &PhaseContext<'_>,
        versions: Versions<'_>,
    ) -> Result<Option<Object>, ApiError> {
        let hooks = self.hooks_for(context);
        let (mut round, mut policies) = (WebhookRound::new(versions), Reinvocation::default());
        let outcome = self.apply_mutating_policies(context, &mut round.versions, &mut policies).await?;
        self.call_mutating_webhooks(context, &hooks, &mut round).await?;
        if outcome.patched || round.changed {
            let plugins_changed = self.reinvoke_plugins(context, &mut round.versions)?;
            policies.start_second_round(round.changed || plugins_changed);
            let outcome = self.apply_mutating_policies(context, &mut round.versions, &mut policies).await?;
            round.start_second_round(outcome.changed || plugins_changed);
            self.call_mutating_webhooks(context, &hooks, &mut round).await?;
        }
        Ok(round.versions.into_object())
    }

    /// Runs the mutating plugins again after webhooks or policies, on the object in the version of the
    /// request. Returns true if a plugin changed the object.
    fn reinvoke_plugins(
        &self,
        context: &PhaseContext<'_>,
        versions: &mut Versions<'_>,
    ) -> Result<bool, ApiError> {
        let attributes = &context.request.attributes;
        // For an update the mutating plugins run only once, after the mutating webhooks. For a create they
        // run before the webhooks, and again here.
        let reinvokes = context.operation == Operation::Create && attributes.subresource.is_empty();
        let Some(object) = versions.object_mut().filter(|_| reinvokes) else { return Ok(false) };
        let (kind, before) = (&context.resource.kind, object.clone());
        let namespace = Some(attributes.namespace.as_str()).filter(|_| kind.namespaced);
        self.run_mutating_plugins(kind, namespace, object)?;
        Ok(*object != before)
    }

    /// Returns the webhooks of the phase; none if the write targets a webhook configuration.
    fn hooks_for(&self, context: &PhaseContext<'_>) -> Arc<Vec<Hook>> {
        if context.request.attributes.is_webhook_configuration() {
            Arc::default()
        } else {
            self.hooks(context.phase)
        }
    }

    async fn call_mutating_webhooks(
        &self,
        context: &PhaseContext<'_>,
        hooks: &Arc<Vec<Hook>>,
        round: &mut WebhookRound<'_>,
    ) -> Result<(), ApiError> {
        for (index, hook) in hooks.iter().enumerate() {
            let Some(invocation) = self.matching_invocation(context, hook, &mut round.versions).await? else {
                continue;
            };
            if round.second_round && !round.due.contains(&index) {
                continue;
            }
            self.convert_for(&mut round.versions, &context.resource, &invocation).await?;
            let objects = round.versions.view(&invocation);
            let outcome = self.call(context, hook, &invocation, objects).await;
            let patched = match outcome {
                Ok(verdict) => self.patched(context, (hook, &invocation), verdict, objects.0),
                Err(failure) => Err(failure),
            };
            let changed = match patched {
                Ok(Some(object)) => {
                    round.versions.set_object(&invocation, object);
                    // Each patch of a webhook counts as a change of the object. kube-apiserver compares the
                    // objects, but its conversion drops the fractional seconds of the times in
                    // `managedFields`, so it always finds a difference, too.
                    true
                }
                Ok(None) => false,
                Err(failure) => {
                    check_failure_policy(hook, failure)?;
                    false
                }
            };
            round.called(index, changed, hook.reinvoked);
        }
        self.convert_back(&mut round.versions, &context.resource).await
    }

    async fn matching_invocation(
        &self,
        context: &PhaseContext<'_>,
        hook: &Hook,
        versions: &mut Versions<'_>,
    ) -> Result<Option<Invocation>, ApiError> {
        let Some(invocation) = self.invocation_for(&hook.criteria, &context.write(versions.current()))?
        else {
            return Ok(None);
        };
        if hook.conditions.is_empty() {
            return Ok(Some(invocation));
        }
        self.convert_for(versions, &context.resource, &invocation).await?;
        let write = context.write(versions.view(&invocation));
        let holds = self.conditions_hold(&hook.conditions, hook.fails_open, &write, &invocation)?;
        Ok(holds.then_some(invocation))
    }

    /// Applies the JSON patch in a webhook's response. Returns `None` if the patch is missing or empty.
    fn patched(
        &self,
        context: &PhaseContext<'_>,
        (hook, invocation): (&Hook, &Invocation),
        verdict: ReviewResult,
        object: Option<&Object>,
    ) -> Result<Option<Object>, WebhookFailure> {
        let Some(patch) = verdict.patch else { return Ok(None) };
        let undecodable = |why: String| {
            WebhookFailure::Call(format!("received undecodable patch in webhook response: {why}"))
        };
        let patch = crate::model::json_patch::JsonPatch::read(&patch).map_err(undecodable)?;
        if patch.is_empty() {
            return Ok(None);
        }
        let internal = |why: &str| WebhookFailure::Refused(ApiError::internal(why));
        let Some(object) = object else {
            return Err(internal(&format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        let patched = patch.apply(Value::Object(object.clone())).map_err(|why| internal(&why))?;
        let resource = invocation.converted.as_ref().unwrap_or(&context.resource);
        match (context.request.attributes.subresource.as_str(), patched) {
            // `status` is the only subresource that has the resource's own kind in its requests.
            ("" | "status", patched) => {
                self.decode_patched(resource, patched).map(Some).map_err(|why| internal(&why))
            }
            (_, Value::Object(patched)) => Ok(Some(patched)),
            (_, _) => Err(internal("the patched object is none")),
        }
    }

    async fn validate(
        &self,
        context: &PhaseContext<'_>,
        mut versions: Versions<'_>,
    ) -> Result<Option<Object>, ApiError> {
        if !context.request.attributes.is_review() {
            self.evaluate_validating_policies(context, &mut versions).await?;
        }
        let hooks = self.hooks_for(context);
        let mut relevant = Vec::new();
        for hook in hooks.iter() {
            if let Some(invocation) = self.matching_invocation(context, hook, &mut versions).await? {
                self.convert_for(&mut versions, &context.resource, &invocation).await?;
                relevant.push((hook, invocation));
            }
        }
        let calls = relevant
            .iter()
            .map(|(hook, invocation)| self.call(context, hook, invocation, versions.view(invocation)));
        let outcomes = join_all(calls).await;
        for ((hook, _), outcome) in relevant.iter().zip(outcomes) {
            if let Err(failure) = outcome {
                check_failure_policy(hook, failure)?;
            }
        }
        Ok(versions.into_object())
    }

    /// Calls a webhook. A response that denies the request is returned as [`WebhookFailure::Refused`].
    async fn call(
        &self,
        context: &PhaseContext<'_>,
        hook: &Hook,
        invocation: &Invocation,
        (object, old): Pair<'_>,
    ) -> Result<ReviewResult, WebhookFailure> {
        if context.request.attributes.dry_run && !hook.supports_dry_run {
            let message = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(WebhookFailure::Refused(ApiError::bad_request(message)));
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            return Err(WebhookFailure::Call(why.to_owned()));
        };
        let shown = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let uid = uuid::Uuid::new_v4().to_string();
        let request = review::request(&context.write((object, old)), invocation);
        let review = review::review(version, &uid, request, shown(object), shown(old));
        let post = Post { config: &hook.client, user_agent: USER_AGENT, timeout: hook.timeout };
        let mut body = review.to_string().into_bytes();
        body.push(b'\n');
        let response = self.webhooks.post(&*self.clock, &post, body).await;
        let response =
            response.map_err(|error| WebhookFailure::Call(format!("failed to call webhook: {error}")))?;
        let verdict = review::read(&response, version, &uid, context.phase == Phase::Mutate)
            .map_err(WebhookFailure::Call)?;
        verdict.warnings.iter().for_each(|warning| context.request.warn(warning.clone()));
        if verdict.allowed {
            Ok(verdict)
        } else {
            Err(WebhookFailure::Refused(review::refusal(&hook.name, &verdict.result)))
        }
    }
}

/// State of the two rounds of mutating webhooks. The second round calls a webhook again if the object has
/// changed since the webhook's first call.
struct WebhookRound<'a> {
    versions: Versions<'a>,
    changed: bool,
    second_round: bool,
    /// Indices of called webhooks that must be called again if the object changes.
    called: BTreeSet<usize>,
    due: BTreeSet<usize>,
}

impl<'a> WebhookRound<'a> {
    fn new(versions: Versions<'a>) -> Self {
        Self { versions, changed: false, second_round: false, called: BTreeSet::new(), due: BTreeSet::new() }
    }

    /// Starts the second round of mutating webhooks. `changed` is true if policies or plugins changed the
    /// object after the first round.
    fn start_second_round(&mut self, changed: bool) {
        self.second_round = true;
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

/// Returns the error of a failed webhook call, unless the webhook's `failurePolicy` is `Ignore`.
fn check_failure_policy(hook: &Hook, failure: WebhookFailure) -> Result<(), ApiError> {
    match failure {
        WebhookFailure::Refused(error) => Err(error),
        WebhookFailure::Call(why) if hook.fails_open => {
            tracing::debug!(
                webhook = hook.name,
                why,
                "ignoring a failed webhook call: failurePolicy is Ignore"
            );
            Ok(())
        }
        WebhookFailure::Call(why) => {
            Err(ApiError::internal(&format!("failed calling webhook {:?}: {why}", hook.name)))
        }
    }
}
