//! The HTTP stack of a client: connection, proxy, TLS and authentication layers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::Config;
use kube_client::client::{ConfigExt, RustlsTlsError};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tower::ServiceBuilder;
use tower::util::{BoxCloneSyncService, option_layer};

use super::authenticated::Authenticated;
use super::connections::{Connections, MAX_STREAMS_PER_CONNECTION};
use super::connector::{Connector, boxed};
use super::credentials::{Credentials, CurrentIdentity};
use super::{BoxError, ClientError, ClientOptions, NewService, Protocols};

/// Idle time after which TCP keep-alive probes are sent on a connection. A dead peer is detected after the
/// idle time and five probe intervals: 40 s.
const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE_RETRIES: u32 = 5;
/// Interval of HTTP/2 keep-alive pings, and timeout of their acknowledgement. A dead peer is detected after
/// twice this time: 30 s.
const HTTP2_PING: Duration = Duration::from_secs(15);
/// Receive window of one HTTP/2 stream. The window bounds the memory of a response that the client does not
/// read. It also bounds the throughput of a stream: 2 MiB per round trip of 10 ms are 200 MB/s.
const HTTP2_STREAM_WINDOW: u32 = 2 << 20;
/// Number of stream windows that fit into the receive window of a connection. This number is larger than
/// [`MAX_STREAMS_PER_CONNECTION`], so that responses that are not read cannot use up the window of other
/// streams.
const HTTP2_STREAM_WINDOWS: u32 = 100;
const _: () = assert!(MAX_STREAMS_PER_CONNECTION < HTTP2_STREAM_WINDOWS as usize);
/// Receive window of one HTTP/2 connection: [`HTTP2_STREAM_WINDOWS`] stream windows, 200 MiB. HTTP/2 allows
/// at most 2 GiB.
const HTTP2_CONNECTION_WINDOW: u32 = HTTP2_STREAM_WINDOW * HTTP2_STREAM_WINDOWS;
/// Idle time after which the client closes a connection. API servers close idle connections after 90 s.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(80);

const EXEC_TIMEOUT: Duration = Duration::from_secs(60);

const TLS_REMEDY: &str = "check certificates and keys in the kubeconfig";

/// The parts of a kube configuration: the configuration without its renewable credentials, and these
/// credentials.
struct Settings {
    config: Config,
    credentials: Option<Arc<Credentials>>,
}

pub(super) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Returns a function that builds HTTP services for the server of a configuration. Each service that the
/// function builds has separate connections.
pub(super) fn service(config: &Config, options: &ClientOptions) -> Result<NewService, ClientError> {
    if config.cluster_url.scheme() == Some(&Scheme::HTTPS) {
        select_provider()?;
    }
    let timeout = options.exec_timeout.unwrap_or(EXEC_TIMEOUT);
    let (config, credentials) = Credentials::split(config, timeout)?;
    let settings = &Settings { config, credentials };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(settings.config.connect_timeout);
    tcp.set_keepalive(Some(TCP_KEEPALIVE_IDLE));
    tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(TCP_KEEPALIVE_IDLE + TCP_KEEPALIVE_INTERVAL * TCP_KEEPALIVE_RETRIES));
    let connector = match proxy(&settings.config, &ProxyVariables::read(|name| std::env::var(name).ok())) {
        None => boxed(tcp),
        Some(proxy) => match proxy.scheme_str() {
            Some("socks5") => boxed(SocksV5::new(proxy.clone(), tcp)),
            Some("http") => boxed(tunnel(proxy, boxed(tcp))),
            Some("https") => boxed(tunnel(proxy, Tls::new(settings)?.wrap(boxed(tcp), false))),
            _ => {
                let remedy = "use an http, https or socks5 URL";
                return Err(ClientError::new("the scheme of the proxy URL is not supported", remedy));
            }
        },
    };
    let is_https = settings.config.cluster_url.scheme() == Some(&Scheme::HTTPS);
    let connectors = match is_https.then(|| Tls::new(settings)).transpose()? {
        Some(tls) => Connectors { any: tls.wrap(connector.clone(), true), http1: tls.wrap(connector, false) },
        None => Connectors { any: connector.clone(), http1: connector },
    };
    layered(connectors, settings, options)
}

/// The environment variables that select a proxy; empty if they are not set.
#[derive(Debug, Default)]
struct ProxyVariables {
    https_proxy: String,
    no_proxy: String,
}

impl ProxyVariables {
    /// Reads the variables with a function that returns the value of a variable. As in Go, the name in upper
    /// case takes precedence, and an empty value counts as unset.
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(&variable);
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self { https_proxy: read(["HTTPS_PROXY", "https_proxy"]), no_proxy: read(["NO_PROXY", "no_proxy"]) }
    }
}

/// Returns the proxy of a configuration, unless it is the one of `HTTPS_PROXY` and `NO_PROXY` excludes the
/// API server. As in client-go, `NO_PROXY` does not apply to the `proxy-url` of a kubeconfig.
///
/// kube reads `NO_PROXY` only with its feature `socks5` or `http-proxy`, either of which compiles its HTTP
/// client several times, and compares it with the host of the proxy.
fn proxy<'c>(config: &'c Config, variables: &ProxyVariables) -> Option<&'c Uri> {
    let proxy = config.proxy_url.as_ref()?;
    let from_environment = variables.https_proxy.parse::<Uri>().is_ok_and(|uri| uri == *proxy);
    let rules = Matcher::builder().all("http://proxy").no(variables.no_proxy.as_str()).build();
    let excluded = from_environment && rules.intercept(&config.cluster_url).is_none();
    (!excluded).then_some(proxy)
}

fn tunnel(proxy: &Uri, connector: Connector) -> Tunnel<Connector> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let user = proxy.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    let Some((user, _)) = user else { return tunnel };
    let user: Vec<u8> = percent_encoding::percent_decode_str(user).collect();
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
    match HeaderValue::try_from(text) {
        Ok(header) => tunnel.with_auth(header),
        Err(_) => tunnel,
    }
}

/// The connectors to one server: one that negotiates the HTTP version, and one that uses only HTTP/1.1.
struct Connectors {
    any: Connector,
    http1: Connector,
}

fn layered(
    connectors: Connectors,
    settings: &Settings,
    options: &ClientOptions,
) -> Result<NewService, ClientError> {
    let unusable = |cause| {
        let remedy = "check the user in the kubeconfig";
        ClientError::new("the credentials or headers are invalid", remedy).because(cause)
    };
    let Settings { config, credentials } = settings;
    let layers = ServiceBuilder::new()
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .layer(option_layer(config.auth_layer().map_err(unusable)?))
        .map_err(BoxError::from)
        .layer(config.base_uri_layer());
    let (builder, credentials) = (builder(options), credentials.clone());
    Ok(Arc::new(move |protocols| {
        let mut builder = builder.clone();
        let connector = match protocols {
            Protocols::Negotiated => &connectors.any,
            Protocols::Http1 => {
                builder.http2_only(false);
                &connectors.http1
            }
        };
        let connections = Connections::new(connector.clone(), builder);
        BoxCloneSyncService::new(layers.service(Authenticated::new(credentials.clone(), connections)))
    }))
}

fn builder(options: &ClientOptions) -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .http2_only(options.http2_prior_knowledge)
        .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .http2_initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .http2_keep_alive_interval(HTTP2_PING)
        .http2_keep_alive_timeout(HTTP2_PING)
        .http2_keep_alive_while_idle(true);
    builder
}

/// Selects the rustls crypto provider of the process, unless the program has installed one: `ring` if that
/// feature is enabled, else `aws-lc-rs`. kube's client uses the provider of the process. rustls itself
/// selects one only if exactly one of its own features is enabled, and it panics otherwise.
///
/// # Errors
///
/// Returns an error if no provider is installed and neither feature is enabled.
fn select_provider() -> Result<(), ClientError> {
    if CryptoProvider::get_default().is_some() {
        return Ok(());
    }
    #[cfg(feature = "ring")]
    let selected = Some(rustls::crypto::ring::default_provider());
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    let selected = Some(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    let selected: Option<CryptoProvider> = None;
    let Some(selected) = selected else {
        let remedy = "enable the feature ring or aws-lc-rs, or install a rustls CryptoProvider";
        return Err(ClientError::new("no TLS provider is selected", remedy));
    };
    // The installation fails if another thread has installed a provider in the meantime, which is then used.
    let _ = selected.install_default();
    Ok(())
}

/// Returns the error for invalid TLS settings. The error names the CA file if the CA file is the cause.
fn invalid_tls(config: &Config, cause: kube_client::Error) -> ClientError {
    let authority = matches!(cause, kube_client::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)));
    let error = match config.root_cert_file.as_ref().filter(|_| authority) {
        Some(path) => ClientError::authority(path),
        None => ClientError::new("the TLS settings are invalid", TLS_REMEDY),
    };
    error.because(cause)
}

/// The TLS settings of a configuration.
struct Tls {
    settings: rustls::ClientConfig,
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    fn new(settings: &Settings) -> Result<Self, ClientError> {
        select_provider()?;
        let Settings { config, credentials } = settings;
        // kube accepts a CA bundle that contains no certificate; every TLS handshake would then fail.
        let no_authority = config.root_cert.as_ref().is_some_and(Vec::is_empty);
        if no_authority && config.root_cert_file.is_none() && !config.accept_invalid_certs {
            return Err(ClientError::new("the CA bundle contains no certificate", TLS_REMEDY));
        }
        let mut settings = config.rustls_client_config().map_err(|cause| invalid_tls(config, cause))?;
        if let Some(credentials) = credentials.as_ref().filter(|credentials| credentials.has_identity()) {
            let fallback = Arc::clone(&settings.client_auth_cert_resolver);
            let credentials = Arc::clone(credentials);
            settings.client_auth_cert_resolver = Arc::new(CurrentIdentity { credentials, fallback });
            // TLS session resumption is disabled because a resumed session would keep using the client
            // certificate of the first connection.
            settings.resumption = Resumption::disabled();
        }
        let name = config.tls_server_name.clone().map(ServerName::try_from).transpose();
        let server_name = name.map_err(|cause| {
            ClientError::new("tls-server-name is not a valid DNS name", TLS_REMEDY).because(cause)
        })?;
        Ok(Self { settings, server_name })
    }

    /// Adds TLS to a connector. The connector offers HTTP/2 only if `http2` is true: to the API server, but
    /// not to a proxy.
    fn wrap(&self, connector: Connector, http2: bool) -> Connector {
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(self.settings.clone()).https_or_http();
        if let Some(name) = &self.server_name {
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
        }
        boxed(if http2 {
            builder.enable_all_versions().wrap_connector(connector)
        } else {
            builder.enable_http1().wrap_connector(connector)
        })
    }
}

#[cfg(test)]
mod tests;
