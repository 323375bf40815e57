use std::io;

use tokio::net::TcpListener;

use super::ApiServer;
use crate::http::Listening;
use crate::tls::{Tls, TlsError};

impl ApiServer {
    /// Listens on an address, for example `127.0.0.1:0`, without TLS: HTTP/1.1, and HTTP/2 with prior
    /// knowledge.
    ///
    /// The traffic is neither encrypted nor authenticated, so use loopback addresses only.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound.
    pub async fn listen(&self, addr: impl tokio::net::ToSocketAddrs) -> io::Result<Listening> {
        Listening::start(&self.shared, TcpListener::bind(addr).await?, None)
    }

    /// Listens on an address with TLS: HTTP/2 if the client supports it (ALPN), else HTTP/1.1.
    ///
    /// With a [client CA](crate::ApiServerBuilder::client_ca), the server requests client certificates.
    /// Requests with an invalid certificate get 401.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound or the client CA is invalid.
    pub async fn listen_tls(
        &self,
        addr: impl tokio::net::ToSocketAddrs,
        tls: Tls,
    ) -> Result<Listening, TlsError> {
        let listener_tls = tls.configure(self.shared.access.client_ca.as_ref())?;
        let listener = TcpListener::bind(addr).await?;
        let tls = Some((listener_tls, tls.authorities().to_owned()));
        Ok(Listening::start(&self.shared, listener, tls)?)
    }
}
