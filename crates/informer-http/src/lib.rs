//! The HTTP and TLS servers of `informer-runtime` (probes, metrics, webhooks) and of `informer-apiserver`.
//!
//! This crate is internal. It is published because those crates depend on it. Its API may change without
//! notice.
//!
//! A [`Server`] accepts connections, enforces their limit and their timeouts, and drains them. A [`Service`]
//! responds to the requests. The timeouts ([`Timeouts`]), the connection limit and the backoff after a failed
//! `accept` are state machines without I/O. Their time is that of a [`Clock`], which a test can advance. An
//! [`OriginPolicy`] rejects requests that a web page of another site has caused.

mod backoff;
mod clock;
mod connection;
mod monitor;
mod options;
mod origin;
mod server;
mod service;
mod slots;
mod socket;
mod stream_executor;
mod timer;
mod tls;
mod upgrade;

pub use clock::{Clock, Sleep, TokioClock};
pub use hyper::body::Incoming;
pub use monitor::LongRunning;
pub use options::ServerOptions;
pub use origin::{ForeignRequest, OriginPolicy};
pub use rustls::ServerConfig;
pub use server::Server;
pub use service::{Certificates, Connection, Service};
pub use slots::Serving;
pub use socket::ResetFlag;
pub use timer::Timeouts;
pub use tls::{
    CertificateReloader, PemError, Tls, TlsConfig, TlsError, TlsOptions, TlsOptionsError, TlsVersion,
    authorities, certified_key, default_provider, server_config,
};
pub use upgrade::{Upgrade, UpgradedIo};
