//! How a server is bound to a socket.

use std::io;

use tokio::net::TcpListener;

use super::ApiServer;
use crate::http::Listening;
use crate::tls::{Tls, TlsError};

impl ApiServer {
    /// Listens on an address, as `127.0.0.1:0`: HTTP/1.1, and HTTP/2 with prior knowledge. Everybody on the way can read
    /// and change what is sent, so this is for loopback.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn listen(&self, addr: impl tokio::net::ToSocketAddrs) -> io::Result<Listening> {
        Listening::start(&self.shared, TcpListener::bind(addr).await?, None)
    }

    /// Listens on an address over TLS: HTTP/2 or HTTP/1.1, as the client prefers. With
    /// [authorities for users](crate::ApiServerBuilder::client_ca) clients are asked for a certificate; one that proves
    /// nothing is answered 401, as upstream.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, or the authorities cannot be used.
    pub async fn listen_tls(
        &self,
        addr: impl tokio::net::ToSocketAddrs,
        tls: Tls,
    ) -> Result<Listening, TlsError> {
        let accepting = tls.configure(self.shared.access.client_ca.as_ref())?;
        let listener = TcpListener::bind(addr).await?;
        let tls = Some((accepting, tls.authorities().to_owned()));
        Ok(Listening::start(&self.shared, listener, tls)?)
    }
}
