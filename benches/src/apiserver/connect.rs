//! Connections to a server: HTTP/1.1 on separate sockets, with TLS if the URL requires it. The embedded
//! server in this process is called without a socket.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use informer_apiserver::{ApiBody, ApiServer, ApiService};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::Failure;

/// The number of bytes of a socket read. With the 4 KB that rustls reads by default, this client would be
/// slower than the server and limit the measured throughput.
pub(crate) const READ_BYTES: usize = 64 << 10;

pub(crate) type Body = Either<Incoming, ApiBody>;

#[derive(Clone)]
pub(crate) struct Target {
    place: Transport,
    token: Option<HeaderValue>,
}

#[derive(Clone)]
enum Transport {
    Socket { address: String, tls: Option<TlsConnector> },
    Here(ApiService),
}

pub(crate) struct Connection {
    sender: Sender,
    host: String,
    token: Option<HeaderValue>,
}

#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
}

enum Sender {
    Socket(SendRequest<Full<Bytes>>),
    Here(ApiService),
}

impl<'a> Ask<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, content_type: "", accept: "application/json" }
    }

    pub(crate) fn post(path: &'a str) -> Self {
        Self { method: "POST", content_type: "application/json", ..Self::get(path) }
    }

    pub(crate) fn patch(path: &'a str) -> Self {
        Self { method: "PATCH", content_type: "application/merge-patch+json", ..Self::get(path) }
    }
}

impl Target {
    pub(crate) fn new(url: &str, authority: Option<&Path>, token: Option<&str>) -> Result<Self, Failure> {
        let (scheme, address) = url.split_once("://").ok_or("a URL begins with http:// or https://")?;
        let tls = match scheme {
            "https" => Some(connector(authority.ok_or("https needs --authority")?)?),
            _ => None,
        };
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}"))).transpose()?;
        let address = address.trim_end_matches('/').to_owned();
        Ok(Self { place: Transport::Socket { address, tls }, token })
    }

    pub(crate) fn here() -> Self {
        Self { place: Transport::Here(ApiServer::builder().build().service()), token: None }
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let token = self.token.clone();
        let (address, tls) = match &self.place {
            Transport::Socket { address, tls } => (address, tls),
            Transport::Here(service) => {
                return Ok(Connection {
                    sender: Sender::Here(service.clone()),
                    host: "here".to_owned(),
                    token,
                });
            }
        };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let sender = match tls {
            None => handshake(stream).await?,
            Some(tls) => {
                let stream = BufReader::with_capacity(READ_BYTES, stream);
                handshake(tls.connect(ServerName::try_from("127.0.0.1")?, stream).await?).await?
            }
        };
        Ok(Connection { sender: Sender::Socket(sender), host: address.clone(), token })
    }
}

fn connector(authority: &Path) -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

impl Connection {
    /// Sends a request, and returns the response when its headers arrive.
    pub(crate) async fn ask(&mut self, ask: Ask<'_>, body: Bytes) -> Result<Response<Body>, Failure> {
        let mut request =
            Request::builder().method(ask.method).uri(ask.path).header(header::HOST, &self.host);
        request = request.header(header::ACCEPT, ask.accept);
        if !ask.content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, ask.content_type);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::new(body))?;
        match &mut self.sender {
            Sender::Socket(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?.map(Either::Left))
            }
            Sender::Here(service) => Ok(service.call(request).await?.map(Either::Right)),
        }
    }

    /// Sends a request that must succeed, and reads the response body to its end. Returns the length and the
    /// last byte of the body.
    pub(crate) async fn read(&mut self, ask: Ask<'_>, body: Bytes) -> Result<(usize, u8), Failure> {
        let response = self.ask(ask, body).await?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let told = body.collect().await?.to_bytes();
            return Err(
                format!("{} {}: {status} {}", ask.method, ask.path, String::from_utf8_lossy(&told)).into()
            );
        }
        let (mut length, mut last) = (0, 0);
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                length += data.len();
                last = data.last().copied().unwrap_or(last);
            }
        }
        Ok((length, last))
    }
}
