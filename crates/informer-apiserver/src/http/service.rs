//! The service: one request in, one answer out.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, StatusCode, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::body::{ApiBody, BrokenOff, Chunks};
use super::query::{ListOptions, Query};
use super::route::{ResourceRoute, Route, route};
use super::{discovery, parse_version};
use crate::error::ApiError;
use crate::faults::{Plan, Point};
use crate::kinds::Kind;
use crate::list;
use crate::requests::{RequestRecord, Verb};
use crate::select::Filter;
use crate::server::Shared;
use crate::storage::{Form, Stored};
use crate::upset::UpsetWatch;
use crate::watch::{WatchDriver, WatchRequest};
use crate::write::{DeleteOptions, PatchType, Scope, WriteMode, Written};

/// The largest body of a request, as upstream.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(super) type Answer = Response<ApiBody>;

/// The server as a `tower::Service` of HTTP requests. A clone is another handle to the same server.
///
/// Requests are answered on the caller's task; a watch lives as long as its body. Nothing is spawned, so that it
/// works on any runtime and in paused time.
#[derive(Debug, Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Answers one request. Never fails: errors are answers.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let watch = query.flag("watch").unwrap_or_default();
        let route = route(&self.shared.registry.read(), &head.method, head.uri.path(), watch);
        let record = self.record(&head, route.as_ref().ok());
        let mut plan = self.shared.faults.plan(&record);
        if plan.never_answer {
            std::future::pending::<()>().await;
        }
        if !plan.delay.is_zero() {
            let at = self.shared.clock.elapsed() + plan.delay;
            self.shared.clock.sleep_until(at).await;
        }
        let end = plan.body_end;
        let answer = match plan.answer.take() {
            Some(answer) => Ok(spoiled(answer)),
            None => match route {
                Err(error) => Err(error),
                Ok(Route::Other(segments)) => discovery::answer(&self.shared, &head, &segments),
                Ok(Route::Resource(route)) => {
                    Call { shared: &self.shared, head: &head, query: &query, route, plan }.run(body).await
                }
            },
        };
        let answer = answer.unwrap_or_else(|error| refused(&error));
        finish(&head, answer).map(|body| body.ending(end))
    }

    fn record(&self, head: &request::Parts, route: Option<&Route>) -> RequestRecord {
        let resource = match route {
            Some(Route::Resource(route)) => Some(route),
            _ => None,
        };
        let query = head.uri.query().unwrap_or_default();
        let mut record = RequestRecord {
            number: 0,
            at: self.shared.clock.elapsed(),
            verb: resource.map_or(Verb::Other, |route| route.verb),
            gvr: resource.map(|route| route.resource.kind.gvr.clone()),
            namespace: resource.and_then(|route| route.namespace.clone()),
            name: resource.and_then(|route| route.name.clone()),
            subresource: resource.and_then(|route| route.subresource.clone()),
            path: head.uri.path().to_owned(),
            query: percent_encoding::percent_decode_str(query).decode_utf8_lossy().into_owned(),
            resource_version: Query::parse(query).text("resourceVersion").to_owned(),
            user_agent: header(head, USER_AGENT).to_owned(),
        };
        self.shared.requests.push(&mut record);
        record
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

pub(super) fn header(head: &request::Parts, name: HeaderName) -> &str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// An answer made of whole JSON.
pub(super) fn json(status: u16, body: impl Into<Bytes>) -> Answer {
    with_type(status, JSON, ApiBody::whole(body))
}

/// An answer made of text.
pub(super) fn text(status: u16, body: impl Into<Bytes>) -> Answer {
    with_type(status, TEXT, ApiBody::whole(body))
}

fn with_type(status: u16, content_type: HeaderValue, body: ApiBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// An answer that streams JSON.
fn streamed(chunks: Chunks) -> Answer {
    with_type(200, JSON, ApiBody::chunks(chunks))
}

fn refused(error: &ApiError) -> Answer {
    let mut answer = match error.plain {
        true => text(error.code, error.message.clone()),
        false => json(error.code, error.to_json()),
    };
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if error.plain || matches!(error.code, 403) {
        answer.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    }
    answer
}

/// The answer of a fault.
fn spoiled(answer: crate::faults::Answer) -> Answer {
    match answer {
        crate::faults::Answer::Status(error) => refused(&error),
        crate::faults::Answer::Text { code, retry_after, body } => {
            let mut answer =
                if body.trim_start().starts_with('{') { json(code, body) } else { text(code, body) };
            if let Some(seconds) = retry_after {
                answer.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            answer
        }
    }
}

/// The headers that every answer has.
fn finish(head: &request::Parts, mut answer: Answer) -> Answer {
    let audit = match head.headers.get("audit-id") {
        Some(id) => id.clone(),
        None => HeaderValue::try_from(uuid::Uuid::new_v4().to_string()).expect("a uuid is a header value"),
    };
    answer.headers_mut().insert("audit-id", audit);
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    answer
}

/// A request about a resource, on its way.
struct Call<'a> {
    shared: &'a Arc<Shared>,
    head: &'a request::Parts,
    query: &'a Query,
    route: ResourceRoute,
    plan: Plan,
}

impl Call<'_> {
    fn kind(&self) -> &Kind {
        &self.route.resource.kind
    }

    fn scope(&self) -> Scope<'_> {
        Scope { resource: &self.route.resource, namespace: self.route.namespace.as_deref() }
    }

    fn name(&self) -> &str {
        self.route.name.as_deref().unwrap_or_default()
    }

    fn mode(&self) -> WriteMode {
        if self.route.subresource.is_some() { WriteMode::Status } else { WriteMode::Main }
    }

    async fn run<B>(self, body: B) -> Result<Answer, ApiError>
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let expired = self.plan.upsets.iter().any(|(_, upset)| *upset == crate::faults::Upset::Expire);
        if self.plan.too_large && self.route.verb != Verb::Watch {
            return Err(ApiError::too_large(u64::MAX, self.shared.storage.read().version()));
        }
        if expired && self.route.verb != Verb::Watch {
            return Err(self.expired());
        }
        match self.route.verb {
            Verb::List => self.list().await,
            Verb::Watch => self.watch().await,
            Verb::Get => self.get().await,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                let body = collect(body).await?;
                self.write(&body)
            }
            Verb::Other => Err(ApiError::unknown_path()),
        }
    }

    /// 410 with a token to go on with where a page was asked for.
    fn expired(&self) -> ApiError {
        match self.query.text("continue") {
            "" => ApiError::list_too_old(),
            token => list::expired_token(token).unwrap_or_else(|error| error),
        }
    }

    fn filter(&self, options: &ListOptions) -> Result<Filter, ApiError> {
        let namespace = self.route.namespace.as_deref();
        let filter = Filter::parse(self.kind(), namespace, &options.labels, &options.fields)?;
        Ok(match self.route.legacy_watch {
            true => self.route.name.as_deref().map_or(filter.clone(), |name| filter.clone().named(name)),
            false => filter,
        })
    }

    async fn list(self) -> Result<Answer, ApiError> {
        let form = negotiate(self.head, Wants::List, self.kind())?;
        let options = ListOptions::parse(self.query)?;
        let filter = self.filter(&options)?;
        let page = list::list(self.shared, &self.route.resource, &filter, &options, self.plan.rewind).await?;
        let mut chunks = page.into_chunks(self.kind(), form);
        let first = chunks.next().unwrap_or_default();
        Ok(match chunks.next() {
            None => json(200, first),
            Some(second) => streamed(stream::iter([first, second].into_iter().chain(chunks).map(Ok)).boxed()),
        })
    }

    async fn watch(self) -> Result<Answer, ApiError> {
        let form = negotiate(self.head, Wants::Watch, self.kind())?;
        let options = ListOptions::parse(self.query)?;
        let filter = self.filter(&options)?;
        if self.plan.reject_initial && options.initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            let cause = crate::error::Cause::forbidden("sendInitialEvents", why);
            return Err(ApiError::invalid_options("ListOptions", vec![cause]));
        }
        let request = WatchRequest {
            resource: &self.route.resource,
            filter,
            form,
            options: &options,
            rewind: self.plan.rewind,
            ignore_initial: self.plan.ignore_initial,
        };
        let mut driver = WatchDriver::start(self.shared, request).await?;
        driver.coalesce = self.plan.leaves_events();
        if self.plan.too_large {
            driver.fail(ApiError::too_large(u64::MAX, self.shared.storage.read().version()));
        }
        let end = self.plan.body_end.filter(|(point, _)| matches!(point, Point::Events(_)));
        let stream = stream::unfold(UpsetWatch::new(driver, self.plan, end), |mut watch| async move {
            let item: Result<Bytes, BrokenOff> = watch.next().await?;
            Some((item, watch))
        });
        Ok(streamed(stream.boxed()))
    }

    async fn get(self) -> Result<Answer, ApiError> {
        let form = negotiate(self.head, Wants::Item, self.kind())?;
        let asked = parse_version(self.query.text("resourceVersion"))
            .map_err(|message| ApiError::new(500, "", message))?;
        if let Some(version) = asked {
            self.shared.reach(version).await?;
        }
        let stored = match self.plan.rewind {
            0 => self.shared.find(&self.route.resource, self.route.namespace.as_deref(), self.name())?,
            by => self.past(by)?,
        };
        Ok(json(200, whole(&stored, form)))
    }

    /// The object as it was so many versions ago.
    fn past(&self, by: u64) -> Result<Arc<Stored>, ApiError> {
        let storage = self.shared.storage.read();
        let table = self.route.resource.table;
        let version = storage.version().saturating_sub(by).max(storage.floor(table));
        let map = storage.at(table, version).map_err(|_| ApiError::list_too_old())?;
        let namespace =
            self.route.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
        let found = map.get(&format!("{namespace}{}", self.name())).cloned();
        found.ok_or_else(|| ApiError::not_found(self.kind(), self.name()))
    }

    fn write(self, body: &[u8]) -> Result<Answer, ApiError> {
        let form = negotiate(self.head, Wants::Item, self.kind())?;
        if !self.query.text("dryRun").is_empty() {
            return Err(ApiError::new(501, "NotImplemented", "dryRun is not served"));
        }
        let (shared, scope) = (self.shared, self.scope());
        let written = match self.route.verb {
            Verb::Create => shared.create(scope, self.object(body)?, self.mode())?,
            Verb::Update => shared.update(scope, self.name(), self.object(body)?, self.mode())?,
            Verb::Patch => {
                let patch = PatchType::parse(media_type(self.head), self.kind().is_custom(), body)?;
                shared.patch(scope, self.name(), &patch, self.mode())?
            }
            _ => return self.delete(body),
        };
        let status = if written.created { 201 } else { 200 };
        Ok(json(status, written_bytes(&written, form)))
    }

    fn delete(&self, body: &[u8]) -> Result<Answer, ApiError> {
        let given = if body.is_empty() { None } else { Some(self.object(body)?) };
        let options = DeleteOptions::parse(self.query, given.as_ref())?;
        if self.route.verb == Verb::Delete {
            let deleted = self.shared.delete(self.scope(), self.name(), &options)?;
            return Ok(json(if deleted.accepted { 202 } else { 200 }, deleted.body));
        }
        let filter = self.filter(&ListOptions::parse(self.query)?)?;
        let page = list::everything(self.shared, &self.route.resource, &filter);
        for stored in &page.items {
            match self.shared.delete(self.scope(), stored.key.name(), &options) {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        let chunks = page.into_chunks(self.kind(), Form::Object);
        Ok(streamed(stream::iter(chunks.map(Ok)).boxed()))
    }

    /// The object in a body, JSON or YAML.
    fn object(&self, body: &[u8]) -> Result<Value, ApiError> {
        let unreadable = |why: String| {
            let kind = &self.kind().kind;
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
                 error: {why}"
            ))
        };
        match media_type(self.head) {
            "" | "application/json" => serde_json::from_slice(body).map_err(|error| {
                unreadable(match error.is_eof() {
                    true => format!("unexpected end of JSON input ({})", shown(body)),
                    false => format!("{error} ({})", shown(body)),
                })
            }),
            "application/yaml" => {
                serde_norway::from_slice(body).map_err(|error| unreadable(format!("yaml: {error}")))
            }
            _ => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }
}

/// What an error says of a body: nothing of its content.
fn shown(body: &[u8]) -> String {
    if body.is_empty() { "<empty>".to_owned() } else { format!("{} bytes", body.len()) }
}

fn written_bytes(written: &Written, form: Form) -> Bytes {
    match &written.stored {
        Some(stored) => whole(stored, form),
        None => [&written.object[..], b"\n"].concat().into(),
    }
}

fn whole(stored: &Stored, form: Form) -> Bytes {
    let mut out = BytesMut::with_capacity(stored.len() + 1);
    stored.write(form, &mut out);
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// The content type without its parameters.
fn media_type(head: &request::Parts) -> &str {
    header(head, CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

/// Reads a body up to the limit.
async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Data: Buf,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Boxed without Send: the future of `Limited` over any body is.
    let limited = std::pin::pin!(Limited::new(body, BODY_BYTES_MAX));
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large_body()),
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// What an answer consists of, for negotiation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Item,
    List,
    Watch,
}

/// The shape of the answer: the first acceptable clause of the Accept header.
fn negotiate(head: &request::Parts, wants: Wants, kind: &Kind) -> Result<Form, ApiError> {
    let accept = header(head, ACCEPT);
    if accept.is_empty() {
        return Ok(Form::Object);
    }
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let transform = parts.find_map(|part| part.strip_prefix("as="));
        match (media, transform) {
            ("application/json" | "*/*", None) => return Ok(Form::Object),
            ("application/json", Some("PartialObjectMetadata")) if wants == Wants::List => {
                let name = &kind.list_kind;
                return Err(not_acceptable(&format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*core.{name})"
                )));
            }
            ("application/json", Some("PartialObjectMetadataList")) if wants == Wants::Item => {
                let name = &kind.kind;
                return Err(not_acceptable(&format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{name})"
                )));
            }
            ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                return Ok(Form::Metadata);
            }
            _ => {}
        }
    }
    let only = if wants == Wants::Watch { "application/json;stream=watch" } else { "application/json" };
    Err(not_acceptable(&format!("only the following media types are accepted: {only}")))
}

fn not_acceptable(message: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}
