//! The HTTP and TLS servers of `informer-runtime` (probes, metrics, webhooks) and of `informer-apiserver`.
//!
//! This crate is internal. It is published because those crates depend on it, and its API changes without
//! notice.
//!
//! A [`Server`] accepts connections, limits and times them, and drains them; a [`Service`] responds to the
//! requests. Timeouts ([`Timeouts`]), the connection limit and the backoff after a failed `accept` are pure
//! states. They run on a [`Clock`], which a test advances.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use http::{Request, Response};
//! use informer_http::{
//!     Certificates, Connection, Incoming, Server, ServerOptions, Service, Timeouts, TokioClock,
//! };
//!
//! struct Hello;
//!
//! impl Service for Hello {
//!     type Body = String;
//!     type Client = ();
//!
//!     fn client(&self, _: Option<Certificates<'_>>) {}
//!
//!     async fn respond(&self, _: Request<Incoming>, connection: &Connection<()>) -> Response<String> {
//!         let _serving = connection.serve();
//!         Response::new("hello".to_owned())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let second = Duration::from_secs(1);
//! let options = ServerOptions {
//!     clock: Arc::new(TokioClock::default()),
//!     tls: None,
//!     max_connections: 512,
//!     timeouts: Timeouts { head: 32 * second, idle: 90 * second, response: 60 * second },
//!     http2: None,
//! };
//! let server = Server::start(listener, options, Hello)?;
//! assert_eq!(server.drain(10 * second).await, 0, "no connection was cut");
//! # Ok(()) }
//! ```

mod backoff;
mod clock;
mod connection;
mod monitor;
mod server;
mod service;
mod slots;
mod socket;
mod timer;
mod tls;

pub use clock::{Clock, Sleep, TokioClock};
pub use hyper::body::Incoming;
pub use monitor::LongRunning;
pub use server::{Server, ServerOptions};
pub use service::{Certificates, Connection, Http2Options, Service};
pub use slots::Serving;
pub use socket::ResetFlag;
pub use timer::Timeouts;
pub use tls::{
    AuthorityError, CertificateReloader, PairError, Tls, TlsConfig, TlsError, authorities, certified_key,
    default_provider, server_config,
};
