//! Writes that are not the writing of one object: subresources with a shape of their own, and reviews.

use serde_json::{Map, Value, json};

use super::answer::{Answer, value};
use super::call::{APPLY, Call, media_type};
use crate::admission::Phase;
use crate::auth::check_token_request;
use crate::error::ApiError;
use crate::requests::Verb;
use crate::write::{Application, DeleteOptions, NewScale, PatchType, Scope};

impl Call<'_> {
    /// Answers a write that is special; `None` where it is the writing of an object.
    pub(super) fn special(&self, scope: Scope<'_>, body: &[u8]) -> Result<Option<Answer>, ApiError> {
        let sub = self.route.subresource.as_deref();
        match sub {
            Some("scale") => self.scale(scope, body).map(Some),
            Some("binding") => self.binding(scope, self.name(), self.object(body)?).map(Some),
            Some("eviction") => self.eviction(scope, self.object(body)?).map(Some),
            Some("token") => self.token(scope, self.object(body)?).map(Some),
            None if self.kind().is("", "Binding") => {
                let binding = self.object(body)?;
                let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.binding(scope, &name, binding).map(Some)
            }
            None if self.kind().traits.has(crate::kinds::Traits::REVIEW) => {
                let mut review = self.object(body)?;
                self.shared.own_review(self.kind(), &mut review, self.scope().manager);
                let review = self.shared.review(self.user, self.kind(), review)?;
                Ok(Some(value(201, &review)))
            }
            _ => Ok(None),
        }
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
                NewScale::Patch(PatchType::parse(content_type, self.kind(), body)?)
            }
            _ => NewScale::Put(self.typed("autoscaling.v1.Scale", self.object(body)?)?),
        };
        Ok(value(200, &self.shared.write_scale(scope, self.name(), &new)?))
    }

    fn binding(&self, scope: Scope<'_>, name: &str, binding: Value) -> Result<Answer, ApiError> {
        let binding = self.typed("core.v1.Binding", binding)?;
        let binding = reviewed(scope, binding, |binding| match binding["metadata"]["name"].as_str() {
            Some(given) if given == name => Ok(()),
            _ => Err(ApiError::bad_request("name in URL does not match name in Binding object")),
        })?;
        let pods = self.shared.resource(&informer_core::Gvr::new("", "v1", "pods"))?;
        self.shared.bind(Scope { resource: &pods, ..scope }, name, &binding)?;
        Ok(created())
    }

    fn eviction(&self, mut scope: Scope<'_>, eviction: Value) -> Result<Answer, ApiError> {
        let eviction = self.typed("policy.v1.Eviction", eviction)?;
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
        let request = self.typed("authentication.v1.TokenRequest", request)?;
        let (shared, resource) = (self.shared, &self.route.resource);
        let account = shared.find(resource, self.route.namespace.as_deref(), self.name())?;
        let request = reviewed(scope, request, |request| check_token_request(&account, request))?;
        Ok(value(201, &shared.issue_token(&account, request, scope.dry_run)?))
    }

    /// The object of a subresource, held against its type.
    fn typed(&self, message: &str, mut object: Value) -> Result<Value, ApiError> {
        if let (Some(known), Some(members)) = (self.shared.schema.message(message), object.as_object_mut()) {
            crate::typed::fit(known, members).map_err(|why| {
                let kind = message.rsplit('.').next().unwrap_or_default();
                ApiError::bad_request(format!(
                    "{kind} in version \"v1\" cannot be handled as a {kind}: {why}"
                ))
            })?;
        }
        Ok(object)
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
