//! The program that `informer envtest install` installs as `kube-apiserver`: the embedded API server with the
//! flags that envtest and its users pass.
//!
//! # Shutdown
//!
//! At SIGTERM the listener closes, watches end, and requests in flight are completed. Then the state is saved
//! in `etcd`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use informer::Gvr;
use informer_apiserver::{ApiServer, Controllers, Listening, RequestHook, Tls, Tokens};
use serde_json::json;

use super::explorer::ExplorerConnection;
use super::flags::{Flag, Given, flag, help, idle, idle_switch};
use super::store::Store;
use crate::certificates::{self, Files};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::watch::period;

const FLAGS: &[Flag] = &[
    flag("authorization-mode", "RBAC, or AlwaysAllow (the default)"),
    flag(
        "bind-address",
        "address to listen on; only a loopback address without --client-ca-file or --token-auth-file",
    ),
    flag("cert-dir", "directory of apiserver.crt and apiserver.key, which are created if they are missing"),
    flag("client-ca-file", "CA certificates that verify client certificates"),
    flag(
        "disable-admission-plugins",
        "plugins to disable; without NamespaceLifecycle, objects need no namespace; plugins that this server \
         does not have are ignored",
    ),
    flag("enable-admission-plugins", "plugins to enable in addition to the default ones"),
    flag("etcd-servers", "the etcd server, which keeps the state while this program is not running"),
    flag("event-ttl", "time until an Event expires after its last write; 1h by default"),
    flag("feature-gates", "AggregatedDiscoveryEndpoint=false; other gates only with their default value"),
    flag(
        "runtime-config",
        "API versions to enable; the server serves a fixed set and rejects other versions",
    ),
    flag("secure-port", "port to listen on; 6443 by default"),
    flag("tls-cert-file", "server certificate, instead of the one in --cert-dir"),
    flag("tls-private-key-file", "private key of --tls-cert-file"),
    flag(
        "service-cluster-ip-range",
        "range of Service IP addresses; the first one is that of the Service kubernetes",
    ),
    flag("token-auth-file", "file of bearer tokens, with lines of token,user,uid,\"group,group\""),
    idle("advertise-address", "no component reads the address"),
    idle_switch("allow-privileged", "no pod runs"),
    idle("api-audiences", "the server looks tokens up instead of verifying their signatures"),
    idle("default-watch-cache-size", "everything is in memory"),
    idle_switch("enable-aggregator-routing", "there are no other API servers"),
    idle_switch("enable-garbage-collector", "informer envtest runs no garbage collector"),
    idle_switch("enable-priority-and-fairness", "requests are not queued"),
    idle("endpoint-reconciler-type", "there is one API server"),
    idle("etcd-compaction-interval", "the event history is limited by its length, not by its age"),
    idle("etcd-prefix", "there is one API server"),
    idle("logging-format", "the environment variable RUST_LOG configures logging"),
    idle("max-mutating-requests-inflight", "requests are not queued"),
    idle("max-requests-inflight", "requests are not queued"),
    idle("min-request-timeout", "watches end after the default time of kube-apiserver"),
    idle_switch("profiling", "the server has no profiling endpoint"),
    idle("service-account-issuer", "the server looks tokens up instead of verifying their signatures"),
    idle("service-account-key-file", "the server looks tokens up instead of verifying their signatures"),
    idle(
        "service-account-signing-key-file",
        "the server looks tokens up instead of verifying their signatures",
    ),
    idle("shutdown-delay-duration", "there is no load balancer"),
    idle("storage-backend", "everything is in memory"),
    idle("storage-media-type", "everything is in memory"),
    idle("v", "the environment variable RUST_LOG configures logging"),
    idle("vmodule", "the environment variable RUST_LOG configures logging"),
    idle_switch("watch-cache", "everything is in memory"),
];

/// Admission plugins that `--enable-admission-plugins` may name without effect: this server always enables
/// them, or handles them with `--disable-admission-plugins`.
const ALWAYS_ENABLED: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "ResourceQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Flags whose value is a path, which may be relative to the working directory of the program.
const PATHS: [&str; 5] =
    ["cert-dir", "client-ca-file", "tls-cert-file", "tls-private-key-file", "token-auth-file"];

pub(super) async fn run(arguments: Vec<String>) -> Result<(), Failure> {
    let given = Given::parse(arguments.clone(), FLAGS)?;
    if given.version {
        println!("Kubernetes v1.36.3+embedded");
        return Ok(());
    }
    if given.help {
        let version = env!("CARGO_PKG_VERSION");
        println!("kube-apiserver, emulated by informer {version}\n\nFlags:\n{}", help(FLAGS));
        return Ok(());
    }
    let mut signals = Signals::listen()?;
    if let Some(explorer) = ExplorerConnection::of_environment()? {
        return explorer.run_apiserver(arguments, &mut signals).await;
    }
    let instance = Instance::start(&given, None).await?;
    announce(&instance.url());
    signals.told_to_end().await?;
    instance.stop().await
}

/// Prints the URL of the server on stdout. Writing fails if stdout is closed; the error is ignored, because
/// the server must continue to run.
pub(super) fn announce(url: &str) {
    let _ = writeln!(io::stdout(), "serving on {url}");
}

/// A running API server that was configured with flags of kube-apiserver. Dropping it closes its connections
/// and discards its state, as if a `kube-apiserver` process was killed.
pub(crate) struct Instance {
    server: ApiServer,
    listening: Listening,
    store: Store,
}

impl Instance {
    /// Starts the server that command-line arguments of kube-apiserver describe. Relative paths in the
    /// arguments are relative to `directory`.
    pub(crate) async fn start_in(
        directory: &Path,
        arguments: Vec<String>,
        hook: Arc<dyn RequestHook>,
    ) -> Result<Self, Failure> {
        let mut given = Given::parse(arguments, FLAGS)?;
        given.make_absolute(&PATHS, directory);
        Self::start(&given, Some(hook)).await
    }

    async fn start(given: &Given, hook: Option<Arc<dyn RequestHook>>) -> Result<Self, Failure> {
        let address = address(given)?;
        let server = server(given)?;
        // Setting a hook fails only if the server already has one, and this server is new.
        let _ = hook.map(|hook| server.faults().set_hook(hook));
        let tls = tls(given, address.ip())?;
        let store = Store::of(given)?;
        store.restore(&server).await?;
        publish(&server, address, given)?;
        let listening = server
            .listen_tls(address, tls)
            .await
            .map_err(|error| Failure::caused(format!("cannot listen on {address}"), error))?;
        Ok(Self { server, listening, store })
    }

    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Shuts the API server down gracefully, and then saves its state in etcd, from which the next
    /// `kube-apiserver` restores it.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.listening.shutdown().await;
        self.store.keep(&self.server).await
    }
}

/// Creates or updates the Service `kubernetes` and its endpoints, as kube-apiserver does, because clients in
/// tests expect this Service.
fn publish(server: &ApiServer, address: SocketAddr, given: &Given) -> Result<(), Failure> {
    let range = given.last("service-cluster-ip-range").unwrap_or("10.0.0.0/24");
    let first = first_address(range)
        .ok_or_else(|| invalid("service-cluster-ip-range", range, "it is not a CIDR range"))?;
    let (ip, port) = (address.ip().to_string(), address.port());
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "clusterIP": first, "clusterIPs": [first], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
        "status": {"loadBalancer": {}},
    });
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    });
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    let all = [
        (Gvr::new("", "v1", "services"), service),
        (Gvr::new("", "v1", "endpoints"), endpoints),
        (Gvr::new("discovery.k8s.io", "v1", "endpointslices"), slice),
    ];
    for (gvr, object) in all {
        // The objects are written without validation. The Service in the saved state may have a cluster IP of
        // another service range, and an endpoint may have a loopback address, which an API server rejects.
        let written = match server.get(&gvr, "default", "kubernetes") {
            Ok(_) => server.raw().update(&gvr, "default", object),
            Err(_) => server.raw().create(&gvr, "default", object),
        };
        written.map_err(Failure::server)?;
    }
    Ok(())
}

/// Returns the first host address of an IP range. kube-apiserver uses this address for the Service
/// `kubernetes`.
fn first_address(range: &str) -> Option<String> {
    let network = range.split(',').next()?.split_once('/')?.0;
    Some(match network.parse().ok()? {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits().checked_add(1)?).to_string(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits().checked_add(1)?).to_string(),
    })
}

/// Returns the listen address of `--bind-address` and the port. Returns an error if other machines could
/// reach the address but no flag enables authentication.
fn address(given: &Given) -> Result<SocketAddr, Failure> {
    let ip: IpAddr = match given.last("bind-address") {
        None => Ipv4Addr::LOCALHOST.into(),
        Some(text) => text.parse().map_err(|_| invalid("bind-address", text, "it is not an IP address"))?,
    };
    let asked = given.last("client-ca-file").is_some() || given.last("token-auth-file").is_some();
    if !ip.is_loopback() && !asked {
        let why = "without --client-ca-file or --token-auth-file, clients are not authenticated";
        return Err(invalid("bind-address", &ip.to_string(), why));
    }
    let port = given.last("secure-port").unwrap_or("6443");
    let port = port.parse().map_err(|_| invalid("secure-port", port, "it is not a port number"))?;
    Ok(SocketAddr::new(ip, port))
}

fn server(given: &Given) -> Result<ApiServer, Failure> {
    let mut builder = ApiServer::builder().controllers(Controllers::NONE).bootstrap(true);
    builder = builder.rbac(rbac(given)?);
    let off: Vec<&str> = given.list("disable-admission-plugins").collect();
    builder = builder.require_namespaces(!off.contains(&"NamespaceLifecycle"));
    let present = off.into_iter().filter(|plugin| ApiServer::admission_plugins().any(|name| name == *plugin));
    builder = builder.disable_admission_plugins(present).map_err(|error| Failure::new(error.to_string()))?;
    for plugin in given.list("enable-admission-plugins").filter(|plugin| !ALWAYS_ENABLED.contains(plugin)) {
        let refused = |_| invalid("enable-admission-plugins", plugin, "this server has no such plugin");
        builder = builder.enable_admission_plugins([plugin]).map_err(refused)?;
    }
    for gate in given.list("feature-gates") {
        match gate {
            "AggregatedDiscoveryEndpoint=false" => builder = builder.aggregated_discovery(false),
            gate if gate.ends_with("=true") && DEFAULT_GATES.contains(&gate.trim_end_matches("=true")) => {}
            gate => return Err(invalid("feature-gates", gate, "this server cannot change this gate")),
        }
    }
    if let Some(text) = given.last("event-ttl") {
        builder = builder.event_ttl(period::parse(text).map_err(|why| invalid("event-ttl", text, &why))?);
    }
    if let Some(path) = given.last("client-ca-file") {
        let authorities = certificates::read(Path::new(path))?.parse();
        builder = builder.client_ca(authorities.map_err(|error| unusable(path, error))?);
    }
    if let Some(path) = given.last("token-auth-file") {
        let tokens: Tokens =
            certificates::read(Path::new(path))?.parse().map_err(|error| unusable(path, error))?;
        builder = builder.tokens(tokens);
    }
    let server = builder.build();
    for version in given.list("runtime-config") {
        let (name, on) = version.split_once('=').unwrap_or((version, "true"));
        if on != "true" || !server.serves(name) {
            return Err(invalid("runtime-config", version, "the served versions cannot be changed"));
        }
    }
    Ok(server)
}

/// Feature gates that this server implements and that the supported version of kube-apiserver enables by
/// default. The flag `--feature-gates` may enable them without effect.
const DEFAULT_GATES: [&str; 3] = ["AggregatedDiscoveryEndpoint", "WatchList", "CustomResourceFieldSelectors"];

/// Returns true if the flag `--authorization-mode` enables RBAC. The mode `Node` has no effect, because there
/// are no nodes.
fn rbac(given: &Given) -> Result<bool, Failure> {
    let mut rbac = false;
    for mode in given.list("authorization-mode") {
        match mode {
            // With the mode `AlwaysAllow`, each request is allowed, because one authorizer that allows it is
            // enough. RBAC then has no effect.
            "AlwaysAllow" => return Ok(false),
            "RBAC" => rbac = true,
            "Node" => {}
            mode => {
                return Err(invalid("authorization-mode", mode, "only RBAC and AlwaysAllow are supported"));
            }
        }
    }
    Ok(rbac)
}

fn tls(given: &Given, ip: IpAddr) -> Result<Tls, Failure> {
    let directory = Path::new(given.last("cert-dir").unwrap_or("/var/run/kubernetes"));
    let files = match given.last("tls-cert-file").zip(given.last("tls-private-key-file")) {
        Some((chain, key)) => Files::Named(Path::new(chain), Path::new(key)),
        None => Files::In(directory),
    };
    certificates::tls(&files, ip)
}

fn unusable(path: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::caused(format!("cannot use {path}"), error)
}

fn invalid(flag: &str, value: &str, why: &str) -> Failure {
    Failure::new(format!("invalid value {value:?} for flag --{flag}: {why}"))
}

#[cfg(test)]
mod tests;
