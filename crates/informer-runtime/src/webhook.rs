//! Admission and conversion webhooks.
//!
//! Invalid requests to a webhook get an error response, and cause neither a panic nor a hang. Such requests
//! have a body that is too large, has another content type, is not JSON, or contains another kind. Responses
//! contain the uid of the request if it could be read.

mod access;
mod admission;
mod configuration;
mod conversion;
mod function;
#[cfg(feature = "prometheus")]
mod metrics;
mod options;
mod patch;
mod raw;
mod registered;
mod review;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "prometheus")]
use std::sync::OnceLock;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use informer_client::{ListKeys, StaticResource};
use informer_core::{Gvk, Gvr};
use k8s_openapi::api::authentication::v1::{TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::authorization::v1::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use admission::{
    AdmissionOperation, AdmissionRequest, AdmissionUser, Allowed, Denied, UndecodableObject,
};
pub use configuration::WebhookConfigurations;
pub use conversion::Conversion;
pub use function::{Defaulter, Validator};
pub use options::{FailurePolicy, WebhookOptions};
pub use registered::RegisteredWebhook;
use review::ReviewResponse;

#[cfg(feature = "prometheus")]
use crate::http_server::CertificateMetrics;
use crate::http_server::text;
use crate::{BoxError, HttpServer, RunnableGroup, ServerTls, TlsOptions};
#[cfg(feature = "prometheus")]
pub(crate) use metrics::WebhookMetrics;

/// The maximum size in bytes of a request body, as in controller-runtime. It has room for an old and a new
/// object of the maximum size that etcd stores.
const MAX_BODY_BYTES: usize = 7 << 20;

/// The default address of a webhook server: port 9443 on all interfaces, as in controller-runtime.
const ADDRESS: &str = "0.0.0.0:9443";

/// The path of all conversions.
const CONVERT: &str = "/convert";

/// Serves admission and conversion webhooks over HTTPS. It belongs to [`RunnableGroup::Webhooks`], so it
/// listens before caches start: the API server may need its conversions to serve their lists.
///
/// The paths are those of controller-runtime, so that its markers and manifests can be used:
/// `/validate-GROUP-VERSION-KIND` and `/mutate-GROUP-VERSION-KIND`, with the dots of the group replaced by
/// dashes and the kind in lower case, and `/convert`.
///
/// ```no_run
/// use informer_runtime::webhook::{Allowed, Denied, WebhookServer};
/// use informer_runtime::Tls;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn example(tls: Tls) {
/// let webhooks = WebhookServer::new(tls)
///     .validate::<ConfigMap>(|request| async move {
///         match request.object.and_then(|map| map.data) {
///             Some(data) if data.contains_key("password") => Err(Denied::new("put passwords into a Secret")),
///             _ => Ok(Allowed::new()),
///         }
///     })
///     .default::<ConfigMap>(|_, mut map| async move {
///         map.metadata.labels.get_or_insert_default().insert("managed".to_owned(), "yes".to_owned());
///         Ok(map)
///     });
/// # drop(webhooks);
/// # }
/// ```
///
/// Upstream: [`webhook`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/webhook).
#[must_use = "add it to a manager"]
pub struct WebhookServer {
    server: HttpServer,
    /// True if the server has no certificate, so that no manager can run it.
    standalone: bool,
    list_keys: HashMap<Gvk, ListKeys>,
    registered: Vec<RegisteredWebhook>,
    /// The metrics of reviews; set when the server is added to a manager, because the metrics belong to the
    /// manager.
    #[cfg(feature = "prometheus")]
    metrics: Arc<OnceLock<WebhookMetrics>>,
}

impl WebhookServer {
    /// Creates a webhook server on port 9443 of all addresses, with this certificate: [`Tls`](crate::Tls) for
    /// PEM files, or [`ManagedCertificates`](crate::ManagedCertificates) (feature `certificates`).
    pub fn new(tls: impl Into<ServerTls>) -> Self {
        Self::of(HttpServer::at(ADDRESS).tls(tls))
    }

    /// Creates a webhook server that listens at the given address, such as `0.0.0.0:9443`, with this
    /// certificate.
    pub fn at(address: impl Into<String>, tls: impl Into<ServerTls>) -> Self {
        Self::of(HttpServer::at(address).tls(tls))
    }

    /// Creates a webhook server on a listener that is already bound, with this certificate.
    pub fn on(listener: TcpListener, tls: impl Into<ServerTls>) -> Self {
        Self::of(HttpServer::on(listener).tls(tls))
    }

    /// Creates a webhook server that has neither an address nor a certificate. It only
    /// [responds](Self::respond) to requests that a test, or another server, has received. A manager to which
    /// it is added ends with an error.
    ///
    /// Upstream: `StandaloneWebhook`.
    pub fn standalone() -> Self {
        Self { standalone: true, ..Self::of(HttpServer::at(ADDRESS)) }
    }

    /// Sets the versions of TLS and the cipher suites that the server accepts.
    pub fn tls_options(mut self, options: TlsOptions) -> Self {
        self.server = self.server.tls_options(options);
        self
    }

    fn of(server: HttpServer) -> Self {
        let mut server = server.named("webhooks");
        server.group = RunnableGroup::Webhooks;
        server.body_max = MAX_BODY_BYTES;
        Self {
            server,
            standalone: false,
            list_keys: HashMap::new(),
            registered: Vec::new(),
            #[cfg(feature = "prometheus")]
            metrics: Arc::default(),
        }
    }

    /// Adds a webhook that validates objects of a kind when they are created or updated. `Err` denies the
    /// request with a message for the user.
    ///
    /// A new object that cannot be decoded as `K` is denied with code 400 before `validator` is called. The
    /// stored object (the only object of a deletion) is decoded by [`AdmissionRequest::old_object`] when
    /// `validator` calls it. A [connection](AdmissionOperation::Connect) has only
    /// [options](AdmissionRequest::options).
    pub fn validate<K>(self, validator: impl Validator<K>) -> Self
    where
        K: StaticResource + DeserializeOwned + Send + Sync + 'static,
    {
        self.validate_with(WebhookOptions::new(), validator)
    }

    /// Adds a webhook that validates objects of a kind, as [`validate`](Self::validate) does, with options
    /// for its registration, such as other operations.
    pub fn validate_with<K>(self, options: WebhookOptions, validator: impl Validator<K>) -> Self
    where
        K: StaticResource + DeserializeOwned + Send + Sync + 'static,
    {
        self.validate_at(path::<K>("validate"), options, validator)
    }

    /// Adds a webhook like [`validate_with`](Self::validate_with), at a path of your own. Several webhooks of
    /// one kind need different paths.
    pub fn validate_at<K>(
        mut self,
        path: impl Into<String>,
        options: WebhookOptions,
        validator: impl Validator<K>,
    ) -> Self
    where
        K: StaticResource + DeserializeOwned + Send + Sync + 'static,
    {
        let (validator, path, resource) = (Arc::new(validator), path.into(), resource::<K>());
        self.register(RegisteredWebhook::Validating { path: path.clone(), resource, options });
        self.review(path, move |review| {
            let validator = Arc::clone(&validator);
            async move { admission::validate(review, &*validator).await }
        })
    }

    /// Adds a webhook that sets defaults in objects of a kind, or changes them otherwise. `defaulter` is
    /// called for creations and updates with the object, and returns the changed one. The response is the
    /// difference as a patch, so that fields unknown to `K` stay. In lists they stay with their element,
    /// which is matched by the list map keys of built-in kinds and of a [`crd`](Self::crd).
    ///
    /// Deletions and connections are allowed without decoding an object. An object that cannot be decoded as
    /// `K` is denied with code 400, unless it is being deleted: then it is allowed unchanged, so that its
    /// finalizers can be removed.
    pub fn default<K>(self, defaulter: impl Defaulter<K>) -> Self
    where
        K: StaticResource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        self.default_with(WebhookOptions::new(), defaulter)
    }

    /// Adds a webhook that sets defaults in objects of a kind, as [`default`](Self::default) does, with
    /// options for its registration, such as a timeout.
    pub fn default_with<K>(self, options: WebhookOptions, defaulter: impl Defaulter<K>) -> Self
    where
        K: StaticResource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        self.default_at(path::<K>("mutate"), options, defaulter)
    }

    /// Adds a webhook like [`default_with`](Self::default_with), at a path of your own.
    pub fn default_at<K>(
        mut self,
        path: impl Into<String>,
        options: WebhookOptions,
        defaulter: impl Defaulter<K>,
    ) -> Self
    where
        K: StaticResource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let (defaulter, keys) = (Arc::new(defaulter), Arc::new(self.list_keys_of::<K>()));
        let (path, resource) = (path.into(), resource::<K>());
        self.register(RegisteredWebhook::Mutating { path: path.clone(), resource, options });
        self.review(path, move |review| {
            let (defaulter, keys) = (Arc::clone(&defaulter), Arc::clone(&keys));
            async move { admission::default(review, &*defaulter, &keys).await }
        })
    }

    /// Adds a webhook that validates objects of several kinds, or of kinds without a type, as JSON.
    /// `resources` are those for which it is [registered](Self::registered).
    ///
    /// The object of a [connection](AdmissionOperation::Connect) are its options, such as `PodExecOptions`.
    /// [`AdmissionRequest::typed`] decodes the objects of one kind.
    ///
    /// ```
    /// use informer_runtime::webhook::{AdmissionRequest, Allowed, Denied, WebhookOptions, WebhookServer};
    /// use k8s_openapi::api::core::v1::Pod;
    /// use serde_json::Value;
    ///
    /// async fn check(request: AdmissionRequest<Value>) -> Result<Allowed, Denied> {
    ///     if let Some(pod) = request.typed::<Pod>()? {
    ///         return pod.object.map_or(Ok(Allowed::new()), |_| Err(Denied::new("no more pods")));
    ///     }
    ///     let labels = request.object.as_ref().map(|object| &object["metadata"]["labels"]);
    ///     match labels.and_then(|labels| labels["team"].as_str()) {
    ///         Some(_) => Ok(Allowed::new()),
    ///         None => Err(Denied::invalid("metadata.labels.team is missing")
    ///             .cause("metadata.labels.team", "FieldValueRequired", "name the owner")),
    ///     }
    /// }
    ///
    /// # use informer_core::Gvr;
    /// let resources = [Gvr::new("", "v1", "pods"), Gvr::new("", "v1", "configmaps")];
    /// let webhooks = WebhookServer::standalone()
    ///     .validate_raw("/teams", WebhookOptions::new(), resources, check);
    /// # drop(webhooks);
    /// ```
    ///
    /// Upstream: `admission.Handler`.
    pub fn validate_raw(
        mut self,
        path: impl Into<String>,
        options: WebhookOptions,
        resources: impl IntoIterator<Item = Gvr>,
        validator: impl Validator<Value>,
    ) -> Self {
        let (validator, path) = (Arc::new(validator), path.into());
        self.register_all(&path, resources, |path, resource| RegisteredWebhook::Validating {
            path,
            resource,
            options: options.clone(),
        });
        self.review(path, move |review| {
            let validator = Arc::clone(&validator);
            async move { raw::validate(review, &*validator).await }
        })
    }

    /// Adds a webhook that changes objects of several kinds, or of kinds without a type, as JSON. `defaulter`
    /// is called for all operations except for deletions, and returns the changed object. The response is the
    /// difference as a patch.
    pub fn default_raw(
        mut self,
        path: impl Into<String>,
        options: WebhookOptions,
        resources: impl IntoIterator<Item = Gvr>,
        defaulter: impl Defaulter<Value>,
    ) -> Self {
        let (defaulter, path) = (Arc::new(defaulter), path.into());
        self.register_all(&path, resources, |path, resource| RegisteredWebhook::Mutating {
            path,
            resource,
            options: options.clone(),
        });
        self.review(path, move |review| {
            let defaulter = Arc::clone(&defaulter);
            async move { raw::default(review, &*defaulter).await }
        })
    }

    /// Adds a webhook that authenticates the bearer tokens of requests to an API server (TokenReview).
    ///
    /// Upstream:
    /// [`webhook/authentication`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/webhook/authentication).
    pub fn authenticate<F, Fut>(mut self, path: impl Into<String>, authenticator: F) -> Self
    where
        F: Fn(TokenReviewSpec) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = TokenReviewStatus> + Send + 'static,
    {
        let path = path.into();
        self.register(RegisteredWebhook::Authentication { path: path.clone() });
        self.access(path, access::TOKEN_REVIEW, authenticator)
    }

    /// Adds a webhook that authorizes requests to an API server (SubjectAccessReview). With neither `allowed`
    /// nor `denied` in the status, the API server asks its next authorizer.
    pub fn authorize<F, Fut>(mut self, path: impl Into<String>, authorizer: F) -> Self
    where
        F: Fn(SubjectAccessReviewSpec) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = SubjectAccessReviewStatus> + Send + 'static,
    {
        let path = path.into();
        self.register(RegisteredWebhook::Authorization { path: path.clone() });
        self.access(path, access::SUBJECT_ACCESS_REVIEW, authorizer)
    }

    fn access<S, T, F, Fut>(self, path: String, kind: access::AccessReview, decide: F) -> Self
    where
        S: DeserializeOwned + Send + 'static,
        T: Serialize + Send + 'static,
        F: Fn(S) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let decide = Arc::new(decide);
        self.serve(path, move |request| {
            let decide = Arc::clone(&decide);
            async move { review::serve_access(&request, kind, |spec| decide(spec)).await }
        })
    }

    /// Sets the maximum size of a request body in bytes; by default 7 MiB, as in controller-runtime. Larger
    /// requests get status 413.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.server.body_max = bytes;
        self
    }

    /// Adds the list map keys of a custom kind (`x-kubernetes-list-map-keys`), from its CRD. Call this method
    /// before [`default`](Self::default) of the kind. Without the keys, elements are matched by fields such
    /// as `name`.
    pub fn crd(mut self, definition: &CustomResourceDefinition) -> Self {
        self.list_keys.extend(crate::client::list_keys(definition));
        self
    }

    fn list_keys_of<K: Resource<DynamicType = ()>>(&self) -> ListKeys {
        let kind = Gvk::new(&*K::group(&()), &*K::version(&()), &*K::kind(&()));
        self.list_keys.get(&kind).cloned().unwrap_or_else(|| ListKeys::of_builtin(&kind))
    }

    /// Adds webhooks that convert custom resources of one or more kinds between their versions, at the path
    /// `/convert`. Replaces the conversions of an earlier call.
    pub fn convert(mut self, conversions: impl IntoIterator<Item = Conversion>) -> Self {
        let conversions: Arc<[Conversion]> = conversions.into_iter().collect();
        self.registered.retain(|webhook| webhook.path() != CONVERT);
        let registered = conversions.iter().map(|conversion| RegisteredWebhook::Conversion {
            path: CONVERT.to_owned(),
            kind: conversion.kind(),
        });
        self.registered.extend(registered);
        self.review(CONVERT.to_owned(), move |review| {
            let conversions = Arc::clone(&conversions);
            async move { conversion::convert(&review, &conversions) }
        })
    }

    /// Adds a webhook to the registered ones, in the place of an earlier one with its path.
    fn register(&mut self, webhook: RegisteredWebhook) {
        self.registered.retain(|earlier| earlier.path() != webhook.path());
        self.registered.push(webhook);
    }

    /// Returns the webhooks of this server, in the order in which they were added.
    /// [`WebhookConfigurations`] are their registration in the API server.
    ///
    /// ```
    /// use informer_runtime::webhook::{Allowed, RegisteredWebhook, WebhookServer};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let webhooks = WebhookServer::standalone().validate::<ConfigMap>(|_| async { Ok(Allowed::new()) });
    /// let [RegisteredWebhook::Validating { path, resource, .. }] = webhooks.registered() else { panic!() };
    /// assert_eq!(path, "/validate--v1-configmap");
    /// assert_eq!(resource.to_string(), "configmaps.v1");
    /// ```
    pub fn registered(&self) -> &[RegisteredWebhook] {
        &self.registered
    }

    /// Registers a webhook for several resources, in the place of an earlier one with its path.
    fn register_all(
        &mut self,
        path: &str,
        resources: impl IntoIterator<Item = Gvr>,
        registered: impl Fn(String, Gvr) -> RegisteredWebhook,
    ) {
        self.registered.retain(|earlier| earlier.path() != path);
        self.registered.extend(resources.into_iter().map(|resource| registered(path.to_owned(), resource)));
    }

    fn review<F, Fut>(self, path: String, review: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Value> + Send + 'static,
    {
        let review = Arc::new(review);
        self.serve(path, move |request| {
            let review = Arc::clone(&review);
            async move { review::serve(&request, |body| review(body)).await }
        })
    }

    fn serve<F, Fut>(mut self, path: String, serve: F) -> Self
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ReviewResponse> + Send + 'static,
    {
        #[cfg(feature = "prometheus")]
        let (metrics, name) = (Arc::clone(&self.metrics), path.clone());
        self.server = self.server.route(path, move |request| {
            #[cfg(feature = "prometheus")]
            let began = metrics.get().map(|metrics| metrics.begin(&name));
            let serving = serve(request);
            async move {
                let response = serving.await;
                #[cfg(feature = "prometheus")]
                if let Some(began) = began {
                    began.completed(response.response.status(), response.panicked);
                }
                response.response
            }
        });
        self
    }

    /// Responds to one HTTP request that was not received by this server, for tests and for programs that
    /// serve the webhooks with their own server. The response has status 404 if no webhook has the path.
    ///
    /// Upstream: `StandaloneWebhook`.
    pub async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        match self.server.handler(request.uri().path()) {
            Some(handler) => handler(request).await,
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    /// Returns a receiver of the webhook server's address. The address is `None` until the server listens.
    pub fn bound(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.server.bound()
    }
}

/// Returns the path of a kind's webhook, as controller-runtime generates it: for example
/// `/mutate-apps-v1-deployment` for the verb `mutate`.
fn path<K: Resource<DynamicType = ()>>(verb: &str) -> String {
    let (group, version, kind) =
        (K::group(&()).replace('.', "-"), K::version(&()), K::kind(&()).to_lowercase());
    format!("/{verb}-{group}-{version}-{kind}")
}

fn resource<K: Resource<DynamicType = ()>>() -> Gvr {
    Gvr::new(K::group(&()), K::version(&()), K::plural(&()))
}

impl WebhookServer {
    /// Makes the webhook server report to the metrics of its manager: admission and conversion reviews, and
    /// reads of the certificate files.
    #[cfg(feature = "prometheus")]
    pub(crate) fn counted(mut self, metrics: WebhookMetrics, certificates: CertificateMetrics) -> Self {
        let _ = self.metrics.set(metrics);
        self.server = self.server.counted(certificates);
        self
    }

    /// Returns the HTTP server that a manager runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the webhook server is [standalone](Self::standalone).
    pub(crate) fn into_server(self) -> Result<HttpServer, BoxError> {
        if self.standalone {
            let problem = "run the webhook server: it is standalone, without address and certificate";
            return Err(format!("{problem}; create it with WebhookServer::new or WebhookServer::at").into());
        }
        Ok(self.server)
    }
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebhookServer").field(&self.server).finish()
    }
}
