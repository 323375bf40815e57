use std::sync::Arc;

use crate::clock::Clock;
use crate::timer::Timeouts;
use crate::tls::TlsConfig;

/// The settings of a [`Server`](crate::Server).
#[derive(Debug)]
pub struct ServerOptions {
    /// The clock of all timeouts and delays, except for that of [`Server::drain`](crate::Server::drain).
    pub clock: Arc<dyn Clock>,
    /// The TLS configuration; `None` for plain HTTP.
    pub tls: Option<TlsConfig>,
    /// The maximum number of open connections. Beyond it, the connection that has waited for its client for
    /// the longest time is closed in favor of a new one. Connections that serve a request are not closed; if
    /// all do, the new connection waits.
    pub max_connections: usize,
    /// The timeouts of each connection.
    pub timeouts: Timeouts,
    /// The maximum number of concurrent HTTP/2 streams of a connection; `None` to accept only HTTP/1.1.
    pub http2_streams: Option<u32>,
}
