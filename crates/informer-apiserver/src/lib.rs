//! An embedded Kubernetes API server for tests, with fault injection.
//!
//! The server keeps all objects in memory and behaves like kube-apiserver:
//!
//! - create, update, patch, server-side apply and delete with optimistic concurrency by `resourceVersion`;
//! - lists with paging, selectors and `resourceVersionMatch`;
//! - watches with bookmarks, streaming lists and a bounded history;
//! - discovery and OpenAPI.
//!
//! It also injects faults, which kube-apiserver cannot: see [`Faults`].
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
//! The behavior and the messages follow the [API
//! concepts](https://kubernetes.io/docs/reference/using-api/api-concepts/) as implemented by kube-apiserver
//! 1.36. `docs/apiserver.md` describes how this is verified, and what is not supported.
//!
//! By default every request is allowed. Authentication and authorization are enabled with
//! [tokens](ApiServerBuilder::tokens), [CAs of client certificates](ApiServerBuilder::client_ca) or
//! [RBAC](ApiServerBuilder::rbac).
//!
//! A listening server uses plain HTTP, or TLS with a rustls crypto provider: the one of the features `ring`
//! and `aws-lc-rs`, or one that the caller passes. The crate installs no process-wide provider.

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

pub use admission::plugins::UnknownAdmissionPlugin;
pub use auth::{ParseTokensError, Tokens};
pub use clock::{Clock, ManualClock, Sleep, TokioClock};
pub use faults::{
    Fault, FaultAction, FaultBuilder, FaultFile, FaultMatch, FaultRule, FaultScript, FaultWhen, Faults,
    ParseFaultsError, ParseScriptError, RequestHook, RunFault, ScheduledFault, ScriptInjector,
    ScriptShrinker, WriteFaults,
};
pub use http::watch::Lagging;
pub use http::{ApiBody, ApiService, BrokenOff, Listening};
pub use informer_schema::{ExtraField, ExtraFieldError};
pub use model::error::ApiError;
pub use model::kinds::KindDefinition;
pub use model::user::User;
pub use port::ReservedPort;
pub use registry::Controllers;
pub use registry::storage::History;
pub use requests::{RequestRecord, Verb, is_dry_run, is_volatile};
pub use server::{
    ApiServer, ApiServerBuilder, LoadError, ObjectChange, RawWriter, RestoreError, RewindError, Snapshot,
    SnapshotError, Usage,
};
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
pub use tls::CertificateAuthority;
pub use tls::{Certificate, ClientCa, Tls, TlsError};
pub use webhook::Webhooks;
