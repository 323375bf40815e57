//! Writes to subresources that have their own type, such as `scale` or `binding`, and review requests.

use informer_schema::KindSchema;
use serde_json::{Map, Value, json};

use crate::admission::{Phase, Scope};
use crate::auth::{check_token_name, check_token_request};
use crate::http::accept::ResponseForm;
use crate::http::call::{APPLY, Call, media_type};
use crate::http::response::{ApiResponse, value, warn};
use crate::model::error::ApiError;
use crate::model::json::Reading;
use crate::model::kinds::Traits;
use crate::model::metadata::{BodyType, set_namespace};
use crate::pipeline::{Application, NewScale, check_eviction};
use crate::requests::Verb;

const BINDING: BodyType<'static> = BodyType { api_version: "v1", kind: "Binding" };
const SCALE: BodyType<'static> = BodyType { api_version: "autoscaling/v1", kind: "Scale" };
const EVICTION: BodyType<'static> = BodyType { api_version: "policy/v1", kind: "Eviction" };
const TOKEN_REQUEST: BodyType<'static> =
    BodyType { api_version: "authentication.k8s.io/v1", kind: "TokenRequest" };
/// The older version of [`EVICTION`], which kube-apiserver still accepts.
const OLD_EVICTION: &str = "policy/v1beta1";

impl Call<'_> {
    /// Returns false if the responses to the request have no `Table` representation.
    pub(crate) fn has_table(&self) -> bool {
        let kind = self.kind();
        let is_typed = matches!(self.route.subresource.as_deref(), Some("binding" | "eviction" | "token"));
        !is_typed && !kind.is("", "Binding") && !kind.traits.has(Traits::REVIEW)
    }

    /// Handles a review request, or a write to a subresource that has its own type. Returns `None` if the
    /// request writes the resource's own type.
    pub(crate) async fn write_special_subresource(
        &self,
        scope: Scope<'_>,
        form: ResponseForm,
        body: &[u8],
    ) -> Result<Option<ApiResponse>, ApiError> {
        let kind = self.kind();
        let of = match self.route.subresource.as_deref() {
            Some("scale") if self.route.verb == Verb::Patch => {
                return self.patch_scale(scope, form, body).await.map(Some);
            }
            Some("scale") => SCALE,
            Some("binding") => BINDING,
            Some("eviction") => EVICTION,
            Some("token") => TOKEN_REQUEST,
            None if kind.is("", "Binding") => BINDING,
            None if kind.traits.has(Traits::REVIEW) => BodyType::of(kind),
            _ => return Ok(None),
        };
        let (object, warnings) = self.decode_typed(of, body)?;
        match self.write_typed_object(scope, form, object).await {
            Ok(mut response) => {
                warn(&mut response, &warnings);
                Ok(Some(response))
            }
            Err(error) => Err(error.warned(warnings)),
        }
    }

    async fn write_typed_object(
        &self,
        scope: Scope<'_>,
        form: ResponseForm,
        mut object: Value,
    ) -> Result<ApiResponse, ApiError> {
        let kind = self.kind();
        match self.route.subresource.as_deref() {
            Some("scale") => self.write_scale(scope, form, &NewScale::Put(object)).await,
            Some("binding") => self.binding(scope, self.name(), object).await,
            Some("eviction") => self.eviction(scope, object).await,
            Some("token") => self.token(scope, form, object).await,
            _ if kind.is("", "Binding") => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.binding(scope, &name, object).await
            }
            _ => {
                self.shared.set_review_managers(kind, &mut object, self.scope().manager);
                Ok(value(201, &form.render(self.shared.review(self.user, kind, object)?)))
            }
        }
    }

    async fn patch_scale(
        &self,
        scope: Scope<'_>,
        form: ResponseForm,
        body: &[u8],
    ) -> Result<ApiResponse, ApiError> {
        if media_type(self.head) == APPLY {
            let force = self.query.flag("force").unwrap_or_default();
            let apply = NewScale::Apply(Application::parse(body, force)?);
            return self.write_scale(scope, form, &apply).await;
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
        self.write_scale(scope, form, &NewScale::Patch(patch)).await
    }

    async fn write_scale(
        &self,
        scope: Scope<'_>,
        form: ResponseForm,
        new: &NewScale,
    ) -> Result<ApiResponse, ApiError> {
        let (scale, warnings) = self.shared.write_scale(scope, self.name(), new).await?;
        let mut response = value(200, &form.render(scale));
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
        let check = |binding: &Map<String, Value>| {
            // A webhook may have removed the metadata.
            match binding.get("metadata").and_then(|metadata| metadata["name"].as_str()) {
                Some(given) if given == name => Ok(()),
                _ => Err(ApiError::bad_request("name in URL does not match name in Binding object")),
            }
        };
        let binding = self.admit_subresource(scope, binding, check).await?;
        let pods = self.shared.resource(&informer_core::Gvr::new("", "v1", "pods"))?;
        self.shared.bind(Scope { resource: &pods, ..scope }, name, &binding).await?;
        Ok(created())
    }

    async fn eviction(&self, mut scope: Scope<'_>, eviction: Value) -> Result<ApiResponse, ApiError> {
        let check = |eviction: &Map<String, Value>| check_eviction(self.name(), eviction, scope.dry_run);
        let eviction = self.admit_subresource(scope, eviction, check).await?;
        // An eviction is admitted once. The delete that it causes does not run admission again.
        scope.admission = None;
        self.shared.evict(scope, self.name(), &eviction).await?;
        Ok(created())
    }

    async fn token(
        &self,
        scope: Scope<'_>,
        form: ResponseForm,
        request: Value,
    ) -> Result<ApiResponse, ApiError> {
        let find = || self.shared.find(&self.route.resource, self.route.namespace.as_deref(), self.name());
        let check = |request: &Map<String, Value>| {
            check_token_name(self.name(), request)?;
            check_token_request(&*find()?, request)
        };
        let request = self.admit_subresource(scope, request, check).await?;
        let issued = self.shared.issue_token(&*find()?, request, scope.dry_run)?;
        Ok(value(201, &form.render(issued)))
    }

    /// Decodes the object in a request body. Also returns the warnings about unknown and duplicate fields.
    fn decode_typed(&self, of: BodyType<'_>, body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
        let Reading { value: mut object, doubled } = self.object_of(of, body)?;
        let known = self.shared.schema.kind_by_api_version(of.api_version, of.kind);
        let (Some(known), Some(members)) = (known, object.as_object_mut()) else {
            return Ok((object, Vec::new()));
        };
        if of.kind == EVICTION.kind
            && members.get("apiVersion").is_some_and(|version| version == OLD_EVICTION)
        {
            members.insert("apiVersion".to_owned(), EVICTION.api_version.into());
        }
        if !self.kind().is_custom() {
            of.check(&self.shared.schema, members)?;
        }
        let fitted = crate::model::typed::fit(known.message(), members);
        let twice = self.find_duplicates(Some(known), (body, doubled));
        let scope = Scope { twice: twice.as_ref(), ..self.scope() };
        let validated = fitted.and_then(|unknown| scope.check_fields(unknown));
        let warnings = validated.map_err(|why| self.decode_error(known, &why))?;
        let is_set = set_namespace(self.route.namespace.as_deref(), members);
        is_set.map_err(|error| error.warned(warnings.clone()))?;
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
