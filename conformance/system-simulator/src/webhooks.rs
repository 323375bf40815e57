//! A defaulting and a validating webhook for each kind, served by the `WebhookServer` of the runtime. The API
//! server calls the `WebhookServer` without sockets, by TLS over a pipe in memory.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use informer_apiserver::{ApiServer, CertificateAuthority};
use informer_core::Gvr;
use informer_runtime::Tls;
use informer_runtime::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
use informer_simulator::Random;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::auditor::{History, State};
use crate::check::Checks;
use crate::raw::Refused;
use crate::sample::{Fruit, Sample};
use crate::trace::Trace;

/// The annotation that the defaulting webhooks add to objects.
pub(crate) const DEFAULTED: &str = "sim.example.com/defaulted";

/// The address of the webhooks in their configurations. No socket listens on it, since connections use pipes
/// in memory.
const AUTHORITY: &str = "127.0.0.1:9443";

const PIPE_BYTES: usize = 64 << 10;

const MAX_CALL: Duration = Duration::from_secs(5);

/// A time longer than all webhook calls of one write: two rounds of mutating webhooks, and a validating
/// webhook.
const MAX_CALLS: Duration = MAX_CALL.saturating_mul(4);

/// The certificate of the webhooks. All runs of the process share it, because keys are slow to generate.
static CERTIFICATE: LazyLock<Identity> = LazyLock::new(Identity::new);

struct Identity {
    ca_bundle: String,
    acceptor: TlsAcceptor,
}

impl Identity {
    fn new() -> Self {
        let authority = CertificateAuthority::new("webhooks").expect("keys can be generated");
        let issued = authority.issue_for(["127.0.0.1"]).expect("the address is valid");
        let chain: Vec<_> = CertificateDer::pem_slice_iter(issued.chain().as_bytes()).flatten().collect();
        let key = PrivateKeyDer::from_pem_slice(issued.key().as_bytes()).expect("the generated key is PEM");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key belongs to the certificate");
        let ca_bundle = STANDARD.encode(authority.certificate());
        Self { ca_bundle, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Works,
    /// The webhooks respond after this time.
    Slow(Duration),
    Refuses,
    /// The webhooks respond with status 500.
    Fails,
    Hangs,
}

impl Mode {
    fn works(self) -> bool {
        matches!(self, Self::Works | Self::Slow(_))
    }
}

/// A time during which the webhooks fail or respond late.
#[derive(Debug, Clone, Copy)]
struct Outage {
    begin: Duration,
    end: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) struct Webhooks {
    mode: Arc<watch::Sender<Mode>>,
    /// The times during which the webhooks failed or responded late. The last one may not have ended.
    outages: Arc<Mutex<Vec<Outage>>>,
    /// True if the failure policy is `Ignore`: writes succeed even if the webhooks fail.
    fails_open: bool,
    trace: Trace,
}

impl Webhooks {
    pub(crate) fn register(server: &ApiServer, fails_open: bool, trace: &Trace) -> Self {
        let mode = Arc::new(watch::Sender::new(Mode::Works));
        let webhooks = Arc::new(webhook_server());
        let of_connections = Arc::clone(&mode);
        server.webhooks().connect_with(AUTHORITY, move || {
            let (client, own) = tokio::io::duplex(PIPE_BYTES);
            if *of_connections.borrow() != Mode::Refuses {
                drop(tokio::spawn(serve(own, Arc::clone(&webhooks), of_connections.subscribe())));
            }
            client
        });
        let policy = if fails_open { "Ignore" } else { "Fail" };
        configure(server, ("mutatingwebhookconfigurations", "mutate"), policy);
        configure(server, ("validatingwebhookconfigurations", "validate"), policy);
        Self { mode, outages: Arc::default(), fails_open, trace: trace.clone() }
    }

    /// Starts an outage of the webhooks: they fail, hang or respond late. `random` decides which.
    pub(crate) fn disturb(&self, random: &mut Random) {
        let slow = Mode::Slow(Duration::from_millis(random.between(1, 3000) as u64));
        let mode = random.pick(&[Mode::Refuses, Mode::Fails, Mode::Hangs, slow]);
        self.repair();
        if !mode.works() {
            self.outages.lock().push(Outage { begin: self.trace.elapsed(), end: None });
        }
        self.mode.send_replace(mode);
    }

    pub(crate) fn repair(&self) {
        if let Some(outage) = self.outages.lock().last_mut() {
            outage.end.get_or_insert(self.trace.elapsed());
        }
        self.mode.send_replace(Mode::Works);
    }

    /// Checks that the response to a write of the independent client is consistent with the webhooks.
    pub(crate) fn check_response(&self, response: &Result<Value, Refused>, checks: &Checks) {
        let Err(refused) = response else { return };
        let failed = refused.message.contains("failed calling webhook");
        checks.ensure("failure-policy", !failed || !self.fails_open, || {
            format!("with the policy Ignore, a write was rejected: {}", refused.message)
        });
        let works = self.mode.borrow().works() && !self.is_near_outage(self.trace.elapsed());
        checks.ensure("failure-policy", !failed || !works, || {
            format!("a write was rejected while the webhooks worked: {}", refused.message)
        });
    }

    pub(crate) fn check<K: Sample>(&self, history: &History, checks: &Checks) {
        history.look(|history| {
            for state in history.states.iter().filter(|state| state.follows) {
                self.check_state::<K>(state, checks);
            }
        });
    }

    fn check_state<K: Sample>(&self, state: &State, checks: &Checks) {
        // A deletion may change the object, for example its deletionTimestamp, without a call of the
        // webhooks.
        let Some(object) = &state.object else { return };
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        let name = || format!("{} {} @{}", K::plural(&()), state.key, state.version);
        if self.fails_open {
            if self.is_near_outage(state.at) {
                return;
            }
        } else {
            checks.ensure("failure-policy", !self.is_within_outage(state.at), || {
                format!("with the policy Fail, {} was stored while the webhooks did not work", name())
            });
        }
        let defaulted = &object["metadata"]["annotations"][DEFAULTED];
        checks.ensure("defaulted", defaulted == "yes", || format!("{} was not defaulted: {object}", name()));
        checks.ensure("denied-changes-nothing", !K::is_denied(object), || {
            format!("{} was stored, which the webhook denies: {object}", name())
        });
    }

    /// Returns true if a write that ended at `at` may be affected by an outage: at that time the outage was
    /// running, or ended shortly before.
    fn is_near_outage(&self, at: Duration) -> bool {
        let outages = self.outages.lock();
        outages
            .iter()
            .any(|&Outage { begin, end }| at >= begin && end.is_none_or(|end| at <= end + MAX_CALLS))
    }

    /// Returns true if a write at `at` must be affected by an outage: the outage began long enough before
    /// that the write cannot have begun earlier.
    fn is_within_outage(&self, at: Duration) -> bool {
        let outages = self.outages.lock();
        outages.iter().any(|&Outage { begin, end }| at > begin + MAX_CALLS && end.is_none_or(|end| at < end))
    }
}

fn webhook_server() -> WebhookServer {
    // The webhook server never listens on its address, so it never reads the certificate files.
    let server = WebhookServer::at(AUTHORITY, Tls::files("tls.crt", "tls.key", default_provider()));
    with_kind::<Fruit>(with_kind::<Deployment>(with_kind::<Pod>(with_kind::<ConfigMap>(server))))
}

fn with_kind<K: Sample>(server: WebhookServer) -> WebhookServer {
    let defaulted = |_: AdmissionRequest<K>, mut object: K| async move {
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(DEFAULTED.to_owned(), "yes".to_owned());
        Ok(object)
    };
    let validated = |request: AdmissionRequest<K>| async move {
        let object = serde_json::to_value(&request.object).unwrap_or_default();
        if K::is_denied(&object) {
            Err(Denied::new("the simulation denies this value"))
        } else {
            Ok(Allowed::new())
        }
    };
    server.default(defaulted).validate(validated)
}

/// Creates the configuration object that registers the mutating or the validating webhooks for all kinds.
fn configure(server: &ApiServer, (resource, verb): (&str, &str), policy: &str) {
    let webhooks: Vec<Value> = [
        registration::<ConfigMap>(verb, policy),
        registration::<Pod>(verb, policy),
        registration::<Deployment>(verb, policy),
        registration::<Fruit>(verb, policy),
    ]
    .into();
    let gvr = Gvr::new("admissionregistration.k8s.io", "v1", resource);
    let configuration = json!({"metadata": {"name": "simulation"}, "webhooks": webhooks});
    server.create(&gvr, "", configuration).expect("the configuration is valid");
}

fn registration<K: Sample>(verb: &str, policy: &str) -> Value {
    let (gvr, kind) = (K::gvr(), K::kind(&()).to_lowercase());
    let path = format!("{verb}-{}-{}-{kind}", gvr.group.replace('.', "-"), gvr.version);
    json!({
        "name": format!("{verb}.{kind}.example.com"),
        "clientConfig": {"url": format!("https://{AUTHORITY}/{path}"), "caBundle": CERTIFICATE.ca_bundle},
        "rules": [{
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [gvr.group],
            "apiVersions": [gvr.version],
            "resources": [gvr.resource],
        }],
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": MAX_CALL.as_secs(),
    })
}

async fn serve(own: DuplexStream, webhooks: Arc<WebhookServer>, mode: watch::Receiver<Mode>) {
    let Ok(socket) = CERTIFICATE.acceptor.accept(own).await else { return };
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (webhooks, mode) = (Arc::clone(&webhooks), mode.clone());
        async move { Ok::<_, Infallible>(respond(request, &webhooks, mode).await) }
    });
    // The result of serving a connection is ignored: the API server drops the connection after the response.
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
}

async fn respond(
    request: Request<Incoming>,
    webhooks: &WebhookServer,
    mut mode: watch::Receiver<Mode>,
) -> Response<Full<bytes::Bytes>> {
    let now = *mode.borrow();
    match now {
        Mode::Slow(delay) => tokio::time::sleep(delay).await,
        Mode::Hangs => drop(mode.wait_for(|mode| *mode != Mode::Hangs).await),
        Mode::Works | Mode::Refuses | Mode::Fails => {}
    }
    if now == Mode::Fails {
        let mut response = Response::new(Full::default());
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    webhooks.respond(Request::from_parts(head, body)).await.map(Full::new)
}
