//! A Kubernetes API server to embed in tests, with faults on demand.
//!
//! It keeps objects of any kind in memory and serves them as kube-apiserver does: create, update, patch and delete
//! with resource versions; lists with paging, selectors and every way to ask for a version; watches with bookmarks,
//! streaming lists and a bounded history; discovery. And it misbehaves on command, which the real one cannot:
//! see [`Faults`].
//!
//! ```
//! use informer_apiserver::{ApiServer, FaultMatch, Verb};
//! use informer_core::Gvr;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build();
//! let pod = json!({
//!     "metadata": {"name": "web-0"},
//!     "spec": {"containers": [{"name": "main", "image": "registry.example.com/web:1"}]},
//! });
//! server.create(&Gvr::new("", "v1", "pods"), "default", pod)?;
//! server.faults().on(FaultMatch::watch("pods")).nth(1).expire();
//!
//! let listening = server.listen("127.0.0.1:0").await?;
//! println!("kubectl --server {} get --raw /api/v1/pods", listening.url());
//! listening.shutdown().await;
//! assert_eq!(server.count_requests(Verb::List, "pods"), 0);
//! # Ok(())
//! # }
//! ```
//!
//! What is served and how it is worded follows the
//! [API concepts](https://kubernetes.io/docs/reference/using-api/api-concepts/) as kube-apiserver 1.36 implements
//! them; `docs/apiserver.md` says how that is shown, and what is not served. Everybody may do everything, unless the
//! builder is given [tokens](ApiServerBuilder::tokens), [authorities of client certificates](ApiServerBuilder::client_ca),
//! or asked for [roles](ApiServerBuilder::rbac). On a socket it speaks HTTP, or TLS with the provider that the features
//! `ring` and `aws-lc-rs` bring, or that is passed; none is installed for the process.

mod admission;
mod auth;
mod clock;
mod controllers;
mod faults;
mod http;
mod model;
mod pipeline;
mod port;
mod registry;
mod requests;
mod server;
mod tls;
mod webhook;

pub use auth::{ParseTokensError, Tokens};
pub use clock::{Clock, ManualClock, Sleep, TokioClock};
pub use faults::{
    Fault, FaultAction, FaultBuilder, FaultFile, FaultMatch, FaultRule, FaultWhen, Faults, ParseFaultsError,
};
pub use http::watch::Lagging;
pub use http::{ApiBody, ApiService, BrokenOff, Listening};
pub use informer_schema::{ExtraField, ExtraFieldError};
pub use model::error::ApiError;
pub use model::kinds::Kind;
pub use model::user::User;
pub use port::ReservedPort;
pub use registry::Controllers;
pub use registry::storage::History;
pub use requests::{RequestRecord, Verb};
pub use server::{
    ApiServer, ApiServerBuilder, LoadError, RawWriter, RestoreError, RewindError, Snapshot, SnapshotError,
    Usage,
};
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
pub use tls::CertificateAuthority;
pub use tls::{Certificate, ClientCa, Tls, TlsError};
pub use webhook::Webhooks;
