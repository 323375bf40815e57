//! Runs an HTTP server, and responds to its requests.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use informer_http::{
    Certificates, Connection, Incoming, Server, ServerOptions, Service, Timeouts, TokioClock,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::access::Access;
use super::response_body::ResponseBody;
use super::tls::{CertificateObserver, LoadedTls};
use super::{
    Address, DRAIN_TIMEOUT, HEADER_TIMEOUT, HttpServer, ListenError, MAX_CONNECTIONS, REQUEST_TIMEOUT,
    RESPONSE_TIMEOUT, Routes, STALLED_TIMEOUT, text,
};
use crate::BoxError;

const TIMEOUTS: Timeouts = Timeouts {
    head: HEADER_TIMEOUT,
    idle: HEADER_TIMEOUT,
    response: RESPONSE_TIMEOUT,
    stalled: Some(STALLED_TIMEOUT),
};

struct Responder {
    routes: Routes,
    access: Option<Arc<Access>>,
    body_max: usize,
    /// Ends the response bodies that are streams.
    stop: CancellationToken,
}

pub(super) async fn run(server: HttpServer, stop: CancellationToken) -> Result<(), BoxError> {
    let observer = observer(&server);
    let HttpServer { name, address, routes, tls, tls_options, access, body_max, bound, .. } = server;
    let mut tls = match tls.certificate(access.is_some())? {
        Some(tls) => {
            let load = tls.load(tls_options, observer);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                loaded = load => Some(loaded?),
            }
        }
        None => None,
    };
    let listener = listen(&name, address).await?;
    let options = ServerOptions {
        clock: Arc::new(TokioClock::default()),
        tls: tls.as_ref().map(LoadedTls::config),
        max_connections: MAX_CONNECTIONS,
        timeouts: TIMEOUTS,
        http2_streams: None,
    };
    let responder = Responder { routes, access, body_max, stop: stop.clone() };
    // Routes of a server without authorization depend on the address, so it is known before the first
    // request.
    bound.send_replace(Some(listener.local_addr()?));
    let server = Server::start(listener, options, responder)?;
    let reload = async {
        match &mut tls {
            Some(tls) => tls.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = reload => {}
    }
    let open = server.drain(DRAIN_TIMEOUT).await;
    if open > 0 {
        tracing::warn!(
            server = name,
            open,
            "closed the connections that did not end within the drain timeout"
        );
    }
    if let Some(tls) = &mut tls {
        tls.stop().await;
    }
    Ok(())
}

/// Returns the observer that reports the certificate of a server to the metrics.
fn observer(server: &HttpServer) -> CertificateObserver {
    #[cfg(feature = "prometheus")]
    let (reads, expirations, name) =
        (server.certificates.clone(), server.certificates.clone(), server.name.clone());
    #[cfg(not(feature = "prometheus"))]
    let _ = server;
    CertificateObserver {
        on_read: Box::new(move |_read| {
            #[cfg(feature = "prometheus")]
            reads.count(_read.is_err());
        }),
        on_serve: Box::new(move |_until| {
            #[cfg(feature = "prometheus")]
            expirations.serves(&name, _until);
        }),
    }
}

async fn listen(name: &str, address: Address) -> Result<TcpListener, ListenError> {
    match address {
        Address::Listener(listener) => Ok(listener),
        Address::Text(address) => match TcpListener::bind(&address).await {
            Ok(listener) => Ok(listener),
            Err(cause) => Err(ListenError { name: name.to_owned(), address, cause }),
        },
    }
}

impl Service for Responder {
    type Body = ResponseBody;
    type Client = ();

    fn client(&self, _: Option<Certificates<'_>>) {}

    async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Connection<()>,
    ) -> Response<ResponseBody> {
        // The connection counts as serving only while the handler runs. Otherwise it waits for the client,
        // and may be closed in favor of another one.
        let response = self.respond_to(request, || connection.serve()).await;
        ResponseBody::of(response, &self.stop)
    }
}

impl Responder {
    /// Responds to one request. Calls `serve` before the handler, and drops the guard after it.
    async fn respond_to<B, S>(&self, request: Request<B>, serve: impl FnOnce() -> S) -> Response<Bytes>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let Some(route) = self.routes.find(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (mut head, body) = request.into_parts();
        let handled = async {
            if let Some(access) = self.access.as_ref().filter(|_| !route.public) {
                match access.authorize(&head).await {
                    Ok(user) => drop(head.extensions.insert(user)),
                    Err(refused) => return text(refused.status(), format!("{refused}\n")),
                }
            }
            let body = match Limited::new(body, self.body_max).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) if error.is::<LengthLimitError>() => {
                    return text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
                }
                Err(_) => return text(StatusCode::BAD_REQUEST, "the body is incomplete\n"),
            };
            let _serving = serve();
            // The handler is called inside the async block, so that `catch_unwind` also catches a panic that
            // occurs before the handler returns its future.
            AssertUnwindSafe(async { (route.handler)(Request::from_parts(head, body)).await })
                .catch_unwind()
                .await
                .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "the handler panicked\n"))
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, handled).await {
            Ok(response) => response,
            Err(_) => text(StatusCode::GATEWAY_TIMEOUT, "the request timed out\n"),
        }
    }
}

#[cfg(test)]
mod tests;
