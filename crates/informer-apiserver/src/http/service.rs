//! The `tower::Service` that processes requests.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http::header::USER_AGENT;
use http::{Request, request};

use crate::auth::Attributes;
use crate::faults::Plan;
use crate::http::accept::{Encoding, indents_errors, plain_encoding};
use crate::http::answer::{
    Answer, bodiless, finish, header, is_for_people, refused, rewritten, spoiled, timed_out, warn_first,
};
use crate::http::call::Call;
use crate::http::deadline::{AT_ONCE, time_limit};
use crate::http::route::{Route, route};
use crate::http::{Frontend, discovery, gzip};
use crate::model::error::ApiError;
use crate::model::query::Query;
use crate::model::user::User;
use crate::requests::{RequestRecord, Verb};

/// Response extension: the connection accepts no further requests after this response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoAway;

/// Response extension: the body is exempt from the write timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// The API server as a `tower::Service` of HTTP requests, without a socket.
///
/// Clones are handles to the same server.
///
/// A request runs on the task that polls the returned future. A watch runs on the task that polls the response body and
/// ends when that body is dropped. The service spawns no tasks, so it works on any runtime and with paused time.
#[derive(Debug, Clone)]
pub struct ApiService {
    shared: Arc<Frontend>,
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Frontend>) -> Self {
        Self { shared }
    }

    /// Processes one request from a socket.
    ///
    /// On a server without authentication the request must pass `check`, which receives the allowed host names.
    pub(crate) async fn answer_remote<B>(
        &self,
        request: Request<B>,
        check: fn(&request::Parts, &[String]) -> Result<(), ApiError>,
    ) -> Answer
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        match check(&head, &self.shared.allowed_hosts) {
            Err(error) if self.shared.access.is_open() => finish(&head, refused(&error)),
            _ => self.answer(Request::from_parts(head, body)).await,
        }
    }

    /// Processes one request. Errors become responses.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.shared.expire();
        let (head, body) = request.into_parts();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let asks = query.flag("watch").unwrap_or_default();
        let route = route(&self.shared.registry.read(), &head.method, head.uri.path(), asks);
        let user = self.shared.authenticate(&head);
        let record = self.record(&head, &query, route.as_ref().ok());
        // Unauthenticated requests are not logged, so that they cannot displace others from the bounded log.
        let record = if user.is_ok() { self.shared.requests.push(record) } else { Arc::new(record) };
        // The route decides: `watch=true` counts for collections only, and legacy `/watch/` paths need no parameter.
        let watch = record.verb == Verb::Watch;
        let mut plan = self.shared.faults.plan(&record);
        if plan.never_answer {
            std::future::pending::<()>().await;
        }
        if !plan.delay.is_zero() {
            let at = self.shared.clock.elapsed() + plan.delay;
            self.shared.clock.sleep_until(at).await;
        }
        let (end, after) = (plan.body_end, std::mem::take(&mut plan.afterwards));
        let endless = watch || end.is_some() || after.trickle.is_some();
        let call = Incoming { head: &head, query: &query, user };
        let (answer, encoding) = match plan.answer.take() {
            Some(answer) => (Ok(spoiled(answer)), Encoding::Json),
            None if watch => self.run(call, route, plan, body).await,
            None => match time_limit(&query, record.verb) {
                Ok(limit) => self.run_within(limit, self.run(call, route, plan, body)).await,
                Err(error) => (Err(error), plain_encoding(&head)),
            },
        };
        if !after.delay.is_zero() {
            self.shared.clock.sleep_until(self.shared.clock.elapsed() + after.delay).await;
        }
        let answer = after.status.map_or(answer, |status| Err(*status));
        let failed = answer.is_err();
        let answer = answer.unwrap_or_else(|error| refused(&error));
        // A watch has already negotiated its encoding, and is never compressed.
        let answer = match watch && !failed {
            true => answer,
            false => {
                let indent = is_for_people(&head, &query) || (failed && indents_errors(&head));
                let answer = rewritten(&self.shared.schema, answer, encoding, indent).await;
                match self.shared.compression && gzip::is_asked_for(&head) {
                    true => gzip::gzipped(answer).await,
                    false => answer,
                }
            }
        };
        let mut answer = bodiless(&head, finish(&head, answer));
        if after.go_away {
            answer.extensions_mut().insert(GoAway);
        }
        if endless {
            answer.extensions_mut().insert(Endless);
        }
        answer.map(|body| body.ending(end).trickling(after.trickle, &self.shared.clock))
    }

    /// Responds with 504 if a request exceeds its time limit. Writes that it has completed by then are kept.
    async fn run_within(
        &self,
        limit: Duration,
        run: impl Future<Output = (Result<Answer, ApiError>, Encoding)>,
    ) -> (Result<Answer, ApiError>, Encoding) {
        let late = || (Ok(timed_out()), Encoding::Json);
        if limit < AT_ONCE {
            return late();
        }
        let started = self.shared.clock.elapsed();
        let mut run = std::pin::pin!(run);
        // Nearly all requests complete at the first poll and need no timer.
        if let Poll::Ready(answer) = futures_util::poll!(run.as_mut()) {
            return answer;
        }
        tokio::select! {
            biased;
            answer = run => answer,
            () = self.shared.clock.sleep_until(started + limit) => late(),
        }
    }

    /// Processes a request that no fault has answered: authorizes it, then runs it.
    async fn run<B>(
        &self,
        incoming: Incoming<'_>,
        route: Result<Route, ApiError>,
        plan: Plan,
        body: B,
    ) -> (Result<Answer, ApiError>, Encoding)
    where
        B: http_body::Body,
        B::Data: Buf,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Incoming { head, query, .. } = incoming;
        let plain = plain_encoding(head);
        let user = match self.admit(incoming) {
            Ok(user) => user,
            Err(error) => return (Err(error), plain),
        };
        match route {
            Err(error) => (Err(error), plain),
            Ok(Route::Other(segments)) => (discovery::answer(&self.shared, head, &segments), plain),
            Ok(Route::Resource(route)) => {
                let call = Call { shared: &self.shared, head, query, user: &user, route };
                let deprecated = call.kind().deprecated();
                match call.run(plan, body).await {
                    Ok((mut answer, encoding)) => {
                        warn_first(&mut answer, deprecated.as_slice());
                        (Ok(answer), encoding)
                    }
                    Err(error) => (Err(error.warned_first(deprecated)), plain),
                }
            }
        }
    }

    /// Checks authentication, impersonation and authorization. Returns the effective user.
    fn admit(&self, Incoming { head, query, user }: Incoming<'_>) -> Result<User, ApiError> {
        let user = user?;
        let attributes = || Attributes::of_request(&head.method, head.uri.path(), query);
        let user = self.shared.impersonate(user, &head.headers, attributes)?;
        if self.shared.access.enforces_rbac_for(&user) {
            self.shared.authorize(&user, &attributes())?;
        }
        Ok(user)
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
        }
    }
}

/// The parsed head of a request.
struct Incoming<'a> {
    head: &'a request::Parts,
    query: &'a Query,
    /// The authenticated user, or the authentication error.
    user: Result<User, ApiError>,
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
