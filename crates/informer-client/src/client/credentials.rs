//! Renewable credentials: tokens and client certificates from files or from an exec plugin.
//!
//! kube's layers handle static credentials: inline tokens, inline certificates and basic authentication.
//!
//! # Invariants
//!
//! 1. At most one refresh runs at a time, in its own task. Concurrent callers share its result. Cancelling a
//!    caller does not cancel the refresh.
//! 2. After a failed refresh, the previous credentials stay in use until they expire.
//! 3. `generation` increases with each change of the credentials, and `identity_generation` with each change
//!    of the certificate.
//! 4. After an unsuccessful refresh, and after a refresh that followed a rejection by the server, the next
//!    one starts [`REFRESH_PAUSE`] later at the earliest.
//!
//! # Lock order
//!
//! The lock `last` is taken before the lock `state`. No task awaits while it holds `state`.

mod error;
mod exec;
mod files;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use jiff::{SignedDuration, Timestamp};
use kube_client::Config;
use kube_client::client::ConfigExt;
use parking_lot::RwLock;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::sync::Mutex;
use tokio::time::Instant;

pub(super) use error::CredentialsError;
use exec::ExecPlugin;
use files::{CertificatePair, Files};

use super::{BoxError, ClientError};

/// How often the client reads credential files again. client-go reads token files at the same interval.
const FILES_CHECK_PERIOD: Duration = Duration::from_secs(60);

/// The credentials of an exec plugin are refreshed this long before their expiry, so that they do not expire
/// during a request.
const EXPIRY_LEEWAY: SignedDuration = SignedDuration::from_secs(10);

/// The minimum interval between two refreshes of credentials if the earlier one failed or followed a
/// rejection by the server. Without this interval, a server that responds to every request with 401 would
/// start an exec plugin for each of them.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

enum CredentialSource {
    Files(Arc<Files>),
    // `ExecPlugin` is boxed because it is large and most programs read credentials from files.
    Exec(Box<ExecPlugin>),
}

pub(super) struct Credentials {
    source: CredentialSource,
    state: RwLock<RefreshState>,
    completed: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Clone, Default)]
pub(super) struct Current {
    authorization: Option<HeaderValue>,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    generation: u64,
    /// The generation of the client certificate. Connections with a certificate of an older generation take
    /// no new requests.
    pub(super) identity_generation: u64,
    expires: Option<Timestamp>,
}

#[derive(Default)]
struct RefreshState {
    /// The current credentials; `None` until the exec plugin has run for the first time.
    current: Option<Arc<Current>>,
    check_at: Option<Instant>,
}

struct Last {
    outcome: Result<(), CredentialsError>,
    paused_until: Option<Instant>,
    /// The contents of the certificate and key files from which the current TLS identity was created. A new
    /// identity is created only if the contents change.
    pair: CertificatePair,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefreshReason {
    /// The refresh was due: the credential files must be read again, the credentials are about to expire, or
    /// the exec plugin has not yet run.
    Due,
    Rejected,
}

#[derive(Default)]
struct Loaded {
    authorization: Option<HeaderValue>,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    identity_changed: bool,
    expires: Option<Timestamp>,
}

impl Credentials {
    /// Splits the renewable credentials off a configuration. Returns the configuration without them, and the
    /// renewable credentials if there are any. Credential files are read once, so that creating a client with
    /// invalid files fails.
    pub(super) fn split(
        config: &Config,
        exec_timeout: Duration,
    ) -> Result<(Config, Option<Arc<Self>>), ClientError> {
        let mut rest = config.clone();
        let user = &config.auth_info;
        let inline = user.auth_provider.is_some()
            || user.token.is_some()
            || (user.username.is_some() && user.password.is_some());
        (rest.auth_info.exec, rest.auth_info.token_file) = (None, None);
        let token_file = user.token_file.as_ref().filter(|_| !inline);
        let tls = config.cluster_url.scheme() == Some(&Scheme::HTTPS);
        if let Some(exec) = user.exec.as_ref().filter(|_| !inline && token_file.is_none()) {
            let plugin = ExecPlugin::new(exec, exec_timeout, tls.then(|| Identities::new(config)))?;
            return Ok((
                rest,
                Some(Self::new(
                    CredentialSource::Exec(Box::new(plugin)),
                    RefreshState::default(),
                    CertificatePair::default(),
                )),
            ));
        }
        let Some(files) = Files::of(config, token_file, tls.then(|| Identities::new(config))) else {
            return Ok((rest, None));
        };
        if files.has_identity() {
            let user = &mut rest.auth_info;
            (user.client_certificate, user.client_certificate_data) = (None, None);
            (user.client_key, user.client_key_data) = (None, None);
        }
        let (mut state, mut pair) = (RefreshState::default(), CertificatePair::default());
        state.install(files.load(files.read(), &mut pair, &Current::default())?);
        state.check_at = Some(Instant::now() + FILES_CHECK_PERIOD);
        Ok((rest, Some(Self::new(CredentialSource::Files(Arc::new(files)), state, pair))))
    }

    fn new(source: CredentialSource, state: RefreshState, pair: CertificatePair) -> Arc<Self> {
        let last = Last { outcome: Ok(()), paused_until: None, pair };
        Arc::new(Self { source, state: state.into(), completed: AtomicU64::new(0), last: Mutex::new(last) })
    }

    pub(super) fn has_identity(&self) -> bool {
        match &self.source {
            CredentialSource::Files(files) => files.has_identity(),
            CredentialSource::Exec(_) => true,
        }
    }

    fn snapshot(&self) -> Option<Arc<Current>> {
        self.state.read().current.clone()
    }

    /// Returns the credentials to send with a request. If a refresh is due, the credentials are refreshed
    /// first.
    ///
    /// # Errors
    ///
    /// Returns an error if an exec plugin failed and there are no earlier credentials that are still valid.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<Current>, CredentialsError> {
        let completed = self.completed.load(Ordering::SeqCst);
        if let Some(current) = self.state.read().fresh(Instant::now(), Timestamp::now()) {
            return Ok(current);
        }
        let outcome = self.refresh(completed, RefreshReason::Due).await;
        match (self.snapshot(), outcome) {
            (Some(current), Ok(())) => Ok(current),
            (Some(current), Err(_)) if !current.expires_by(Timestamp::now()) => Ok(current),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(CredentialsError::new("there are no credentials", "check the exec plugin")),
        }
    }

    /// Refreshes credentials that the server has rejected. Returns the new credentials, or `None` if the
    /// refresh failed or returned the same ones.
    pub(super) async fn after_rejection(self: &Arc<Self>, rejected: &Current) -> Option<Arc<Current>> {
        let completed = self.completed.load(Ordering::SeqCst);
        let newer = || self.snapshot().filter(|current| current.generation > rejected.generation);
        if let Some(current) = newer() {
            return Some(current);
        }
        let _ = self.refresh(completed, RefreshReason::Rejected).await;
        newer()
    }

    /// Makes the next request read the certificate files again. Called after a connection failed, because a
    /// server may close a connection without a TLS alert when it rejects the client certificate.
    pub(super) fn check_soon(&self) {
        if let CredentialSource::Files(files) = &self.source
            && files.has_identity()
        {
            self.state.write().check_at = Some(Instant::now());
        }
    }

    /// Refreshes the credentials, or waits for a refresh in progress. `completed` is the number of completed
    /// refreshes when the caller decided to refresh: if a refresh has completed since then, no other refresh
    /// starts.
    async fn refresh(self: &Arc<Self>, completed: u64, cause: RefreshReason) -> Result<(), CredentialsError> {
        let this = Arc::clone(self);
        let refresh = tokio::spawn(async move {
            let mut last = this.last.lock().await;
            let paused = last.paused_until.is_some_and(|until| Instant::now() < until);
            if paused || this.completed.load(Ordering::SeqCst) != completed {
                return last.outcome.clone();
            }
            let outcome = this.load(&mut last).await;
            if let Err(error) = &outcome {
                tracing::warn!(
                    error = error as &dyn std::error::Error,
                    "the client credentials could not be refreshed"
                );
            }
            let now = Instant::now();
            let helped = outcome.is_ok()
                && cause == RefreshReason::Due
                && this.state.read().fresh(now, Timestamp::now()).is_some();
            last.paused_until = (!helped).then(|| now + REFRESH_PAUSE);
            last.outcome = outcome.clone();
            this.completed.fetch_add(1, Ordering::SeqCst);
            outcome
        });
        let ended = |error| {
            CredentialsError::new("the refresh was cancelled", "the next request retries it").because(error)
        };
        refresh.await.unwrap_or_else(|error| Err(ended(error)))
    }

    async fn load(&self, last: &mut Last) -> Result<(), CredentialsError> {
        let before = self.snapshot().unwrap_or_default();
        let loaded = match &self.source {
            CredentialSource::Exec(plugin) => plugin.load(&before).await?,
            CredentialSource::Files(files) => {
                self.state.write().check_at = Some(Instant::now() + FILES_CHECK_PERIOD);
                let reader = Arc::clone(files);
                let read = tokio::task::spawn_blocking(move || reader.read()).await;
                let ended = |error| {
                    CredentialsError::new("the read was cancelled", "the next request retries it")
                        .because(error)
                };
                files.load(read.map_err(ended)?, &mut last.pair, &before)?
            }
        };
        if self.state.write().install(loaded) {
            tracing::info!("the client certificate changed; new requests use new connections");
        }
        Ok(())
    }
}

impl Current {
    pub(super) fn authorize<B>(&self, request: &mut http::Request<B>) {
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
    }

    fn expires_by(&self, time: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= time)
    }
}

impl RefreshState {
    fn fresh(&self, now: Instant, wall_clock: Timestamp) -> Option<Arc<Current>> {
        let due = self.check_at.is_some_and(|at| at <= now);
        self.current.clone().filter(|current| !due && !current.expires_by(wall_clock + EXPIRY_LEEWAY))
    }

    /// Replaces the current credentials with loaded ones. Returns true if the client certificate changed,
    /// except on the first load.
    fn install(&mut self, loaded: Loaded) -> bool {
        let before = self.current.clone().unwrap_or_default();
        let first = self.current.is_none();
        let changed = first || loaded.identity_changed || loaded.authorization != before.authorization;
        self.current = Some(Arc::new(Current {
            authorization: loaded.authorization,
            identity: loaded.identity,
            generation: before.generation + u64::from(changed),
            identity_generation: before.identity_generation + u64::from(loaded.identity_changed),
            expires: loaded.expires,
        }));
        loaded.identity_changed && !first
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Provides the current client certificate to TLS handshakes of new connections.
#[derive(Debug)]
pub(super) struct CurrentIdentity {
    pub(super) credentials: Arc<Credentials>,
    /// Provides the inline client certificate of the configuration, if there is one, while the renewable
    /// credentials contain no certificate.
    pub(super) fallback: Arc<dyn ResolvesClientCert>,
}

impl ResolvesClientCert for CurrentIdentity {
    fn resolve(&self, hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let current = self.credentials.snapshot();
        match current.as_ref().and_then(|current| current.identity.as_ref()) {
            Some(identity) => identity.resolve(hints, schemes),
            None => self.fallback.resolve(hints, schemes),
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Creates TLS identities (a client certificate and its key) from PEM with kube's parser.
struct Identities {
    /// A kube configuration that contains the inline certificate or the inline key of the user, if there is
    /// one. A certificate or key from a file or a plugin is added to a copy of it.
    template: Config,
}

impl Identities {
    fn new(config: &Config) -> Self {
        let mut template = Config::new(config.cluster_url.clone());
        // The CA bundle is empty because this configuration is used only to parse certificates, and never to
        // verify a server.
        template.root_cert = Some(Vec::new());
        template.auth_info.client_certificate_data.clone_from(&config.auth_info.client_certificate_data);
        template.auth_info.client_key_data.clone_from(&config.auth_info.client_key_data);
        Self { template }
    }

    /// Creates a TLS identity from a certificate and a key in PEM. For an argument that is `None`, the inline
    /// certificate or the inline key of the configuration is used.
    fn identity(
        &self,
        certificate: Option<&[u8]>,
        key: Option<&[u8]>,
    ) -> Result<Arc<dyn ResolvesClientCert>, BoxError> {
        let mut config = self.template.clone();
        if let Some(certificate) = certificate {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
        }
        if let Some(key) = key {
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        Ok(config.rustls_client_config()?.client_auth_cert_resolver)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, CredentialsError> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|error| {
        CredentialsError::new("the token contains characters that are invalid in a header", "check the token")
            .because(error)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
