//! The task that keeps the certificates of a server valid: it reads the Secret and the targets, and performs
//! the steps of the state machine.
//!
//! The targets are read before the Secret. A target that is still the one that was read can then be changed
//! safely: it does not contain an authority that was added to the Secret later.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use http::{HeaderValue, Method, Request, StatusCode};
use informer_core::Gvr;
use informer_http::{TlsConfig, TlsOptions, certified_key, default_provider};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::secret::{ChangeContext, Content};
use super::state::{CertificateId, Change, Observed, Step, next_step};
use super::targets::Callee;
use super::{ALPN, ManagedCertificates, OnServe};
use crate::BoxError;
use crate::api_request::{exchange, json_request, watch_request, watch_with_hints};
use crate::leader::driver::own_identity;
use crate::random::jitter;
use crate::services::Clock;

/// The maximum time between two reads of the Secret and the targets. Changes are usually noticed by watches.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The maximum number of steps without a pause. A first start needs about ten. Two programs that use one
/// Secret for different names would otherwise replace each other's certificate without end.
const MAX_STEPS: u32 = 30;

const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// The maximum random delay after a conflict with another replica.
const CONFLICT_DELAY: Duration = Duration::from_millis(200);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The time for removing the report of a replica that stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum size of a Secret or a target in bytes: that of an object in etcd, as JSON.
const MAX_OBJECT_BYTES: usize = 4 << 20;

/// The progress of a server's certificates, for its readiness.
#[derive(Debug, Clone, Default)]
pub(crate) struct RotationStatus {
    /// True if the server has a certificate, and all targets trust it.
    pub(crate) ready: bool,
    /// The problem of the last attempt.
    pub(crate) problem: Option<String>,
}

/// Keeps the certificate of one server valid.
pub(crate) struct Rotation {
    settings: ManagedCertificates,
    options: TlsOptions,
    names: Vec<String>,
    identity: String,
    clock: Clock,
    /// The Secret as last read or written, from which it is restored after a deletion.
    last: Option<Content>,
    serves: Option<CertificateId>,
    on_serve: OnServe,
    config: Option<watch::Sender<Arc<informer_http::ServerConfig>>>,
    status: watch::Sender<RotationStatus>,
    hints: mpsc::Receiver<()>,
    watches: BoxFuture<'static, ()>,
}

/// The next action after a step.
enum NextAction {
    Continue,
    Conflict,
    Wait(Timestamp),
}

impl Rotation {
    /// # Errors
    ///
    /// Returns an error if a name in the settings is invalid.
    pub(crate) fn new(
        settings: ManagedCertificates,
        options: TlsOptions,
        on_serve: OnServe,
    ) -> Result<Self, BoxError> {
        settings.check()?;
        let (hint, hints) = mpsc::channel(1);
        let secret = watch_request(&secrets(&settings.namespace), &settings.secret);
        let targets = settings.targets.iter();
        let targets = targets.map(|target| watch_request(&target.resource().path(None), &target.name));
        let watches = std::iter::once(secret)
            .chain(targets)
            .map(|request| watch_with_hints(settings.client.clone(), request, hint.clone()));
        Ok(Self {
            watches: join_all(watches).map(drop).boxed(),
            options,
            names: settings.names(),
            identity: own_identity(),
            clock: Clock::start(),
            last: None,
            serves: None,
            on_serve,
            config: None,
            status: settings.status.clone(),
            hints,
            settings,
        })
    }

    /// Waits until there is a certificate to serve, and returns the configuration of the listener, which
    /// [`run`](Self::run) replaces. Retries failed requests without end.
    pub(crate) async fn start(&mut self) -> TlsConfig {
        loop {
            if let Some(config) = &self.config {
                return TlsConfig::from(config.subscribe());
            }
            self.advance(true).await;
        }
    }

    /// Renews the certificate. Never returns.
    pub(crate) async fn run(&mut self) {
        loop {
            self.advance(false).await;
        }
    }

    /// Removes the report of this replica, so that others need not wait until it expires.
    pub(crate) async fn stop(&mut self) {
        let removal = async {
            for _ in 0..3 {
                let Ok(content) = self.read_secret().await else { return };
                let Some(secret) = content.without(&self.identity, self.clock.now()) else { return };
                if !matches!(self.write(&secret).await, Ok(NextAction::Conflict)) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, removal).await;
    }

    /// Performs steps until nothing is to be done, and waits for a change or for the next deadline. With
    /// `until_serving`, returns as soon as there is a certificate.
    async fn advance(&mut self, until_serving: bool) {
        let mut retry = MIN_RETRY;
        let mut steps = 0;
        loop {
            steps += 1;
            let delay = match self.step().await {
                Ok(NextAction::Continue) if until_serving && self.config.is_some() => return,
                Ok(NextAction::Continue) if steps < MAX_STEPS => continue,
                Ok(NextAction::Conflict) if steps < MAX_STEPS => {
                    tokio::time::sleep(CONFLICT_DELAY.mul_f64(jitter())).await;
                    continue;
                }
                Ok(NextAction::Continue | NextAction::Conflict) => {
                    self.failed(
                        "other programs change the Secret all the time; use one Secret for each server",
                    );
                    MAX_RETRY
                }
                Ok(NextAction::Wait(at)) => {
                    self.status.send_replace(RotationStatus { ready: true, problem: None });
                    retry = MIN_RETRY;
                    let left = at.duration_since(self.clock.now());
                    Duration::try_from(left).unwrap_or_default().clamp(MIN_RETRY, MAX_WAIT)
                }
                Err(problem) => {
                    self.failed(&problem);
                    retry = (retry * 2).min(MAX_RETRY);
                    retry.mul_f64(0.5 + jitter() / 2.0)
                }
            };
            steps = 0;
            tokio::select! {
                biased;
                () = tokio::time::sleep(delay) => {}
                _ = self.hints.recv() => {}
                () = &mut self.watches => unreachable_watches().await,
            }
        }
    }

    fn failed(&self, problem: &str) {
        let (secret, namespace) = (&self.settings.secret, &self.settings.namespace);
        // A problem that persists is logged once.
        let known = self.status.borrow().problem.as_deref() == Some(problem);
        if known {
            tracing::debug!(secret, namespace, problem, "cannot keep the certificate of a server valid");
        } else {
            tracing::warn!(secret, namespace, problem, "cannot keep the certificate of a server valid");
        }
        self.status.send_modify(|status| status.problem = Some(problem.to_owned()));
    }

    async fn step(&mut self) -> Result<NextAction, String> {
        let mut problem = None;
        let mut targets = Vec::new();
        for target in self.settings.targets.clone() {
            let path = format!("{}/{}", target.resource().path(None), target.name);
            match self.request(json_request(Method::GET, path.clone(), None)).await {
                Ok((StatusCode::OK, object)) => targets.push((target, path, object)),
                // The API server cannot call this server without the target.
                Ok((StatusCode::NOT_FOUND, _)) => {}
                Ok((status, body)) => problem = Some(format!("read {target}: {}", reason(status, &body))),
                Err(failure) => problem = Some(format!("read {target}: {failure}")),
            }
        }
        let content = self.read_secret().await?;
        if !content.exists() && self.last.is_some() {
            tracing::warn!(secret = self.settings.secret, "restoring the certificates of a deleted Secret");
            return self.write(&content.secret).await;
        }
        let bundle = content.bundle();
        let names = self.names.clone();
        let callee =
            Callee { namespace: &self.settings.namespace, service: &self.settings.service, names: &names };
        let patches: Vec<TargetPatch> = targets
            .iter()
            .filter_map(|(target, path, object)| {
                let patch = target.patch(object, &callee, &bundle)?;
                Some(TargetPatch { target: target.to_string(), path: path.clone(), patch })
            })
            .collect();
        let observed = Observed {
            identity: &self.identity,
            serves: self.serves.as_deref(),
            injected: patches.is_empty() && problem.is_none(),
        };
        let now = self.clock.now();
        match next_step(&content.shared, &observed, now) {
            Step::Change(change) => self.change(&content, &change, now).await,
            Step::Inject => self.inject(patches, problem).await,
            Step::Serve => self.serve(&content).map(|()| NextAction::Continue),
            Step::Wait(at) => Ok(NextAction::Wait(at)),
        }
    }

    async fn read_secret(&mut self) -> Result<Content, String> {
        let path = format!("{}/{}", secrets(&self.settings.namespace), self.settings.secret);
        let (status, body) = self.request(json_request(Method::GET, path, None)).await?;
        let content = match status {
            StatusCode::OK => Content::read(body, &self.names),
            // The certificates of a deleted Secret are restored, because other replicas still serve them.
            StatusCode::NOT_FOUND => match &self.last {
                Some(last) if last.exists() => Content::read(last.recreated(), &self.names),
                _ => Content::missing(&self.settings.namespace, &self.settings.secret),
            },
            status => return Err(format!("read Secret {}: {}", self.settings.secret, reason(status, &body))),
        };
        if content.exists() {
            self.last = Some(content.clone());
        }
        Ok(content)
    }

    async fn change(
        &mut self,
        content: &Content,
        change: &Change,
        now: Timestamp,
    ) -> Result<NextAction, String> {
        let context = ChangeContext {
            name: &self.settings.secret,
            identity: &self.identity,
            names: &self.names,
            validity: self.settings.validity,
        };
        let secret =
            content.with(change, &context, now).map_err(|error| match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            })?;
        let written = self.write(&secret).await?;
        if matches!(written, NextAction::Continue) && !matches!(change, Change::Report(_)) {
            let (name, namespace) = (&self.settings.secret, &self.settings.namespace);
            tracing::info!(secret = name, namespace, ?change, "changed the certificates of a server");
        }
        Ok(written)
    }

    async fn write(&mut self, secret: &Value) -> Result<NextAction, String> {
        let path = secrets(&self.settings.namespace);
        let request = if secret["metadata"]["resourceVersion"].is_string() {
            json_request(Method::PUT, format!("{path}/{}", self.settings.secret), Some(secret.clone()))
        } else {
            json_request(Method::POST, path, Some(secret.clone()))
        };
        let creates = request.method() == Method::POST;
        match self.request(request).await? {
            (status, _) if status.is_success() => Ok(NextAction::Continue),
            (StatusCode::CONFLICT, _) => Ok(NextAction::Conflict),
            (StatusCode::NOT_FOUND, _) if !creates => Ok(NextAction::Conflict),
            (status, body) => {
                Err(format!("write Secret {}: {}", self.settings.secret, reason(status, &body)))
            }
        }
    }

    async fn inject(
        &mut self,
        patches: Vec<TargetPatch>,
        mut problem: Option<String>,
    ) -> Result<NextAction, String> {
        let mut next = NextAction::Continue;
        for TargetPatch { target, path, patch } in patches {
            let mut request = json_request(Method::PATCH, path, Some(patch));
            let content_type = HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
            match self.request(request).await {
                Ok((status, _)) if status.is_success() => {
                    tracing::info!(target, "injected the certificate authorities of a server");
                }
                // The target has changed since it was read, or was deleted.
                Ok((StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::NOT_FOUND, _)) => {
                    next = NextAction::Conflict;
                }
                Ok((status, body)) => problem = Some(format!("patch {target}: {}", reason(status, &body))),
                Err(failure) => problem = Some(format!("patch {target}: {failure}")),
            }
        }
        problem.map_or(Ok(next), Err)
    }

    fn serve(&mut self, content: &Content) -> Result<(), String> {
        let Some(certificate) = &content.shared.certificate else { return Ok(()) };
        let invalid = |error: &dyn std::error::Error| format!("serve the certificate of the Secret: {error}");
        let provider = default_provider().ok_or("no crypto provider of rustls is installed")?;
        let (chain, key) = (content.served.certificate.as_bytes(), content.served.key.as_bytes());
        let pair = certified_key(chain, key, &provider).map_err(|error| invalid(&error))?;
        let config =
            self.options.server_config(provider, pair, None, ALPN).map_err(|error| invalid(&error))?;
        let config = Arc::new(config);
        match &self.config {
            Some(sender) => drop(sender.send_replace(config)),
            None => self.config = Some(watch::Sender::new(config)),
        }
        tracing::info!(secret = self.settings.secret, until = %certificate.period.until, "serving a new certificate");
        self.serves = Some(certificate.id.clone());
        (self.on_serve)(certificate.period.until);
        Ok(())
    }

    async fn request(&mut self, request: Request<bytes::Bytes>) -> Result<(StatusCode, Value), String> {
        let sent = exchange(&self.settings.client, request, MAX_OBJECT_BYTES);
        tokio::time::timeout(REQUEST_TIMEOUT, sent)
            .await
            .unwrap_or_else(|_| Err("the request timed out".into()))
    }
}

/// A patch that injects the certificate authorities into a target.
struct TargetPatch {
    /// The name of the target in error messages.
    target: String,
    path: String,
    patch: Value,
}

/// The watches repeat their requests without end. This future keeps the caller from polling them if they did
/// end.
async fn unreachable_watches() {
    std::future::pending().await
}

fn secrets(namespace: &str) -> String {
    Gvr::new("", "v1", "secrets").path(Some(namespace))
}

fn reason(status: StatusCode, body: &Value) -> String {
    let message = body["message"].as_str().unwrap_or("without a message");
    format!("the API server responded with {}: {message}", status.as_u16())
}
