//! Runs a request to a resource, with one method for each verb.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::admission::Scope;
use crate::auth::Requester;
use crate::faults::{BodyPosition, Plan};
use crate::http::accept::{Encoding, ResponseForm, Wants, negotiate};
use crate::http::body::BrokenOff;
use crate::http::headers::header;
use crate::http::query::ListOptions;
use crate::http::response::{
    self, ApiResponse, frame_events, json, object_bytes, protobuf, protobuf_list, streamed,
    streamed_protobuf, value, warn, with_warnings, written_bytes,
};
use crate::http::route::ResourceRoute;
use crate::http::watch::{WatchDriver, WatchRequest};
use crate::http::watch_faults::{FaultyWatch, Framing};
use crate::http::{Frontend, list, options};
use crate::model::duplicates::DuplicateKeys;
use crate::model::error::{ApiError, MAX_BODY_BYTES};
use crate::model::json::{Reading, excerpt, parse, read_json, read_whole};
use crate::model::kinds::{KindDefinition, Subresource};
use crate::model::metadata::{BodyType, parse_version};
use crate::model::query::Query;
use crate::model::user::User;
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::{Application, DeleteOptions, PatchType, Written};
use crate::registry::select::Filter;
use crate::registry::storage::{EventType, ObjectForm, Stored};
use crate::requests::Verb;

pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Frontend>,
    pub(crate) head: &'a request::Parts,
    pub(crate) query: &'a Query,
    pub(crate) user: &'a User,
    pub(crate) route: ResourceRoute,
}

impl Call<'_> {
    pub(crate) fn kind(&self) -> &KindDefinition {
        &self.route.resource.kind
    }

    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            resource: &self.route.resource,
            namespace: self.route.namespace.as_deref(),
            dry_run: self.query.text("dryRun") == "All",
            validation: FieldValidation::of_parameter(self.query.text("fieldValidation")),
            admission: None,
            conversion: false,
            manager: Some(self.manager()),
            requester: Some(Requester {
                user: self.user,
                name: Some(self.name()).filter(|_| self.route.verb != Verb::Create),
            }),
            twice: None,
            scales: false,
        }
    }

    /// Returns the field manager of the request: the query parameter `fieldManager`, or else the first part
    /// of the `User-Agent` header.
    fn manager(&self) -> &str {
        let given = self.query.text("fieldManager");
        if !given.is_empty() {
            return given;
        }
        let agent = header(self.head, USER_AGENT).split('/').next().unwrap_or_default();
        let end = agent.len().min(options::MAX_MANAGER_BYTES);
        // A header string is ASCII, so the end of the slice never splits a character.
        agent.get(..end).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.route.name.as_deref().unwrap_or_default()
    }

    fn mode(&self) -> WriteMode {
        match self.route.subresource.as_deref() {
            None => WriteMode::Main,
            Some("finalize") => WriteMode::Finalize,
            Some("ephemeralcontainers") => WriteMode::EphemeralContainers,
            Some("resize") => WriteMode::Resize,
            Some("approval") => WriteMode::Approval,
            Some(_) => WriteMode::Status,
        }
    }

    fn negotiate(&self, wants: Wants) -> Result<(ResponseForm, Encoding), ApiError> {
        let include_object = Some(self.query.text("includeObject")).filter(|_| self.has_table());
        negotiate(self.head, wants, self.kind(), include_object)
    }

    pub(crate) async fn run<B>(self, plan: Plan, body: B) -> Result<(ApiResponse, Encoding), ApiError>
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(sub) = self.route.subresource.as_deref().filter(|sub| Subresource::is_forwarded(sub)) {
            return self.respond_without_kubelet(sub).await.map(|response| (response, Encoding::Json));
        }
        let expired = plan.watch_faults.iter().any(|(_, fault)| *fault == crate::faults::WatchFault::Expire);
        if plan.too_large && self.route.verb != Verb::Watch {
            return Err(ApiError::too_large(u64::MAX, self.shared.storage.read().version()));
        }
        if expired && self.route.verb != Verb::Watch {
            return Err(self.expired());
        }
        match self.route.verb {
            Verb::List => self.list(&plan).await,
            Verb::Watch => self.watch(plan).await,
            Verb::Get => self.get(&plan).await,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                self.write(&collect(body).await?).await
            }
            Verb::Other => Err(ApiError::unknown_path()),
        }
    }

    /// Returns the 410 error for an expired list. If the request has a continue token, the error contains a
    /// new token, which continues at the current resourceVersion.
    fn expired(&self) -> ApiError {
        match self.query.text("continue") {
            "" => ApiError::list_too_old(),
            token => list::expired_token(token).unwrap_or_else(|error| error),
        }
    }

    fn filter(&self, options: &ListOptions) -> Result<Filter, ApiError> {
        let namespace = self.route.namespace.as_deref();
        let filter = Filter::parse(self.kind(), namespace, &options.labels, &options.fields)?;
        Ok(if self.route.legacy_watch {
            self.route.name.as_deref().map_or(filter.clone(), |name| filter.clone().named(name))
        } else {
            filter
        })
    }

    async fn list(self, plan: &Plan) -> Result<(ApiResponse, Encoding), ApiError> {
        let (shape, encoding) = self.negotiate(Wants::List)?;
        let mut options = ListOptions::parse(self.query)?;
        plan.page.apply_to(&mut options);
        let filter = self.filter(&options)?;
        let page = list::list(self.shared, &self.route.resource, &filter, &options, plan.rewind).await?;
        let page = page.with_faults(&plan.page, &options);
        let form = match shape {
            ResponseForm::Form(form) => form,
            ResponseForm::Table(form) => {
                let table = page.table(self.kind(), form, self.shared.clock.timestamp());
                return Ok((value(200, &table), encoding));
            }
        };
        let mut page = page;
        // The encodings of whole objects are cached. A list of metadata is sent as JSON, which
        // [`response::transcode`] encodes.
        if encoding == Encoding::Protobuf && form == ObjectForm::Object {
            match page.into_wire_batches(self.kind(), self.shared.wiring()).await {
                Ok(batches) => return Ok((protobuf_list(Box::new(batches)), encoding)),
                // If one item has no protobuf encoding, the server sends the whole list as JSON.
                Err(same) => page = same,
            }
        }
        let mut batches = page.into_batches(self.kind(), form);
        let first = batches.next().unwrap_or_default();
        let response = match batches.next() {
            None => json(200, first.into_bytes()),
            Some(second) => response::list(Box::new([first, second].into_iter().chain(batches))),
        };
        Ok((response, encoding))
    }

    async fn watch(self, plan: Plan) -> Result<(ApiResponse, Encoding), ApiError> {
        let (shape, encoding) = self.negotiate(Wants::Watch)?;
        let options = ListOptions::parse(self.query)?;
        let filter = self.filter(&options)?;
        if plan.reject_initial && options.initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            let cause = crate::model::cause::Cause::forbidden("sendInitialEvents", why);
            return Err(ApiError::invalid_options("ListOptions", vec![cause]));
        }
        let (form, table) = match shape {
            ResponseForm::Form(form) => (form, None),
            ResponseForm::Table(table) => (ObjectForm::Object, Some(table)),
        };
        let request = WatchRequest {
            resource: &self.route.resource,
            filter,
            form,
            table,
            protobuf: encoding == Encoding::Protobuf,
            options: &options,
            rewind: plan.rewind,
            ignore_initial: plan.ignore_initial,
        };
        let mut driver = WatchDriver::start(self.shared, request).await?;
        driver.coalesce = plan.may_coalesce_events() && table.is_none();
        if plan.too_large {
            driver.fail(ApiError::too_large(u64::MAX, self.shared.storage.read().version()));
        }
        if let Some(lifetime) = plan.lifetime {
            driver.end_within(lifetime);
        }
        if let Some(seed) = plan.shuffle {
            driver.shuffle_initial(seed);
        }
        let end = plan.body_end.filter(|(point, _)| matches!(point, BodyPosition::Events(_)));
        let framing = (encoding == Encoding::Protobuf).then(|| {
            let shared = Arc::clone(self.shared);
            Box::new(move |lines: &Bytes| frame_events(&shared.schema, lines)) as Framing
        });
        let watch = FaultyWatch::new(driver, plan, end).with_framing(framing);
        let stream = stream::unfold(watch, |mut watch| async move {
            let item: Result<Bytes, BrokenOff> = watch.next().await?;
            Some((item, watch))
        });
        let streamed = if encoding == Encoding::Protobuf { streamed_protobuf } else { streamed };
        Ok((streamed(stream.boxed()), encoding))
    }

    async fn get(self, plan: &Plan) -> Result<(ApiResponse, Encoding), ApiError> {
        let (shape, encoding) = self.negotiate(Wants::Item)?;
        let requested = parse_version(self.query.text("resourceVersion"))
            .map_err(|message| ApiError::new(500, "", message))?;
        if let Some(version) = requested {
            self.shared.reach(version).await?;
        }
        let stored = match plan.rewind {
            0 => self.shared.find(&self.route.resource, self.route.namespace.as_deref(), self.name())?,
            by => self.find_rewound(by)?,
        };
        let resource = &self.route.resource;
        // A GET without a resourceVersion converts the object again, because kube-apiserver reads it from
        // etcd and not from the watch cache.
        let stored = match requested {
            None => self.shared.present_from_webhook(resource, &stored).await?,
            Some(_) => {
                let mut shown = self.shared.presented(resource, &[stored], EventType::Modified).await?;
                shown.remove(0)
            }
        };
        if self.route.subresource.as_deref() == Some("scale") {
            let scale = self.shared.scale_of(self.kind(), &stored)?;
            return Ok((value(200, &shape.render(scale)), encoding));
        }
        let response = match shape {
            ResponseForm::Form(form) => self.object_response(200, &stored, form, encoding),
            ResponseForm::Table(form) => {
                value(200, &form.of_one(self.kind(), &stored, self.shared.clock.timestamp()))
            }
        };
        Ok((response, encoding))
    }

    /// Responds with one object. The encoding is protobuf if the client accepts it and the object has one,
    /// else JSON.
    fn object_response(
        &self,
        status: u16,
        stored: &Stored,
        form: ObjectForm,
        encoding: Encoding,
    ) -> ApiResponse {
        let wanted = encoding == Encoding::Protobuf && form == ObjectForm::Object;
        match wanted.then(|| stored.wire(self.shared.wiring())).flatten() {
            Some(wire) => protobuf(status, wire.object()),
            None => json(status, object_bytes(stored, form)),
        }
    }

    /// Returns the object as it was `by` resourceVersions ago, for an injected fault.
    fn find_rewound(&self, by: u64) -> Result<Arc<Stored>, ApiError> {
        let storage = self.shared.storage.read();
        let table = self.route.resource.table;
        let version = storage.version().saturating_sub(by).max(storage.floor(table));
        let map = storage.at(table, version).map_err(|_| ApiError::list_too_old())?;
        let namespace =
            self.route.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
        let found = map.get(&format!("{namespace}{}", self.name())).cloned();
        found.ok_or_else(|| ApiError::not_found(self.kind(), self.name()))
    }

    /// Runs a write, and then the controllers, even if the client cancels the request. Repeats the write
    /// after a 409 if the CRD has changed in the meantime.
    async fn write(mut self, body: &[u8]) -> Result<(ApiResponse, Encoding), ApiError> {
        let _controllers = RunControllers(self.shared);
        loop {
            match self.try_write(body).await {
                Err(error) if error.code == 409 && self.reload_resource() => {}
                done => return done,
            }
        }
    }

    /// Looks the requested resource up in the registry again. Returns false if it was removed or has not
    /// changed.
    fn reload_resource(&mut self) -> bool {
        let Ok(now) = self.shared.resource(self.kind().gvr()) else { return false };
        !Arc::ptr_eq(&std::mem::replace(&mut self.route.resource, Arc::clone(&now)), &now)
    }

    async fn try_write(&self, body: &[u8]) -> Result<(ApiResponse, Encoding), ApiError> {
        let deletes_collection = self.route.verb == Verb::DeleteCollection;
        let (shape, encoding) = self.negotiate(if deletes_collection { Wants::List } else { Wants::Item })?;
        if deletes_collection || self.route.verb == Verb::Delete {
            return Ok((self.delete(shape, body).await?, encoding));
        }
        options::check_write(self.query, self.route.verb, media_type(self.head))?;
        let admission = self.admission(body, || self.write_options());
        let scope = self.scope().admitted_by(admission.as_ref());
        let written = self.write_once(scope, body, (shape, encoding)).await;
        Ok((with_warnings(written, admission.as_ref())?, encoding))
    }

    async fn write_once(
        &self,
        scope: Scope<'_>,
        body: &[u8],
        wants: (ResponseForm, Encoding),
    ) -> Result<ApiResponse, ApiError> {
        if let Some(response) = self.write_special_subresource(scope, wants.0, body).await? {
            return Ok(response);
        }
        let shared = self.shared;
        let written = match self.route.verb {
            Verb::Create | Verb::Update => {
                let Reading { value: object, doubled } = self.object(body)?;
                let kind = self.kind();
                let known = shared.schema.kind_by_api_version(&kind.api_version, &kind.kind);
                let twice = self.find_duplicates(known.filter(|_| !kind.is_custom()), (body, doubled));
                let scope = Scope { twice: twice.as_ref(), ..scope };
                match self.route.verb {
                    Verb::Create => shared.create(scope, object, self.mode()).await?,
                    _ => shared.update(scope, self.name(), object, self.mode()).await?,
                }
            }
            _ if media_type(self.head) == APPLY => {
                let apply = Application::parse(body, self.query.flag("force").unwrap_or_default())?;
                shared.apply(scope, self.name(), &apply, self.mode()).await?
            }
            _ => {
                let patch = self.patch(media_type(self.head), body)?;
                let twice = patch.twice(body).filter(|_| scope.validation.is_reported());
                let scope = Scope { twice: twice.as_ref(), ..scope };
                shared.patch(scope, self.name(), &patch, self.mode()).await?
            }
        };
        let mut response = self.write_response(&written, wants);
        warn(&mut response, &written.warnings);
        Ok(response)
    }

    /// Parses the patch in the request body. For a malformed patch the error is a 404 if the object does not
    /// exist.
    pub(crate) fn patch(&self, content_type: &str, body: &[u8]) -> Result<PatchType, ApiError> {
        let report_duplicates = self.scope().validation.is_reported();
        PatchType::parse(content_type, self.kind(), body, report_duplicates).or_else(|error| {
            if error.reason() != "UnsupportedMediaType" {
                self.shared.find(&self.route.resource, self.route.namespace.as_deref(), self.name())?;
            }
            Err(error)
        })
    }

    /// Finds the duplicate keys of the request body if `fieldValidation` requires it.
    pub(crate) fn find_duplicates(
        &self,
        known: Option<informer_schema::KindSchema<'_>>,
        (body, doubled): (&[u8], bool),
    ) -> Option<DuplicateKeys> {
        match media_type(self.head) {
            _ if !self.scope().validation.is_reported() => None,
            "application/json" | "" => doubled.then(|| DuplicateKeys::in_json(known, body)).flatten(),
            "application/yaml" => DuplicateKeys::in_yaml(body),
            _ => None,
        }
    }

    fn write_response(&self, written: &Written, (shape, encoding): (ResponseForm, Encoding)) -> ApiResponse {
        let status = if written.created { 201 } else { 200 };
        match (shape, &written.stored) {
            (ResponseForm::Form(form), Some(stored)) => self.object_response(status, stored, form, encoding),
            (ResponseForm::Form(form), None) => json(status, written_bytes(written, form)),
            (ResponseForm::Table(form), Some(stored)) => {
                value(status, &form.of_one(self.kind(), stored, self.shared.clock.timestamp()))
            }
            (ResponseForm::Table(_), None) => json(status, written_bytes(written, ObjectForm::Object)),
        }
    }

    async fn delete(&self, shape: ResponseForm, body: &[u8]) -> Result<ApiResponse, ApiError> {
        let given = if body.is_empty() {
            None
        } else {
            let given = self.decode(body).and_then(require_object).map(|reading| reading.value);
            Some(options::delete_body(given.map_err(|why| match why {
                DecodeError::Syntax(why) => {
                    ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
                }
                DecodeError::Yaml(why) => ApiError::bad_request(format!("yaml: {why}")),
                DecodeError::MediaType => unsupported_body(),
                DecodeError::NotProtobuf | DecodeError::InvalidProtobuf => {
                    ApiError::bad_request("unexpected EOF")
                }
            })?)?)
        };
        let options = DeleteOptions::parse(self.query, given.as_ref())?;
        let mut scope = self.scope();
        scope.dry_run = options.dry_run;
        let review_options = || options.to_admission_options(given.as_ref());
        if self.route.verb == Verb::Delete {
            let admission = self.admission(&[], review_options);
            let scope = scope.admitted_by(admission.as_ref());
            let deleted = self.shared.delete(scope, self.name(), &options).await;
            let response = deleted.map(|deleted| {
                let status = if deleted.accepted { 202 } else { 200 };
                let only_metadata = shape == ResponseForm::Form(ObjectForm::Metadata);
                match only_metadata.then(|| parse(&deleted.body)).filter(|object| object["kind"] != "Status")
                {
                    Some(object) => value(status, &shape.render(object)),
                    None => json(status, deleted.body),
                }
            });
            return with_warnings(response, admission.as_ref());
        }
        let filter = self.filter(&ListOptions::parse(self.query)?)?;
        let page = list::list_all(self.shared, &self.route.resource, &filter).await?;
        for stored in &page.items {
            let admission = self.admission(&[], review_options);
            let scope = scope.admitted_by(admission.as_ref());
            match self.shared.delete(scope, stored.key.name(), &options).await {
                Err(error) if error.code != 404 => {
                    let warnings = admission.map(|admission| admission.warnings()).unwrap_or_default();
                    return Err(error.warned(warnings));
                }
                _ => {}
            }
        }
        let form = match shape {
            ResponseForm::Form(form) => form,
            ResponseForm::Table(_) => ObjectForm::Object,
        };
        Ok(response::list(Box::new(page.into_batches(self.kind(), form))))
    }

    /// Decodes a request body (JSON, YAML or protobuf). Only the JSON decoder sets `Reading::doubled`.
    fn decode(&self, body: &[u8]) -> Result<Reading, DecodeError> {
        let once = |value| Reading { value, doubled: false };
        match media_type(self.head) {
            "application/json" => read_whole(body).map_err(DecodeError::Syntax),
            "" if header(self.head, CONTENT_TYPE).is_empty() => read_whole(body).map_err(DecodeError::Syntax),
            "application/yaml" => crate::model::yaml::read_yaml_value(body)
                .map(once)
                .map_err(|error| DecodeError::Yaml(crate::model::yaml::problem(body, &error))),
            "application/vnd.kubernetes.protobuf" => self.read_protobuf(body).map(once),
            _ => Err(DecodeError::MediaType),
        }
    }

    fn read_protobuf(&self, body: &[u8]) -> Result<Value, DecodeError> {
        if !body.starts_with(&informer_schema::MAGIC) {
            return Err(DecodeError::NotProtobuf);
        }
        let json = self.shared.schema.to_json(body).map_err(|_| DecodeError::InvalidProtobuf)?;
        read_json(&json).map_err(|_| DecodeError::InvalidProtobuf)
    }

    pub(crate) fn object(&self, body: &[u8]) -> Result<Reading, ApiError> {
        self.object_of(BodyType::of(self.kind()), body)
    }

    /// Decodes a request body that must contain an object of the type `of`.
    pub(crate) fn object_of(&self, of: BodyType<'_>, body: &[u8]) -> Result<Reading, ApiError> {
        let (kind, version) = (of.kind, of.version());
        let unrecognized = |why: String| {
            let message = format!("the object provided is unrecognized (must be of type {kind}): {why}");
            ApiError::bad_request(message)
        };
        let decoded = self.decode(body).and_then(require_object);
        decoded.map_err(|error| match error {
            DecodeError::MediaType => unsupported_body(),
            DecodeError::InvalidProtobuf => ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: unexpected EOF"
            )),
            DecodeError::NotProtobuf if body.is_empty() => unrecognized("empty data (<empty>)".to_owned()),
            DecodeError::NotProtobuf => unrecognized(format!(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
                excerpt(body)
            )),
            DecodeError::Yaml(why) => unrecognized(format!("yaml: {why} ({})", excerpt(body))),
            DecodeError::Syntax(why) => unrecognized(format!(
                "couldn't get version/kind; json parse error: {why} ({})",
                excerpt(body)
            )),
        })
    }
}

/// Runs the controllers when it is dropped. A failed write needs them, too, because a deleteCollection may
/// have deleted some objects before the failure.
struct RunControllers<'a>(&'a Frontend);

impl Drop for RunControllers<'_> {
    fn drop(&mut self) {
        self.0.run_controllers();
    }
}

/// Returns an error unless the decoded body is a JSON object. `null` becomes an empty object.
fn require_object(Reading { value, doubled }: Reading) -> Result<Reading, DecodeError> {
    match value {
        Value::Object(_) => Ok(Reading { value, doubled }),
        Value::Null => Ok(Reading { value: Value::Object(serde_json::Map::new()), doubled }),
        other => Err(DecodeError::Syntax(crate::model::metadata::type_meta_error(&other))),
    }
}

enum DecodeError {
    MediaType,
    Syntax(String),
    Yaml(String),
    /// The request body lacks the prefix of Kubernetes protobuf messages.
    NotProtobuf,
    /// The request body has the protobuf prefix, but its message is malformed.
    InvalidProtobuf,
}

fn unsupported_body() -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Returns the `Content-Type` of a request without its parameters.
pub(crate) fn media_type(head: &request::Parts) -> &str {
    header(head, CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

/// Reads a whole request body. Returns 413 if it exceeds the size limit.
pub(crate) async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Data: Buf,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limited = std::pin::pin!(Limited::new(body, MAX_BODY_BYTES));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large_body()),
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}
