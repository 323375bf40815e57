use std::future::Future;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::slots::{Serving, Slot};
use crate::socket::ResetFlag;

/// The certificate chain of a client, with its own certificate first.
pub type Certificates<'a> = &'a [CertificateDer<'static>];

/// Responds to the requests of a server.
pub trait Service: Send + Sync + 'static {
    /// The body of a response. If it fails, the connection ends; over HTTP/2 only the stream.
    type Body: Body<Data: Send + 'static, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static;
    /// The client of a connection, for example its identity.
    type Client: Send + Sync + 'static;

    /// Returns the client of a new connection. `certificates` are those of its TLS handshake; without TLS, or
    /// if the client sent none, `None`.
    fn client(&self, certificates: Option<Certificates<'_>>) -> Self::Client;

    /// Responds to one request. A panic ends the connection; over HTTP/2 only the stream.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped if the connection ends before the response.
    fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Connection<Self::Client>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// A connection of a server, as its [`Service`] sees it.
#[derive(Debug)]
pub struct Connection<C> {
    pub(crate) client: C,
    pub(crate) slot: Arc<Slot>,
    pub(crate) reset: ResetFlag,
    /// Notified when the connection must not accept further requests.
    pub(crate) closing: Notify,
}

impl<C> Connection<C> {
    /// Returns the client of the connection.
    pub fn client(&self) -> &C {
        &self.client
    }

    /// Marks the connection as serving a request until the returned guard is dropped. Meanwhile it is not
    /// closed in favor of a new connection. A connection without a guard counts as waiting for its client.
    pub fn serve(&self) -> Serving {
        Slot::serve(&self.slot)
    }

    /// Accepts no more requests, and closes the connection after those in flight. Over HTTP/2 the client gets
    /// GOAWAY. Over HTTP/1.1 the service should also send `Connection: close`.
    pub fn close(&self) {
        self.closing.notify_one();
    }

    /// Returns the flag that makes the connection end with RST instead of FIN.
    pub fn reset_flag(&self) -> ResetFlag {
        self.reset.clone()
    }
}
