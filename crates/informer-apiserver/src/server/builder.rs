//! How a server is made.

use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_core::Gvr;
use informer_schema::{ExtraField, ExtraFieldError, Schema};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::ApiServer;
use crate::admission::{Admission, HookCache};
use crate::auth::{Access, Auth, PolicyCache, Tokens};
use crate::clock::{Clock, TokioClock};
use crate::controllers::ControllerManager;
use crate::faults::Faults;
use crate::http::Frontend;
use crate::http::watch::Lagging;
use crate::model::kinds::{Kind, built_in};
use crate::pipeline::allocations::Allocations;
use crate::pipeline::{ControllerQueues, Pipeline, QuotaUsage};
use crate::registry::expiry::Expiry;
use crate::registry::storage::{History, Storage, WireBytes};
use crate::registry::{Controllers, Store};
use crate::requests::RequestLog;
use crate::server::bootstrap::write_bootstrap_policy;
use crate::tls::ClientCa;
use crate::webhook::Webhooks;

/// Requests that one HTTP/2 connection may have under way, as upstream: more watches wait on the client's side.
const HTTP2_STREAMS: u32 = 100;

/// How long events stay after they were written last, as upstream.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// How a server is made; see [`ApiServer::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct ApiServerBuilder {
    clock: Option<Arc<dyn Clock>>,
    history: History,
    lagging: Lagging,
    require_namespaces: bool,
    first_version: u64,
    kinds: Vec<Kind>,
    controllers: Controllers,
    tokens: Tokens,
    client_ca: Option<ClientCa>,
    rbac: bool,
    aggregated_discovery: bool,
    compression: bool,
    allowed_hosts: Vec<String>,
    http2_streams: u32,
    event_ttl: Duration,
    schema: Option<Schema>,
}

impl ApiServerBuilder {
    /// The clock; tokio's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How far back the history reaches.
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// What happens to watchers that fall behind it.
    pub fn lagging(mut self, lagging: Lagging) -> Self {
        self.lagging = lagging;
        self
    }

    /// Refuses objects in namespaces that do not exist, as upstream does. Off by default.
    pub fn require_namespaces(mut self, require: bool) -> Self {
        self.require_namespaces = require;
        self
    }

    /// The version that the server starts at: another one than 1 makes a server that seems to have been running.
    pub fn first_version(mut self, version: u64) -> Self {
        self.first_version = version.max(1);
        self
    }

    /// Which of the cluster's controllers the server plays; all by default.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Asks for one of these bearer tokens; requests without are refused, or anonymous where [roles](Self::rbac)
    /// decide.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Takes certificates of these authorities for users, on [TLS](ApiServer::listen_tls): the common name is the user,
    /// the organizations are the groups. Requests without one need a token.
    pub fn client_ca(mut self, authorities: ClientCa) -> Self {
        self.client_ca = Some(authorities);
        self
    }

    /// Lets the stored roles and bindings decide who may do what, as `--authorization-mode=RBAC` does. Off by default:
    /// then everybody may do everything.
    pub fn rbac(mut self, rbac: bool) -> Self {
        self.rbac = rbac;
        self
    }

    /// Answers discovery in one piece to clients that ask for it, as servers since 1.26 do; by default it does.
    pub fn aggregated_discovery(mut self, aggregated: bool) -> Self {
        self.aggregated_discovery = aggregated;
        self
    }

    /// Compresses answers of more than 128 KiB for clients that ask for it, as upstream does; by default it does. Watches are not
    /// compressed. On loopback it costs more time than it saves.
    pub fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the host names under which a server without authentication may be reached over a socket, in addition to IP addresses
    /// and `localhost`.
    ///
    /// Such a server answers requests with another `Host` or a foreign `Origin` with 403, since a web page in a browser on the same
    /// machine may have sent them. A server with [tokens](Self::tokens), [certificates](Self::client_ca) or [roles](Self::rbac)
    /// checks neither.
    pub fn allowed_hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// How many requests one HTTP/2 connection may have under way, watches included; 100 by default, as upstream. What is
    /// more waits on the client's side: with few, a client whose watches share a connection waits for ever.
    pub fn http2_streams(mut self, streams: u32) -> Self {
        self.http2_streams = streams;
        self
    }

    /// How long events stay after they were written last, as `--event-ttl`: one hour by default. [`Duration::MAX`] is for ever.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Serves another kind; the built-in ones are always there.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds fields to built-in kinds, like those of a newer server: the server accepts, stores and serves them
    /// in both encodings. Clients do not know their protobuf numbers, since they have only the table of
    /// `informer-schema`. Replaces fields that were added before.
    ///
    /// ```
    /// use informer_apiserver::{ApiServer, ExtraField};
    /// use informer_core::Gvr;
    /// use serde_json::json;
    ///
    /// let shells = ExtraField::new("core.v1.Container", "shells", 200, "[]string");
    /// let server = ApiServer::builder().extra_fields(&[shells])?.build();
    /// let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a:1", "shells": ["sh"]}]}});
    /// let pod = server.create(&Gvr::new("", "v1", "pods"), "default", pod)?;
    /// assert_eq!(pod["spec"]["containers"][0]["shells"], json!(["sh"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a field cannot be added: see [`Schema::with_extra_fields`].
    pub fn extra_fields(mut self, fields: &[ExtraField]) -> Result<Self, ExtraFieldError> {
        self.schema = Some(Schema::with_extra_fields(fields)?);
        Ok(self)
    }

    /// Makes the server, with the namespaces that every cluster has.
    pub fn build(self) -> ApiServer {
        let schema = self.schema.unwrap_or_else(Schema::builtin_served);
        let kinds: Vec<Kind> = built_in(&schema).chain(self.kinds).collect();
        let store = Store {
            clock: self.clock.unwrap_or_else(|| Arc::new(TokioClock::new())),
            storage: RwLock::new(Storage::new(self.first_version, self.history)),
            registry: RwLock::default(),
            version: watch::Sender::new(self.first_version),
            webhooks: Webhooks::default(),
            schema,
            wires: WireBytes::default(),
            expiry: Expiry::new(self.event_ttl),
            require_namespaces: self.require_namespaces,
            controllers: self.controllers,
        };
        let access = Access::new(self.tokens, self.client_ca, self.rbac);
        let auth = Auth { store, access, policy: PolicyCache::default() };
        let admission = Admission { auth, hooks: HookCache::default() };
        let (allocations, queues) = (Allocations::default(), ControllerQueues::default());
        let pipeline = Pipeline { admission, quota_usage: QuotaUsage::default(), allocations, queues };
        let manager = Arc::new_cyclic(|this| ControllerManager {
            pipeline,
            crd_names: Mutex::default(),
            this: Weak::clone(this),
        });
        let shared = Arc::new(Frontend {
            manager,
            faults: Faults::default(),
            requests: RequestLog::default(),
            lagging: self.lagging,
            aggregated_discovery: self.aggregated_discovery,
            compression: self.compression,
            allowed_hosts: self.allowed_hosts,
            http2_streams: self.http2_streams,
        });
        let server = ApiServer { shared };
        for kind in kinds {
            server.register(kind);
        }
        let namespaces = Gvr::new("", "v1", "namespaces");
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            let object = serde_json::json!({"metadata": {"name": name}});
            server.create(&namespaces, "", object).expect("the first objects of a new server are valid");
        }
        if self.rbac {
            write_bootstrap_policy(&server);
        }
        server
    }
}

impl ApiServer {
    /// A server to be configured.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            clock: None,
            history: History::default(),
            lagging: Lagging::default(),
            require_namespaces: false,
            first_version: 1,
            kinds: Vec::new(),
            controllers: Controllers::default(),
            tokens: Tokens::default(),
            client_ca: None,
            rbac: false,
            aggregated_discovery: true,
            compression: true,
            allowed_hosts: Vec::new(),
            http2_streams: HTTP2_STREAMS,
            event_ttl: EVENT_TTL,
            schema: None,
        }
    }
}
