//! Writes that are not the writing of one object: subresources with a shape of their own, and reviews.

use serde_json::{Value, json};

use super::answer::{Answer, value};
use super::call::{Call, media_type};
use crate::error::ApiError;
use crate::requests::Verb;
use crate::write::{DeleteOptions, NewScale, PatchType};

impl Call<'_> {
    /// Answers a write that is special; `None` where it is the writing of an object.
    pub(super) fn special(&self, body: &[u8]) -> Result<Option<Answer>, ApiError> {
        let sub = self.route.subresource.as_deref();
        match sub {
            Some("scale") => self.scale(body).map(Some),
            Some("binding") => self.binding(self.name(), &self.object(body)?).map(Some),
            Some("eviction") => self.eviction(&self.object(body)?).map(Some),
            Some("token") => self.token(self.object(body)?).map(Some),
            None if self.kind().is("", "Binding") => {
                let binding = self.object(body)?;
                let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.binding(&name, &binding).map(Some)
            }
            None if self.kind().traits.has(crate::kinds::Traits::REVIEW) => {
                let review = self.shared.review(self.user, self.kind(), self.object(body)?)?;
                Ok(Some(value(201, &review)))
            }
            _ => Ok(None),
        }
    }

    fn scale(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let new = match self.route.verb {
            Verb::Patch => {
                // The scale is a type of its own, without lists that could be merged.
                let content_type = match media_type(self.head) {
                    "application/strategic-merge-patch+json" => "application/merge-patch+json",
                    other => other,
                };
                NewScale::Patch(PatchType::parse(content_type, self.kind(), body)?)
            }
            _ => NewScale::Put(self.object(body)?),
        };
        Ok(value(200, &self.shared.write_scale(self.scope(), self.name(), &new)?))
    }

    fn binding(&self, name: &str, binding: &Value) -> Result<Answer, ApiError> {
        let pods = self.shared.resource(&informer_core::Gvr::new("", "v1", "pods"))?;
        let mut scope = self.scope();
        scope.resource = &pods;
        self.shared.bind(scope, name, binding)?;
        Ok(created())
    }

    fn eviction(&self, eviction: &Value) -> Result<Answer, ApiError> {
        let given = &eviction["deleteOptions"];
        let options = DeleteOptions::parse(self.query, Some(given).filter(|given| given.is_object()))?;
        let mut scope = self.scope();
        scope.dry_run |= options.dry_run;
        self.shared.evict(scope, self.name(), eviction, &options)?;
        Ok(created())
    }

    fn token(&self, request: Value) -> Result<Answer, ApiError> {
        let (shared, resource) = (self.shared, &self.route.resource);
        let account = shared.find(resource, self.route.namespace.as_deref(), self.name())?;
        Ok(value(201, &shared.issue_token(&account, request, self.scope().dry_run)?))
    }
}

/// What is answered where nothing is to be shown.
fn created() -> Answer {
    value(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}
