//! The API server as the service of a listener.

use http::{HeaderValue, Request, Response};
use informer_http::{Certificates, Connection, Incoming, Service};

use super::browser;
use super::websocket::Handshake;
use crate::http::ApiService;
use crate::http::body::SocketBody;
use crate::http::service::GoAway;
use crate::tls::{ClientVerifier, PeerCertificate};

const CLOSE: HeaderValue = HeaderValue::from_static("close");

pub(super) struct RemoteService {
    service: ApiService,
    /// Verifies client certificates; `None` without a client CA.
    client_verifier: Option<ClientVerifier>,
}

impl RemoteService {
    pub(super) fn new(service: ApiService, client_verifier: Option<ClientVerifier>) -> Self {
        Self { service, client_verifier }
    }
}

impl Service for RemoteService {
    type Body = SocketBody;
    type Client = Option<PeerCertificate>;

    fn client(&self, certificates: Option<Certificates<'_>>) -> Option<PeerCertificate> {
        self.client_verifier.as_ref().and_then(|verifier| verifier.verify(certificates))
    }

    async fn respond(
        &self,
        mut request: Request<Incoming>,
        connection: &Connection<Option<PeerCertificate>>,
    ) -> Response<SocketBody> {
        let serving = connection.serve();
        let (head, body) = request.into_parts();
        let handshake = Handshake::of(&head);
        request = Request::from_parts(head, body);
        // The reset flag closes the whole connection, so it is only used with HTTP/1.1. Over HTTP/2 only the
        // stream is reset.
        let http1 = request.version() < http::Version::HTTP_2;
        let reset = http1.then(|| connection.reset_flag());
        if let Some(peer) = connection.client() {
            request.extensions_mut().insert(peer.clone());
        }
        // The future of a request is large, and hyper keeps its memory as long as the connection is open. The
        // box is freed when the response begins, so an idle watch does not hold that memory.
        let mut response = Box::pin(self.service.respond_remote(request, browser::check)).await;
        match response.extensions_mut().remove() {
            Some(GoAway) if http1 => {
                response.headers_mut().insert(http::header::CONNECTION, CLOSE);
            }
            Some(GoAway) => connection.close(),
            None => {}
        }
        let response = response.map(|body| body.with_reset_flag(reset));
        match handshake {
            Some(handshake) => handshake.switch(response, serving),
            None => response.map(|body| SocketBody::new(body, serving)),
        }
    }
}
