//! Writes that are not the writing of one object: subresources with a shape of their own, and reviews.

use informer_schema::Kind;
use serde_json::{Map, Value, json};

use super::answer::{Answer, value, warn};
use super::call::{APPLY, Call, media_type};
use crate::admission::Phase;
use crate::auth::check_token_request;
use crate::error::ApiError;
use crate::json::Reading;
use crate::requests::Verb;
use crate::write::{Application, DeleteOptions, NewScale, Scope};

/// What pods are bound with.
const BINDING: (&str, &str) = ("v1", "Binding");
/// What is scaled with.
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

impl Call<'_> {
    /// Answers a write that is special; `None` where it is the writing of an object.
    pub(super) fn special(&self, scope: Scope<'_>, body: &[u8]) -> Result<Option<Answer>, ApiError> {
        let sub = self.route.subresource.as_deref();
        let kind = self.kind();
        match sub {
            Some("scale") => self.scale(scope, body),
            Some("binding") => self.typed(BINDING, body, |binding| self.binding(scope, self.name(), binding)),
            Some("eviction") => {
                self.typed(("policy/v1", "Eviction"), body, |eviction| self.eviction(scope, eviction))
            }
            Some("token") => self.typed(("authentication.k8s.io/v1", "TokenRequest"), body, |request| {
                self.token(scope, request)
            }),
            None if kind.is("", "Binding") => self.typed(BINDING, body, |binding| {
                let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.binding(scope, &name, binding)
            }),
            None if kind.traits.has(crate::kinds::Traits::REVIEW) => {
                self.typed((&kind.api_version, &kind.kind), body, |mut review| {
                    self.shared.own_review(kind, &mut review, self.scope().manager);
                    Ok(value(201, &self.shared.review(self.user, kind, review)?))
                })
            }
            _ => return Ok(None),
        }
        .map(Some)
    }

    fn scale(&self, scope: Scope<'_>, body: &[u8]) -> Result<Answer, ApiError> {
        let new = match self.route.verb {
            Verb::Patch if media_type(self.head) == APPLY => {
                let force = self.query.flag("force").unwrap_or_default();
                NewScale::Apply(Application::parse(body, force)?)
            }
            Verb::Patch => {
                // The scale is a type of its own, without lists that could be merged.
                let content_type = match media_type(self.head) {
                    "application/strategic-merge-patch+json" => "application/merge-patch+json",
                    other => other,
                };
                NewScale::Patch(self.patch(content_type, body)?)
            }
            _ => return self.typed(SCALE, body, |scale| self.write_scale(scope, &NewScale::Put(scale))),
        };
        let twice = match &new {
            NewScale::Patch(patch) if scope.validation.is_told() => patch.twice(body),
            _ => None,
        };
        self.write_scale(Scope { twice: twice.as_ref(), ..scope }, &new)
    }

    fn write_scale(&self, scope: Scope<'_>, new: &NewScale) -> Result<Answer, ApiError> {
        let (scale, warnings) = self.shared.write_scale(scope, self.name(), new)?;
        let mut answer = value(200, &scale);
        warn(&mut answer, &warnings);
        Ok(answer)
    }

    fn binding(&self, scope: Scope<'_>, name: &str, mut binding: Value) -> Result<Answer, ApiError> {
        if self.kind().is("", "Pod") {
            self.shared.label_binding(&mut binding);
        }
        let binding = reviewed(scope, binding, |binding| match binding["metadata"]["name"].as_str() {
            Some(given) if given == name => Ok(()),
            _ => Err(ApiError::bad_request("name in URL does not match name in Binding object")),
        })?;
        let pods = self.shared.resource(&informer_core::Gvr::new("", "v1", "pods"))?;
        self.shared.bind(Scope { resource: &pods, ..scope }, name, &binding)?;
        Ok(created())
    }

    fn eviction(&self, mut scope: Scope<'_>, eviction: Value) -> Result<Answer, ApiError> {
        let eviction = reviewed(scope, eviction, |_| Ok(()))?;
        let given = &eviction["deleteOptions"];
        let options = DeleteOptions::parse(self.query, Some(given).filter(|given| given.is_object()))?;
        scope.dry_run |= options.dry_run;
        // The deletion that follows is no request of its own.
        scope.admission = None;
        self.shared.evict(scope, self.name(), &eviction, &options)?;
        Ok(created())
    }

    fn token(&self, scope: Scope<'_>, request: Value) -> Result<Answer, ApiError> {
        let (shared, resource) = (self.shared, &self.route.resource);
        let account = shared.find(resource, self.route.namespace.as_deref(), self.name())?;
        let request = reviewed(scope, request, |request| check_token_request(&account, request))?;
        Ok(value(201, &shared.issue_token(&account, request, scope.dry_run)?))
    }

    /// Reads the object of a subresource or a review, holds it against its type, and does something with it.
    fn typed(
        &self,
        (api_version, kind): (&str, &str),
        body: &[u8],
        act: impl FnOnce(Value) -> Result<Answer, ApiError>,
    ) -> Result<Answer, ApiError> {
        let Reading { value: mut object, doubled } = self.object(body)?;
        let known = self.shared.schema.kind_by_api_version(api_version, kind);
        let (Some(known), Some(members)) = (known, object.as_object_mut()) else { return act(object) };
        let fitted = crate::typed::fit(known.message(), members);
        let twice = self.twice(Some(known), (body, doubled));
        let scope = Scope { twice: twice.as_ref(), ..self.scope() };
        let judged = fitted.and_then(|unknown| scope.judge(unknown));
        let warnings = judged.map_err(|why| self.undecodable(known, &why))?;
        match act(object) {
            Ok(mut answer) => {
                warn(&mut answer, &warnings);
                Ok(answer)
            }
            Err(error) => Err(error.warned(warnings)),
        }
    }

    fn undecodable(&self, known: Kind<'_>, why: &str) -> ApiError {
        let (kind, version) = (known.name(), known.version());
        ApiError::bad_request(match self.kind().is_custom() {
            // Upstream does not find the name of the type that it could not read.
            true => "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\""
                .to_owned(),
            false => format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"),
        })
    }
}

/// The object of a subresource, after webhooks have seen it.
/// In between it is checked.
fn reviewed(
    scope: Scope<'_>,
    object: Value,
    check: impl FnOnce(&Map<String, Value>) -> Result<(), ApiError>,
) -> Result<Value, ApiError> {
    let Value::Object(mut object) = object else { return Ok(object) };
    if let Some(namespace) = scope.namespace
        && let Some(metadata) = object.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
    {
        metadata.entry("namespace").or_insert_with(|| namespace.into());
    }
    scope.admit(Phase::Mutate, Some(&mut object), None)?;
    check(&object)?;
    scope.admit(Phase::Validate, Some(&mut object), None)?;
    Ok(Value::Object(object))
}

/// What is answered where nothing is to be shown.
fn created() -> Answer {
    value(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}
