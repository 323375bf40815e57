//! Certificates of servers that the program generates and renews itself.
//!
//! # Invariants
//!
//! The state machine in `state.rs` decides each step, and its invariants hold. `driver.rs` performs the
//! steps.
//!
//! # Lock order
//!
//! There are no locks. Concurrent writes of replicas are detected by the resourceVersions of the
//! Secret and of the targets.
//!
//! # Shutdown
//!
//! The server stops first. Then the replica removes its report from the Secret.

mod driver;
mod secret;
mod self_signed;
mod state;
mod targets;
#[cfg(test)]
mod tests;
mod x509;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use informer_client::Client;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

pub(crate) use driver::{Rotation, RotationStatus};
pub(crate) use self_signed::SelfSigned;
use state::Validity;
use targets::{Target, TargetKind};

use crate::BoxError;
use crate::api_request::is_name;

/// Called with the time at which a certificate expires, when a server begins to use it.
pub(crate) type OnServe = Box<dyn Fn(Timestamp) + Send + Sync>;

/// The protocols that servers offer in the TLS handshake.
const ALPN: &[&[u8]] = &[b"http/1.1"];

/// The default validity of a certificate authority.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// The default validity of a server certificate, as in cert-manager.
const CERTIFICATE_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// The shortest validity of a server certificate. A third of it, in which the certificate is replaced, must
/// be much longer than the time in which API servers trust a new authority.
const MIN_VALIDITY: Duration = Duration::from_secs(3600);

/// Certificates for a server that is called through a Service, without cert-manager and without files.
///
/// The replicas of a program share a certificate authority and a server certificate in a Secret, which the
/// first replica creates. The authority is written as `caBundle` to webhook configurations, to CRDs with
/// conversion webhooks, and to APIServices, so that the API server trusts the certificate. Of these objects,
/// only the entries that call the Service (or a `url` with a [name](Self::name) of the certificate) are
/// changed.
///
/// Both are renewed when two thirds of their validity have passed, without a restart and without a refused
/// request. A new authority is first trusted by all objects, together with the old one. After two minutes it
/// issues the certificate. The old one is removed when all replicas serve the new certificate. Replicas
/// report this in an annotation of the Secret; those that end without notice are ignored after a day.
///
/// An injected bundle that another program removes, for example by applying a manifest with an empty
/// `caBundle`, is written again as soon as the change is observed. Leave the field out of manifests.
///
/// ```no_run
/// use informer_runtime::ManagedCertificates;
/// use informer_runtime::webhook::WebhookServer;
/// # use informer_client::Client;
///
/// # fn example(client: Client) {
/// // The Secret and the Service are in the namespace of the client, which is that of the pod.
/// let certificates = ManagedCertificates::new(&client, "shop-webhook-certificates", "shop-webhook")
///     .validating_webhooks("shop")
///     .conversion("websites.example.com");
/// let webhooks = WebhookServer::new(certificates);
/// # drop(webhooks);
/// # }
/// ```
///
/// A problem, such as a missing permission, is logged, and the request is repeated. A server becomes ready
/// when all objects that exist trust its certificate. An object that is created later is changed when it is
/// observed.
///
/// Upstream: controller-runtime has no counterpart
/// ([#3038](https://github.com/kubernetes-sigs/controller-runtime/issues/3038)); Gatekeeper's
/// [cert-controller](https://pkg.go.dev/github.com/open-policy-agent/cert-controller/pkg/rotator) restarts
/// the program after a rotation, and requests fail during it.
///
/// # Permissions
///
/// In the namespace of the Secret, the program needs permission to `create` `secrets`, and to `get`, `watch`
/// and `update` this one. It needs permission to `get`, `watch` and `patch` each object into which it writes
/// the authority. Without `watch`, changes are noticed every 10 min.
#[derive(Clone)]
#[must_use = "pass it to a server"]
pub struct ManagedCertificates {
    client: Client,
    namespace: String,
    secret: String,
    service: String,
    more_names: Vec<String>,
    targets: Vec<Target>,
    validity: Validity,
    status: watch::Sender<RotationStatus>,
}

impl ManagedCertificates {
    /// Creates certificates for a Service, which are stored in a Secret. Both are in the namespace of the
    /// client, unless [`namespace`](Self::namespace) sets another one. The certificate is valid for
    /// `SERVICE`, `SERVICE.NAMESPACE`, `SERVICE.NAMESPACE.svc` and `SERVICE.NAMESPACE.svc.cluster.local`.
    pub fn new(client: impl Into<Client>, secret: impl Into<String>, service: impl Into<String>) -> Self {
        let client = client.into();
        let namespace = client.default_namespace().to_owned();
        let validity = Validity {
            authority: SignedDuration::try_from(AUTHORITY_VALIDITY).unwrap_or(SignedDuration::MAX),
            certificate: SignedDuration::try_from(CERTIFICATE_VALIDITY).unwrap_or(SignedDuration::MAX),
        };
        Self {
            client,
            namespace,
            secret: secret.into(),
            service: service.into(),
            more_names: Vec::new(),
            targets: Vec::new(),
            validity,
            status: watch::Sender::default(),
        }
    }

    /// Sets the namespace of the Secret and of the Service.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Adds a host name or an IP address for which the certificate is valid.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.more_names.push(name.into());
        self
    }

    /// Writes the authority to the webhooks of a `MutatingWebhookConfiguration`.
    pub fn mutating_webhooks(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::MutatingWebhook, name)
    }

    /// Writes the authority to the webhooks of a `ValidatingWebhookConfiguration`.
    pub fn validating_webhooks(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::ValidatingWebhook, name)
    }

    /// Writes the authority to the conversion webhook of a CRD, for example `websites.example.com`.
    pub fn conversion(self, crd: impl Into<String>) -> Self {
        self.target(TargetKind::Conversion, crd)
    }

    /// Writes the authority to an `APIService`, for example `v1beta1.metrics.example.com`.
    pub fn api_service(self, name: impl Into<String>) -> Self {
        self.target(TargetKind::ApiService, name)
    }

    fn target(mut self, kind: TargetKind, name: impl Into<String>) -> Self {
        self.targets.push(Target { kind, name: name.into() });
        self
    }

    /// Sets how long certificate authorities and server certificates are valid: by default a year and 90
    /// days. A server certificate is valid for at least an hour, and an authority for at least three times as
    /// long as a server certificate; shorter times are extended.
    pub fn validity(mut self, authority: Duration, certificate: Duration) -> Self {
        let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let certificate = certificate.clamp(MIN_VALIDITY, MAX_VALIDITY);
        let authority = authority.clamp(certificate * 3, MAX_VALIDITY * 3);
        self.validity = Validity { authority: signed(authority), certificate: signed(certificate) };
        self
    }

    fn names(&self) -> Vec<String> {
        let (service, namespace) = (&self.service, &self.namespace);
        let mut names = vec![
            format!("{service}.{namespace}.svc"),
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ];
        // A certificate has addresses in their canonical form, with which its names are compared.
        let canonical = |name: &String| match name.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => name.clone(),
        };
        names.extend(self.more_names.iter().map(canonical));
        names
    }

    /// # Errors
    ///
    /// Returns an error if a name cannot be that of an object. It names the invalid name.
    fn check(&self) -> Result<(), BoxError> {
        let targets = self.targets.iter().map(|target| &target.name);
        let mut names = [&self.namespace, &self.secret, &self.service].into_iter().chain(targets);
        let remedy = "use lower-case letters, digits, dots and dashes";
        match names.find(|name| !is_name(name)) {
            Some(name) => Err(format!("manage certificates: the name {name:?} is invalid; {remedy}").into()),
            None => Ok(()),
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<RotationStatus> {
        self.status.subscribe()
    }
}

/// The longest validity of a server certificate.
const MAX_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl fmt::Debug for ManagedCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedCertificates")
            .field("namespace", &self.namespace)
            .field("secret", &self.secret)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
