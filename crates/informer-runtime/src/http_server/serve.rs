//! The loop that accepts connections to an HTTP server, and the task of each connection.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Access;
use super::slots::{Slot, Slots};
use super::tls::Acceptor;
use super::write_timeout::WriteTimeout;
use super::{
    Address, DRAIN_TIMEOUT, HEADER_TIMEOUT, HttpServer, ListenError, MAX_CONNECTIONS, REQUEST_TIMEOUT,
    RESPONSE_TIMEOUT, Routes, text,
};
use crate::BoxError;

/// The delay after a failed `accept`. `accept` usually fails because the process has no free file descriptor;
/// descriptors are released when connections end.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Clone)]
struct ConnectionContext {
    routes: Routes,
    access: Option<Arc<Access>>,
    body_max: usize,
    stop: CancellationToken,
}

pub(super) async fn run(server: HttpServer, stop: CancellationToken) -> Result<(), BoxError> {
    let HttpServer { name, address, routes, tls, access, body_max, bound, .. } = server;
    let tls = match tls {
        Some(tls) => Some(tls.load().await?),
        None => None,
    };
    let listener = listen(&name, address).await?;
    bound.send_replace(listener.local_addr().ok());
    let context = ConnectionContext { routes, access, body_max, stop: stop.clone() };
    let connections = TaskTracker::new();
    let slots = Slots::new(MAX_CONNECTIONS);
    let accepting = accept(&listener, tls.as_ref(), (&slots, &context), &connections);
    let watching = async {
        match &tls {
            Some(tls) => tls.watch().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = accepting => {}
        () = watching => {}
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(
            server = name,
            open = connections.len(),
            "connections did not end within the drain timeout"
        );
    }
    Ok(())
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

/// Accepts connections until the future is dropped. A connection is accepted even if the server has its
/// maximum number of connections, because an idle connection may then be closed in favor of the new one.
async fn accept(
    listener: &TcpListener,
    tls: Option<&Acceptor>,
    server: (&Slots, &ConnectionContext),
    connections: &TaskTracker,
) {
    let (slots, context) = server;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let slot = Arc::new(slots.take().await);
                let (tls, context) = (tls.map(Acceptor::acceptor), context.clone());
                connections.spawn(async move {
                    tokio::select! {
                        biased;
                        () = slot.closed() => tracing::debug!("closed a connection to make room for another"),
                        () = connection(stream, tls, context, Arc::clone(&slot)) => {}
                    }
                });
            }
            Err(error) => {
                let address = listener.local_addr().ok();
                tracing::warn!(
                    ?address,
                    error = &error as &dyn std::error::Error,
                    "failed to accept a connection"
                );
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tls: Option<TlsAcceptor>,
    context: ConnectionContext,
    slot: Arc<Slot>,
) {
    let Some(tls) = tls else { return exchange(stream, context, slot).await };
    match tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, context, slot).await,
        Ok(Err(error)) => tracing::debug!(error = &error as &dyn std::error::Error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

/// Serves the requests of one connection. Closes the connection if the client sends no complete request head
/// within [`HEADER_TIMEOUT`] after it has connected or received a response.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: ConnectionContext,
    slot: Arc<Slot>,
) {
    let stop = context.stop.clone();
    let service = service_fn(move |request| {
        let (context, slot) = (context.clone(), Arc::clone(&slot));
        async move { Ok::<_, Infallible>(respond(request, &context, &slot).await.map(Full::new)) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let stream = TokioIo::new(WriteTimeout::new(stream, RESPONSE_TIMEOUT));
    let mut connection = pin!(builder.serve_connection(stream, service));
    tokio::select! {
        biased;
        _ = &mut connection => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn respond(request: Request<Incoming>, context: &ConnectionContext, slot: &Slot) -> Response<Bytes> {
    let Some(handler) = context.routes.find(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let (head, body) = request.into_parts();
    let handled = async {
        if let Some(access) = &context.access
            && let Err(refused) = access.check(&head).await
        {
            return text(refused.status(), format!("{refused}\n"));
        }
        let body = match Limited::new(body, context.body_max).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
            }
            Err(_) => return text(StatusCode::BAD_REQUEST, "the body is incomplete\n"),
        };
        let _serving = slot.serve();
        // The handler is called inside the async block, so that `catch_unwind` also catches a panic that
        // occurs before the handler returns its future.
        AssertUnwindSafe(async { handler(Request::from_parts(head, body)).await })
            .catch_unwind()
            .await
            .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "the handler panicked\n"))
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, handled).await {
        Ok(response) => response,
        Err(_) => text(StatusCode::GATEWAY_TIMEOUT, "the request timed out\n"),
    }
}

#[cfg(test)]
mod tests;
