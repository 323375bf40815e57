//! The `tower::Service` that processes requests.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::header::USER_AGENT;
use http::{Method, Request, request};
use informer_http::LongRunning;

use crate::auth::AuthorizationAttributes;
use crate::faults::Plan;
use crate::http::accept::{Encoding, indents_errors, plain_encoding};
use crate::http::call::{APPLY, Call, media_type};
use crate::http::deadline::{MIN_TIME_LIMIT, time_limit};
use crate::http::headers::header;
use crate::http::response::{
    ApiResponse, add_common_headers, error_response, injected_response, strip_head_body, timed_out,
    transcode, wants_indent, warn_first,
};
use crate::http::route::{Route, route};
use crate::http::{Frontend, discovery, gzip, web_ui};
use crate::model::error::ApiError;
use crate::model::query::Query;
use crate::model::user::User;
use crate::requests::{RecordedRequest, RequestRecord, ResponseStatus, Verb};

/// Response extension: the connection must not accept further requests after this response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoAway;

/// The API server as a `tower::Service` of HTTP requests, without a socket.
///
/// Clones are handles to the same server.
///
/// A request runs on the task that polls the returned future. A watch runs on the task that polls the
/// response body and ends when that body is dropped. The service works on any runtime and with paused time:
/// only background controllers spawn a task, and they run within the request if there is no tokio runtime.
#[derive(Debug, Clone)]
pub struct ApiService {
    shared: Arc<Frontend>,
    /// The user of all requests, if it is not determined by their credentials.
    user: Option<User>,
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Frontend>) -> Self {
        Self { shared, user: None }
    }

    /// Processes all requests as this user, whatever their credentials.
    pub(crate) fn with_user(self, user: User) -> Self {
        Self { user: Some(user), ..self }
    }

    /// Processes one request that arrived on a socket.
    ///
    /// On a server without authentication, `check` must accept the request. It receives the allowed host
    /// names.
    pub(crate) async fn respond_remote<B>(
        &self,
        request: Request<B>,
        check: fn(&request::Parts, &[String]) -> Result<(), ApiError>,
    ) -> ApiResponse
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        match check(&head, &self.shared.allowed_hosts) {
            Err(error) if self.shared.access.is_open() => add_common_headers(&head, error_response(&error)),
            _ => self.respond(Request::from_parts(head, body)).await,
        }
    }

    /// Processes one request. An error becomes a response, too.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> ApiResponse
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.shared.expire();
        let (head, body) = request.into_parts();
        if self.shared.web_ui && web_ui::is_web_ui(head.uri.path()) {
            return self.respond_web_ui(&head, body).await;
        }
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let watch_param = query.flag("watch").unwrap_or_default();
        let route = route(&self.shared.registry.read(), &head.method, head.uri.path(), watch_param);
        let user = self.shared.authenticate(&head);
        let record = self.record(&head, &query, route.as_ref().ok());
        let RecordedRequest { full: record, logged } = self.log(record, user.as_ref().ok());
        // The router decides whether a request is a watch: `watch=true` applies to collections only, and the
        // legacy `/watch/` paths do not need the parameter.
        let watch = record.verb == Verb::Watch;
        let mut plan = self.shared.faults.plan(&record);
        if plan.never_answer {
            std::future::pending::<()>().await;
        }
        if !plan.delay.is_zero() {
            let at = self.shared.clock.elapsed() + plan.delay;
            self.shared.clock.sleep_until(at).await;
        }
        let (end, response_faults) = (plan.body_end, std::mem::take(&mut plan.response_faults));
        let long_running = watch || end.is_some() || response_faults.trickle.is_some();
        let call = RequestHead { head: &head, query: &query, user };
        let (response, encoding) = match plan.response.take() {
            Some(response) => (Ok(injected_response(response)), Encoding::Json),
            None if watch => self.run(call, route, plan, body).await,
            None => match time_limit(&query, record.verb) {
                Ok(limit) => {
                    let run = std::pin::pin!(self.run(call, route, plan, body));
                    self.run_with_timeout(limit, run).await
                }
                Err(error) => (Err(error), plain_encoding(&head)),
            },
        };
        if !response_faults.delay.is_zero() {
            self.shared.clock.sleep_until(self.shared.clock.elapsed() + response_faults.delay).await;
        }
        let response = response_faults.status.map_or(response, |status| Err(*status));
        let failed = response.is_err();
        let response = response.unwrap_or_else(|error| error_response(&error));
        if let Some(hook) = self.shared.faults.hook() {
            hook.response(&record, response.status().as_u16());
        }
        // A watch response was already encoded in the negotiated format, and is never compressed.
        let response = if watch && !failed {
            response
        } else {
            let indent = wants_indent(&head, &query) || (failed && indents_errors(&head));
            let response = transcode(&self.shared.schema, response, encoding, indent).await;
            if self.shared.compression && gzip::is_accepted(&head) {
                gzip::compress_large(response).await
            } else {
                response
            }
        };
        logged.status.set(response.status());
        let mut response = strip_head_body(&head, add_common_headers(&head, response));
        if response_faults.go_away {
            response.extensions_mut().insert(GoAway);
        }
        if long_running {
            response.extensions_mut().insert(LongRunning);
        }
        response.map(|body| body.with_body_end(end).with_trickle(response_faults.trickle, &self.shared.clock))
    }

    /// Processes a request of the web UI. It is neither logged nor matched by fault rules.
    async fn respond_web_ui<B>(&self, head: &request::Parts, body: B) -> ApiResponse
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let user = self.shared.authenticate(head);
        let respond = async {
            self.authorize_request(RequestHead { head, query: &query, user })?;
            web_ui::respond(&self.shared, head, &query, body).await
        };
        let deadline = self.shared.clock.elapsed() + web_ui::MAX_TIME;
        let response = tokio::select! {
            biased;
            response = respond => response.unwrap_or_else(|error| error_response(&error)),
            () = self.shared.clock.sleep_until(deadline) => timed_out(),
        };
        let response = web_ui::with_security_headers(add_common_headers(head, response));
        strip_head_body(head, response)
    }

    /// Responds with 504 if a request exceeds its time limit. Writes that the request has completed by then
    /// are not undone.
    ///
    /// The future of the request is pinned by the caller: it is large, and a future that is moved into
    /// another one takes its memory twice.
    async fn run_with_timeout(
        &self,
        limit: Duration,
        mut run: Pin<&mut impl Future<Output = (Result<ApiResponse, ApiError>, Encoding)>>,
    ) -> (Result<ApiResponse, ApiError>, Encoding) {
        let timeout_response = || (Ok(timed_out()), Encoding::Json);
        if limit < MIN_TIME_LIMIT {
            return timeout_response();
        }
        let started = self.shared.clock.elapsed();
        // Nearly all requests complete at the first poll, so the timer is only created after it.
        if let Poll::Ready(response) = futures_util::poll!(run.as_mut()) {
            return response;
        }
        tokio::select! {
            biased;
            response = run => response,
            () = self.shared.clock.sleep_until(started + limit) => timeout_response(),
        }
    }

    /// Authorizes and runs a request, unless an injected fault has already responded to it.
    async fn run<B>(
        &self,
        request_head: RequestHead<'_>,
        route: Result<Route, ApiError>,
        plan: Plan,
        body: B,
    ) -> (Result<ApiResponse, ApiError>, Encoding)
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let RequestHead { head, query, .. } = request_head;
        let plain = plain_encoding(head);
        let user = match self.authorize_request(request_head) {
            Ok(user) => user,
            Err(error) => return (Err(error), plain),
        };
        match route {
            Err(error) => (Err(error), plain),
            Ok(Route::Other(segments)) => (discovery::respond(&self.shared, head, &segments), plain),
            Ok(Route::Resource(route)) => {
                let call = Call { shared: &self.shared, head, query, user: &user, route };
                let deprecated = call.kind().deprecated.clone();
                match call.run(plan, body).await {
                    Ok((mut response, encoding)) => {
                        warn_first(&mut response, deprecated.as_slice());
                        (Ok(response), encoding)
                    }
                    Err(error) => (Err(error.prepend_warning(deprecated)), plain),
                }
            }
        }
    }

    /// Checks authentication, impersonation and authorization of a request. Returns the user in whose name it
    /// runs.
    fn authorize_request(
        &self,
        RequestHead { head, query, user }: RequestHead<'_>,
    ) -> Result<User, ApiError> {
        let user = user?;
        let attributes = || AuthorizationAttributes::of_request(&head.method, head.uri.path(), query);
        let user = self.shared.impersonate(user, &head.headers, attributes)?;
        if self.shared.access.enforces_rbac_for(&user) {
            self.shared.authorize(&user, &attributes())?;
        }
        Ok(user)
    }

    /// Logs a request, unless its user is not authenticated: such requests could displace other ones from the
    /// bounded request log.
    fn log(&self, mut record: RequestRecord, user: Option<&User>) -> RecordedRequest {
        match user {
            Some(user) => {
                record.user.clone_from(&user.name);
                self.shared.requests.push(record)
            }
            None => RecordedRequest::not_logged(record),
        }
    }

    fn record(&self, head: &request::Parts, query: &Query, route: Option<&Route>) -> RequestRecord {
        let resource = match route {
            Some(Route::Resource(route)) => Some(route),
            _ => None,
        };
        let text = head.uri.query().unwrap_or_default();
        RequestRecord {
            number: 0,
            at: self.shared.clock.elapsed(),
            verb: resource.map_or(Verb::Other, |route| route.verb),
            gvr: resource.map(|route| route.resource.kind.gvr.clone()),
            namespace: resource.and_then(|route| route.namespace.clone()),
            name: resource.and_then(|route| route.name.clone()),
            subresource: resource.and_then(|route| route.subresource.clone()),
            path: head.uri.path().to_owned(),
            query: percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            user_agent: header(head, USER_AGENT).to_owned(),
            user: String::new(),
            is_apply: head.method == Method::PATCH && media_type(head) == APPLY,
            status: ResponseStatus::default(),
        }
    }
}

struct RequestHead<'a> {
    head: &'a request::Parts,
    query: &'a Query,
    user: Result<User, ApiError>,
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = ApiResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<ApiResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let service = self.clone();
        if let Some(user) = &self.user {
            request.extensions_mut().insert(user.clone());
        }
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}
