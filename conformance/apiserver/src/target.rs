//! Requests to the embedded or the real API server, behind one interface.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use informer_apiserver::{ApiServer, Controllers, Tokens};
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a request that got no response.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The server cannot be reached, or closed the connection early.
    #[error("the connection to the server failed")]
    Connection(#[source] BoxError),
    /// The server did not respond in time.
    #[error("the server did not respond within {} seconds", PATIENCE.as_secs())]
    Silence,
    /// The request in the scenario is invalid.
    #[error("the request cannot be built")]
    Request(#[from] http::Error),
}

pub(crate) type Stream = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// A server on which scenarios run.
#[derive(Debug)]
pub enum Target {
    /// The embedded server in this process, called without a socket.
    Embedded(ApiServer),
    /// A kube-apiserver, called over TLS on the loopback interface.
    Real {
        /// The port of the kube-apiserver.
        port: u16,
        /// A TLS configuration that trusts the certificate of the server.
        tls: Arc<rustls::ClientConfig>,
    },
}

impl Target {
    /// Creates the embedded server with the same configuration as the real one.
    pub fn embedded() -> Self {
        let users: Tokens =
            include_str!("../users.csv").parse().expect("the users of this package are valid");
        // The first version is large, since versions with several digits can be distinguished from other
        // numbers.
        let builder = ApiServer::builder().first_version(100_000).require_namespaces(true);
        let builder = builder
            .enable_admission_plugins(["OwnerReferencesPermissionEnforcement"])
            .expect("the server has this plugin");
        Self::Embedded(builder.tokens(users).rbac(true).controllers(Controllers::NONE).build())
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Stream>, SendError> {
        let response = async {
            match self {
                Self::Embedded(server) => {
                    let response =
                        server.service().oneshot(request).await.unwrap_or_else(|never| match never {});
                    Ok(response.map(|body| Box::pin(body.map_err(Into::into)) as Stream))
                }
                Self::Real { port, tls } => over_tls(*port, Arc::clone(tls), request).await,
            }
        };
        tokio::time::timeout(PATIENCE, response)
            .await
            .map_err(|_| SendError::Silence)?
            .map_err(SendError::Connection)
    }
}

/// Sends a request to the real server. Each request uses its own connection, so that a broken connection does
/// not affect the next step.
async fn over_tls(
    port: u16,
    tls: Arc<rustls::ClientConfig>,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Stream>, BoxError> {
    let socket = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let socket = TlsConnector::from(tls).connect(name, socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    // The connection's task ends together with the request, so no other task waits for it.
    drop(tokio::spawn(connection));
    let host = format!("127.0.0.1:{port}");
    request.headers_mut().insert(http::header::HOST, host.parse()?);
    let response = sender.send_request(request).await?;
    // The sender is kept until the body is read, because a connection without its sender delivers no body.
    Ok(response.map(|body| Box::pin(body.map_err(Into::into)) as Stream))
}

pub(crate) async fn read_all(mut body: Stream) -> Result<Vec<u8>, SendError> {
    let all = async {
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                all.extend_from_slice(&data);
            }
        }
        Ok(all)
    };
    tokio::time::timeout(PATIENCE, all).await.map_err(|_| SendError::Silence)?.map_err(SendError::Connection)
}

pub(crate) struct Lines {
    body: Stream,
    rest: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(body: Stream) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// Returns the next line of the stream; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, SendError> {
        let line = async {
            loop {
                if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    return Ok(Some(self.rest.drain(..=end).collect()));
                }
                match self.body.frame().await {
                    Some(frame) => {
                        if let Ok(data) = frame?.into_data() {
                            self.rest.extend_from_slice(&data);
                        }
                    }
                    None => return Ok(None),
                }
            }
        };
        tokio::time::timeout(PATIENCE, line)
            .await
            .map_err(|_| SendError::Silence)?
            .map_err(SendError::Connection)
    }
}
