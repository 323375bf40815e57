//! Shared informers, indexed caches, work queues and controllers for Kubernetes.
//!
//! An *informer* lists and watches one kind of object, keeps an indexed local copy, and notifies any number
//! of handlers of changes. Controllers are built on it. In Go these parts are client-go and
//! controller-runtime. This crate provides them for Rust, with caches that take a fraction of the memory, and
//! with an API server that runs inside a test.
//!
//! # An informer with an index and a handler
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use informer::prelude::*;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let factory = SharedInformerFactory::new(Client::try_default().await?);
//! let pods = factory.informer::<Pod>().index("node", field("spec.nodeName"));
//! pods.on_event(|event| println!("{event}"))?;
//! factory.start();
//! // An error names the informers that have not synced, and why.
//! factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
//! for pod in pods.lister().namespace("default").list(&"app in (web, api)".parse()?) {
//!     println!("{}", pod.key());
//! }
//! for pod in pods.by_index("node", "worker-1")? {
//!     println!("{}", pod.get()?.spec.as_ref().map_or(0, |spec| spec.containers.len()));
//! }
//! # Ok(()) }
//! ```
//!
//! # Events as a stream
//!
//! ```no_run
//! use informer::prelude::*;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # async fn example(pods: SharedInformer<Lazy<Pod>>) {
//! let mut events = pods.events();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Added { object, initial } => println!("+ {} {initial}", object.key()),
//!         Event::Updated { old, new, .. } => println!("{} -> {}", old.resource_version(), new.resource_version()),
//!         Event::Deleted { last, .. } => println!("- {}", last.key()),
//!     }
//! }
//! # }
//! ```
//!
//! # A controller
//!
//! With the feature `runtime`:
//!
//! ```no_run
//! # #[cfg(feature = "runtime")]
//! # mod example {
//! use std::time::Duration;
//!
//! use informer::prelude::*;
//! # use informer::runtime::ManagerError;
//! # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap as Website};
//! # fn deployment_for(_: &Website) -> Deployment { Deployment::default() }
//!
//! # async fn example(client: Client) -> Result<(), ManagerError> {
//! Manager::new(client)
//!     .controller(Controller::new::<Website>("website").owns::<Deployment>().reconcile(|request, ctx| async move {
//!         let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
//!         ctx.client.apply(&deployment_for(&site)).await?;
//!         Ok(Outcome::requeue_after(Duration::from_secs(60)))
//!     }))
//!     .run_until(ctrl_c())
//!     .await
//! # }
//! # }
//! ```
//!
//! # A test, without a cluster
//!
//! With the feature `testing`, see the module `testing`.
//!
//! # Modules
//!
//! | for | see |
//! |---|---|
//! | informers, handlers, listers, indexes | [`cache`] |
//! | connections, representations of objects, kinds | `client` (feature `client`) |
//! | queues of keys and workers | [`workqueue`] |
//! | managers, controllers, clients that read from a cache | `runtime` (feature `runtime`) |
//! | admission and conversion webhooks | `webhook` (feature `webhook`) |
//! | an API server inside a test | `testing` (feature `testing`) |
//! | sources that are not Kubernetes | [`source`] |
//! | the types that most programs use | [`prelude`] |
//!
//! This page has the types that all modules share: objects, keys, versions, selectors.
//!
//! # Guarantees
//!
//! - Each handler sees a legal history of each object: an add, updates in order, a delete.
//! - When a handler receives an event, the cache shows the state of that event or a later one.
//! - A slow or panicking handler delays no other handler. Reads never wait for writers.
//! - No response of a server makes the cache lose objects that it holds.
//!
//! The contracts are on [`SharedInformer`](cache::SharedInformer), [`Event`](cache::Event) and
//! [`reflector`](cache::reflector).
//!
//! # Features
//!
//! | feature | for |
//! |---|---|
//! | `client` (default) | lists and watches of Kubernetes API servers |
//! | `runtime` (default) | caches, managers, controllers |
//! | `derive` (default) | the derive `CustomResource` of kube |
//! | `schema` | CRDs generated from types that derive `schemars::JsonSchema` |
//! | `latest` (default) | the newest version of the Kubernetes types |
//! | `ring` (default), `aws-lc-rs` | the crypto provider of TLS |
//! | `webhook` | admission and conversion webhooks |
//! | `certificates` | certificates of servers that the program generates and renews |
//! | `ws` | exec, attach and port-forward of pods |
//! | `oidc`, `oauth` | credentials of the auth providers `oidc` and `gcp`; need `ring` or `aws-lc-rs` |
//! | `otel` | trace contexts of OpenTelemetry in requests and objects |
//! | `testing` | an API server inside a test |
//! | `packed` | objects that are held compressed |
//! | `prometheus` | metrics of informers, queues and controllers |
//! | `console` | a page in the browser that shows informers, queues and controllers live |
//!
//! The modules `k8s_openapi` and `kube_core` are the crates of these names. For another version of the
//! Kubernetes types, a program leaves out `latest` and depends on `k8s-openapi` with the feature of that
//! version.
//!
//! Code that the derive generates refers to `kube_core` and `k8s_openapi`:
//!
//! ```
//! # #[cfg(all(feature = "derive", feature = "client"))]
//! # mod example {
//! use informer::CustomResource;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Website", namespaced, schema = "disabled")]
//! #[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
//! struct WebsiteSpec {
//!     image: String,
//! }
//! # }
//! ```

pub mod cache;
#[cfg(feature = "client")]
pub mod client;
pub mod prelude;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod source;
#[cfg(feature = "testing")]
pub mod testing;
pub mod workqueue;

pub use informer_core::{
    FieldOperator, FieldPath, FieldRequirement, FieldSelector, FieldSelectorProblem, Gvk, Gvr, Header,
    KeyError, LabelOperator, LabelRequirement, LabelSelector, Labels, Object, ObjectKey, OwnerReference,
    ParseFieldPathError, ParseFieldSelectorError, ParseGvError, ParseKeyError, ParseLabelSelectorError,
    ResourceVersion, Tombstone,
};
#[cfg(feature = "derive")]
pub use kube_derive::CustomResource;
#[cfg(feature = "webhook")]
pub use runtime::webhook;
/// A token whose cancellation stops a reflector or controller that runs without an informer or a manager. It
/// is re-exported from `tokio_util`.
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "client")]
pub use {k8s_openapi, kube_client, kube_core};
