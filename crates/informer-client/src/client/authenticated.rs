//! Sends requests with credentials that can be refreshed, such as tokens in files and exec plugins.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::Service;

use super::connections::Connections;
use super::credentials::{Credentials, Current};
use super::error::refuses_certificate;
use super::{BoxError, ResponseBody};

/// Sends each request with the current credentials, over connections that use the current client certificate.
///
/// If the server rejects the credentials, they are refreshed. The request is sent once more if the refresh
/// returns different credentials. This is safe for writes, because a server authenticates a request before
/// executing it.
#[derive(Clone)]
pub(super) struct Authenticated {
    credentials: Option<Arc<Credentials>>,
    connections: Connections,
}

impl Authenticated {
    /// Creates a service that sends requests over `connections`. If `credentials` is `None`, requests are
    /// sent without renewable credentials.
    pub(super) fn new(credentials: Option<Arc<Credentials>>, connections: Connections) -> Self {
        Self { credentials, connections }
    }
}

impl Service<Request<Full<Bytes>>> for Authenticated {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let connections = self.connections.clone();
        let Some(credentials) = self.credentials.clone() else {
            return Box::pin(async move { connections.send(request, 0).await });
        };
        Box::pin(async move {
            let current = credentials.current().await?;
            let retry = request.clone();
            let result = send(&connections, &current, request).await;
            let rejected = match &result {
                Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
                Err(error) => refuses_certificate(&**error),
            };
            if result.is_err() {
                credentials.check_soon();
            }
            if rejected && let Some(newer) = credentials.after_rejection(&current).await {
                return send(&connections, &newer, retry).await;
            }
            result
        })
    }
}

async fn send(
    connections: &Connections,
    current: &Current,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<ResponseBody>, BoxError> {
    current.authorize(&mut request);
    connections.send(request, current.identity_generation).await
}
