use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_core::Gvr;
use informer_schema::{ExtraField, ExtraFieldError, Schema};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::ApiServer;
use crate::admission::plugins::{self, EnabledPlugins, PluginChoice, UnknownAdmissionPlugin};
use crate::admission::{Admission, AdmissionPolicyCache, HookCache};
use crate::auth::{Access, Auth, PolicyCache, Tokens};
use crate::clock::{Clock, TokioClock};
use crate::controllers::ControllerManager;
use crate::faults::Faults;
use crate::http::Frontend;
use crate::http::watch::Lagging;
use crate::model::kinds::{KindDefinition, built_in};
use crate::pipeline::allocations::Allocations;
use crate::pipeline::{ControllerQueues, Pipeline, QuotaUsage};
use crate::registry::expiry::Expiry;
use crate::registry::storage::{History, Storage, WireBytes};
use crate::registry::{Controllers, Store};
use crate::requests::RequestLog;
use crate::server::bootstrap::BootstrapObjects;
use crate::tls::ClientCa;
use crate::webhook::Webhooks;

/// Default for the maximum number of concurrent streams of an HTTP/2 connection; the same as in
/// kube-apiserver.
const HTTP2_STREAMS: u32 = 100;

/// Default time until an Event expires after its last write; the same as in kube-apiserver.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// Builds an [`ApiServer`]; returned by [`ApiServer::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ApiServerBuilder {
    clock: Option<Arc<dyn Clock>>,
    history: History,
    lagging: Lagging,
    require_namespaces: bool,
    first_version: u64,
    kinds: Vec<KindDefinition>,
    controllers: Controllers,
    tokens: Tokens,
    client_ca: Option<ClientCa>,
    rbac: bool,
    bootstrap: bool,
    root_ca: Option<Arc<str>>,
    aggregated_discovery: bool,
    compression: bool,
    allowed_hosts: Vec<String>,
    http2_streams: u32,
    event_ttl: Duration,
    schema: Option<Arc<Schema>>,
    plugins: PluginChoice,
    web_ui: bool,
}

impl ApiServerBuilder {
    /// Sets the clock of the server. Defaults to [`TokioClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the bounds of the event history.
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Sets how the server ends a watch that falls behind the event history.
    pub fn lagging(mut self, lagging: Lagging) -> Self {
        self.lagging = lagging;
        self
    }

    /// Rejects objects in namespaces that do not exist, as kube-apiserver does. Defaults to false.
    pub fn require_namespaces(mut self, require: bool) -> Self {
        self.require_namespaces = require;
        self
    }

    /// Sets the first resourceVersion. Defaults to 1. A higher one simulates a server that was already in
    /// use.
    pub fn first_version(mut self, version: u64) -> Self {
        self.first_version = version.max(1);
        self
    }

    /// Sets which controllers of kube-controller-manager the server runs. Defaults to all.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Enables authentication with these bearer tokens. Requests without credentials get 401, or are
    /// anonymous if [RBAC](Self::rbac) is enabled.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Enables authentication with client certificates of these CAs, for [TLS](ApiServer::listen_tls)
    /// connections. The common name of a certificate is the user name, and its organizations are the groups.
    /// Requests without a certificate need a token.
    pub fn client_ca(mut self, authorities: ClientCa) -> Self {
        self.client_ca = Some(authorities);
        self
    }

    /// Enables RBAC authorization, as `--authorization-mode=RBAC` does. Defaults to false, which allows every
    /// authenticated request.
    ///
    /// The server then has the default roles of users: `cluster-admin`, `admin`, `edit`, `view`, and those
    /// for discovery and self reviews. [`bootstrap`](Self::bootstrap) adds those of components.
    pub fn rbac(mut self, rbac: bool) -> Self {
        self.rbac = rbac;
        self
    }

    /// Creates the objects that kube-apiserver creates when it starts. Defaults to false, so that a server of
    /// a test is small.
    ///
    /// These are the priority classes, flow schemas, priority levels and APIServices, the default
    /// ServiceCIDR, and the service `default/kubernetes`; with [RBAC](Self::rbac) also all default roles and
    /// bindings; with a [client CA](Self::client_ca) also the ConfigMap
    /// `kube-system/extension-apiserver-authentication`. The service has no endpoints, because a server may
    /// have several listeners.
    pub fn bootstrap(mut self, bootstrap: bool) -> Self {
        self.bootstrap = bootstrap;
        self
    }

    /// Creates the objects that each namespace of a cluster has, and restores them when they are deleted or
    /// changed: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt` with these CA certificates
    /// (PEM). Without this call namespaces are empty, as with a kube-apiserver without
    /// kube-controller-manager.
    ///
    /// The objects exist before the request that creates the namespace gets its response, unless a
    /// ResourceQuota rejects them.
    pub fn namespace_defaults(mut self, root_ca: impl Into<Arc<str>>) -> Self {
        self.root_ca = Some(root_ca.into());
        self
    }

    /// Enables admission plugins by their names in kube-apiserver, as `--enable-admission-plugins` does. The
    /// plugins that are enabled by default stay enabled. The server runs plugins in the order of
    /// kube-apiserver, independent of the order of the names.
    ///
    /// # Errors
    ///
    /// Returns an error for a name that is not one of the plugins. Webhooks, policies, ResourceQuota and
    /// NamespaceLifecycle are not among them: they are always on, except that
    /// [`require_namespaces`](Self::require_namespaces) enables the check of namespaces.
    pub fn enable_admission_plugins<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownAdmissionPlugin> {
        names.into_iter().try_for_each(|name| self.plugins.enable(name))?;
        Ok(self)
    }

    /// Disables admission plugins by their names in kube-apiserver, as `--disable-admission-plugins` does.
    ///
    /// # Errors
    ///
    /// Returns an error for a name that is not one of the plugins, like
    /// [`enable_admission_plugins`](Self::enable_admission_plugins).
    pub fn disable_admission_plugins<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownAdmissionPlugin> {
        names.into_iter().try_for_each(|name| self.plugins.disable(name))?;
        Ok(self)
    }

    /// Enables aggregated discovery, which kube-apiserver supports since 1.26. Defaults to true.
    pub fn aggregated_discovery(mut self, aggregated: bool) -> Self {
        self.aggregated_discovery = aggregated;
        self
    }

    /// Enables gzip compression of responses over 128 KiB for clients that accept it, as kube-apiserver does.
    /// Defaults to true.
    ///
    /// Watches are never compressed. On loopback, compression costs more time than it saves.
    pub fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the host names that a server without authentication accepts over a socket, in addition to IP
    /// addresses and `localhost`.
    ///
    /// A server without authentication responds with 403 to requests with another `Host` or a foreign
    /// `Origin`, because a web page in a browser on the same machine may have sent them. A server with
    /// [tokens](Self::tokens), [client certificates](Self::client_ca) or [RBAC](Self::rbac) checks neither
    /// header.
    pub fn allowed_hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum of concurrent streams (requests, including watches) per HTTP/2 connection. Defaults
    /// to 100, as in kube-apiserver.
    ///
    /// Further requests wait in the client. With a low limit, a client with many watches on one connection
    /// blocks forever.
    pub fn http2_streams(mut self, streams: u32) -> Self {
        self.http2_streams = streams;
        self
    }

    /// Sets the time until an Event expires after its last write, as `--event-ttl` does. Defaults to one
    /// hour. With [`Duration::MAX`] Events never expire.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Serves a web UI at [`Listening::web_ui_url`](crate::Listening::web_ui_url). Defaults to false.
    ///
    /// The web UI shows requests, open watches, fault rules, and the number of objects and changes of each
    /// kind. It can add and remove fault rules, inject a fault into an open watch, and rewind or compact the
    /// server. Its own requests are not logged, and fault rules do not match them.
    ///
    /// The user of the web UI needs all permissions on the non-resource URL `/debug/apiserver/*` if
    /// [RBAC](Self::rbac) is enabled. A browser sends no bearer token, so a server with
    /// [tokens](Self::tokens) needs [client certificates](Self::client_ca) or a proxy for it.
    pub fn web_ui(mut self, web_ui: bool) -> Self {
        self.web_ui = web_ui;
        self
    }

    /// Registers a custom kind in addition to the built-in kinds.
    pub fn kind(mut self, kind: KindDefinition) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds fields to built-in kinds, to simulate a newer server. Replaces the fields of an earlier call.
    ///
    /// The server accepts, stores and serves the fields in JSON and protobuf. Clients of this workspace
    /// cannot decode the fields from protobuf, because they use the built-in schema of `informer-schema`.
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
    /// Returns an error if a field is invalid: see [`Schema::with_extra_fields`].
    pub fn extra_fields(mut self, fields: &[ExtraField]) -> Result<Self, ExtraFieldError> {
        self.schema = Some(Arc::new(Schema::with_extra_fields(fields)?));
        Ok(self)
    }

    /// Builds the server and creates the namespaces `default`, `kube-system`, `kube-public` and
    /// `kube-node-lease`.
    pub fn build(self) -> ApiServer {
        let schema = self.schema.unwrap_or_else(Schema::builtin_served);
        let kinds: Vec<KindDefinition> = built_in(&schema).chain(self.kinds).collect();
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
        let client_ca = self.client_ca.as_ref().map(|authorities| Arc::clone(authorities.pem()));
        let access = Access::new(self.tokens, self.client_ca, self.rbac);
        let auth = Auth { store, access, policy: PolicyCache::default() };
        let plugins = EnabledPlugins::new(&self.plugins);
        let admission = Admission {
            auth,
            hooks: HookCache::default(),
            policies: AdmissionPolicyCache::default(),
            plugins,
        };
        let (allocations, queues) = (Allocations::default(), ControllerQueues::default());
        let root_ca = self.root_ca;
        let pipeline =
            Pipeline { admission, quota_usage: QuotaUsage::default(), allocations, queues, root_ca };
        let manager = Arc::new_cyclic(|this| ControllerManager {
            pipeline,
            crd_names: Mutex::default(),
            prompt: Mutex::default(),
            background: Mutex::default(),
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
            web_ui: self.web_ui,
        });
        let server = ApiServer { shared };
        for kind in kinds {
            server.register(kind);
        }
        let namespaces = Gvr::new("", "v1", "namespaces");
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            let object = serde_json::json!({"metadata": {"name": name}});
            server.create(&namespaces, "", object).expect("the initial objects of a server are valid");
        }
        BootstrapObjects { rbac: self.rbac, all: self.bootstrap, client_ca }.create(&server);
        server
    }
}

impl ApiServer {
    /// Returns the names of the admission plugins that a [builder](Self::builder) can enable and disable, in
    /// the order in which they run.
    pub fn admission_plugins() -> impl Iterator<Item = &'static str> {
        plugins::names()
    }

    /// Returns a builder for a server with the default configuration.
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
            bootstrap: false,
            root_ca: None,
            aggregated_discovery: true,
            compression: true,
            allowed_hosts: Vec::new(),
            http2_streams: HTTP2_STREAMS,
            event_ttl: EVENT_TTL,
            schema: None,
            plugins: PluginChoice::default(),
            web_ui: false,
        }
    }
}
