//! Writes to subresources that have their own type, such as `scale` or `binding`, and review requests.

use informer_schema::KindSchema;
use serde_json::{Map, Value, json};

use crate::admission::{Phase, Scope};
use crate::auth::check_token_request;
use crate::http::call::{APPLY, Call, media_type};
use crate::http::response::{ApiResponse, value, warn};
use crate::model::error::ApiError;
use crate::model::json::Reading;
use crate::pipeline::{Application, DeleteOptions, NewScale};
use crate::requests::Verb;

const BINDING: (&str, &str) = ("v1", "Binding");
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

impl Call<'_> {
    /// Handles a review request, or a write to a subresource that has its own type. Returns `None` if the
    /// request writes the resource's own type.
    pub(crate) async fn write_special_subresource(
        &self,
        scope: Scope<'_>,
        body: &[u8],
    ) -> Result<Option<ApiResponse>, ApiError> {
        let kind = self.kind();
        let of = match self.route.subresource.as_deref() {
            Some("scale") if self.route.verb == Verb::Patch => {
                return self.patch_scale(scope, body).await.map(Some);
            }
            Some("scale") => SCALE,
            Some("binding") => BINDING,
            Some("eviction") => ("policy/v1", "Eviction"),
            Some("token") => ("authentication.k8s.io/v1", "TokenRequest"),
            None if kind.is("", "Binding") => BINDING,
            None if kind.traits.has(crate::model::kinds::Traits::REVIEW) => (&*kind.api_version, &*kind.kind),
            _ => return Ok(None),
        };
        let (object, warnings) = self.decode_typed(of, body)?;
        match self.write_typed_object(scope, object).await {
            Ok(mut response) => {
                warn(&mut response, &warnings);
                Ok(Some(response))
            }
            Err(error) => Err(error.warned(warnings)),
        }
    }

    async fn write_typed_object(&self, scope: Scope<'_>, mut object: Value) -> Result<ApiResponse, ApiError> {
        let kind = self.kind();
        match self.route.subresource.as_deref() {
            Some("scale") => self.write_scale(scope, &NewScale::Put(object)).await,
            Some("binding") => self.binding(scope, self.name(), object).await,
            Some("eviction") => self.eviction(scope, object).await,
            Some("token") => self.token(scope, object).await,
            _ if kind.is("", "Binding") => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.binding(scope, &name, object).await
            }
            _ => {
                self.shared.set_review_managers(kind, &mut object, self.scope().manager);
                Ok(value(201, &self.shared.review(self.user, kind, object)?))
            }
        }
    }

    async fn patch_scale(&self, scope: Scope<'_>, body: &[u8]) -> Result<ApiResponse, ApiError> {
        if media_type(self.head) == APPLY {
            let force = self.query.flag("force").unwrap_or_default();
            let apply = NewScale::Apply(Application::parse(body, force)?);
            return self.write_scale(scope, &apply).await;
        }
        // A Scale has no lists with merge keys, so for it a strategic merge patch has the same effect as a
        // merge patch.
        let content_type = match media_type(self.head) {
            "application/strategic-merge-patch+json" => "application/merge-patch+json",
            other => other,
        };
        let patch = self.patch(content_type, body)?;
        let twice = patch.twice(body).filter(|_| scope.validation.is_reported());
        let scope = Scope { twice: twice.as_ref(), ..scope };
        self.write_scale(scope, &NewScale::Patch(patch)).await
    }

    async fn write_scale(&self, scope: Scope<'_>, new: &NewScale) -> Result<ApiResponse, ApiError> {
        let (scale, warnings) = self.shared.write_scale(scope, self.name(), new).await?;
        let mut response = value(200, &scale);
        warn(&mut response, &warnings);
        Ok(response)
    }

    async fn binding(
        &self,
        scope: Scope<'_>,
        name: &str,
        mut binding: Value,
    ) -> Result<ApiResponse, ApiError> {
        if self.kind().is("", "Pod") {
            self.shared.label_binding(&mut binding);
        }
        let check = |binding: &Map<String, Value>| match binding["metadata"]["name"].as_str() {
            Some(given) if given == name => Ok(()),
            _ => Err(ApiError::bad_request("name in URL does not match name in Binding object")),
        };
        let binding = self.admit_subresource(scope, binding, check).await?;
        let pods = self.shared.resource(&informer_core::Gvr::new("", "v1", "pods"))?;
        self.shared.bind(Scope { resource: &pods, ..scope }, name, &binding)?;
        Ok(created())
    }

    async fn eviction(&self, mut scope: Scope<'_>, eviction: Value) -> Result<ApiResponse, ApiError> {
        let eviction = self.admit_subresource(scope, eviction, |_| Ok(())).await?;
        let given = &eviction["deleteOptions"];
        let options = DeleteOptions::parse(self.query, Some(given).filter(|given| given.is_object()))?;
        scope.dry_run |= options.dry_run;
        // An eviction is admitted once. The delete that it causes does not run admission again.
        scope.admission = None;
        self.shared.evict(scope, self.name(), &eviction, &options).await?;
        Ok(created())
    }

    async fn token(&self, scope: Scope<'_>, request: Value) -> Result<ApiResponse, ApiError> {
        let (shared, resource) = (self.shared, &self.route.resource);
        let account = shared.find(resource, self.route.namespace.as_deref(), self.name())?;
        let check = |request: &Map<String, Value>| check_token_request(&account, request);
        let request = self.admit_subresource(scope, request, check).await?;
        Ok(value(201, &shared.issue_token(&account, request, scope.dry_run)?))
    }

    /// Decodes the object in a request body. Also returns the warnings about unknown and duplicate fields.
    fn decode_typed(
        &self,
        (api_version, kind): (&str, &str),
        body: &[u8],
    ) -> Result<(Value, Vec<String>), ApiError> {
        let Reading { value: mut object, doubled } = self.object(body)?;
        let known = self.shared.schema.kind_by_api_version(api_version, kind);
        let (Some(known), Some(members)) = (known, object.as_object_mut()) else {
            return Ok((object, Vec::new()));
        };
        let fitted = crate::model::typed::fit(known.message(), members);
        let twice = self.find_duplicates(Some(known), (body, doubled));
        let scope = Scope { twice: twice.as_ref(), ..self.scope() };
        let validated = fitted.and_then(|unknown| scope.check_fields(unknown));
        let warnings = validated.map_err(|why| self.decode_error(known, &why))?;
        Ok((object, warnings))
    }

    /// Runs admission for the object in a subresource write: the mutating phase, then `check`, then the
    /// validating phase.
    async fn admit_subresource(
        &self,
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
        self.shared.admit(scope, Phase::Mutate, Some(&mut object), None).await?;
        check(&object)?;
        self.shared.admit(scope, Phase::Validate, Some(&mut object), None).await?;
        Ok(Value::Object(object))
    }

    fn decode_error(&self, known: KindSchema<'_>, why: &str) -> ApiError {
        let (kind, version) = (known.name(), known.version());
        ApiError::bad_request(if self.kind().is_custom() {
            // For an unregistered type, kube-apiserver reports this message instead of the decoding error.
            "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"".to_owned()
        } else {
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
        })
    }
}

fn created() -> ApiResponse {
    value(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}
