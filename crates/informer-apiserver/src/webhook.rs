//! Calls of admission and conversion webhooks.
//!
//! A call is one POST on its own connection, which the caller polls. No task is spawned and no connection is
//! reused, so a call ends when the request that caused it is dropped. Calls use TLS, and the certificate of
//! the webhook is verified with the `caBundle` of its configuration, as in kube-apiserver.
//!
//! Only the calls of a handler in this process ([`Webhooks::handle_service`]) have no connection and no TLS.
//!
//! # Lock order
//!
//! No other lock is acquired while `routes` is held. `routes` is never held across an await.

mod client;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::DuplexStream;

pub(crate) use client::Post;

/// The default port in the `service` or `url` of a webhook.
const PORT: u16 = 443;

/// The network routes to admission and conversion webhooks.
///
/// A webhook with a `url` is called at that address. A webhook with a `service` needs a route that
/// [`route_service`](Self::route_service) adds, because there is no cluster network.
/// [`connect_with`](Self::connect_with) replaces the TCP connection to a host, for webhooks in this process.
/// [`handle_service`](Self::handle_service) calls a function in this process instead of a Service.
///
/// ```
/// use informer_apiserver::ApiServer;
///
/// let server = ApiServer::builder().build();
/// // Calls of the service `hooks` in the namespace `system` go to this address.
/// server.webhooks().route_service("system", "hooks", "127.0.0.1:9443");
/// ```
#[derive(Clone, Default)]
pub struct Webhooks {
    routes: Arc<RwLock<Routes>>,
}

#[derive(Default)]
struct Routes {
    /// Maps the namespace and name of a Service to the route of its calls.
    services: HashMap<(String, String), ServiceRoute>,
    /// Connection factories, by the host and port that they replace.
    connectors: HashMap<String, Connector>,
}

type Connector = Arc<dyn Fn() -> DuplexStream + Send + Sync>;

type Handler = Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// The route of the webhook calls of a Service.
#[derive(Clone)]
enum ServiceRoute {
    /// The host and port to connect to.
    Authority(String),
    /// The function to call instead of a connection.
    Handler(Handler),
}

impl Webhooks {
    /// Routes webhook calls for a Service to a host and port.
    ///
    /// The port of the service reference is ignored. The webhook's certificate must still be valid for
    /// `NAME.NAMESPACE.svc`.
    pub fn route_service(&self, namespace: &str, name: &str, authority: impl Into<String>) {
        self.add_route(namespace, name, ServiceRoute::Authority(authority.into()));
    }

    /// Answers webhook calls for a Service with a function, without a connection.
    ///
    /// The function receives the request as a webhook server receives it: its path, its headers and the
    /// review as JSON. There is no TLS, so the `caBundle` of the webhook is not used. The rest of the call is
    /// as usual: its timeout, the maximum size and the status of the response. Replaces an earlier route of
    /// the Service.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use informer_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().build();
    /// server.webhooks().handle_service("system", "hooks", |review: Request<Bytes>| async move {
    ///     assert_eq!(review.uri().path(), "/validate");
    ///     Response::new(Bytes::from_static(b"{}"))
    /// });
    /// ```
    pub fn handle_service<F, Fut>(&self, namespace: &str, name: &str, handler: F)
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| handler(request).boxed());
        self.add_route(namespace, name, ServiceRoute::Handler(handler));
    }

    fn add_route(&self, namespace: &str, name: &str, route: ServiceRoute) {
        self.routes.write().services.insert((namespace.to_owned(), name.to_owned()), route);
    }

    /// Connects to a host and port (for example `127.0.0.1:9443`) with a function instead of a TCP socket.
    ///
    /// The function returns the client end of a new connection for each webhook call. The call uses TLS over
    /// this connection.
    pub fn connect_with(
        &self,
        authority: impl Into<String>,
        connect: impl Fn() -> DuplexStream + Send + Sync + 'static,
    ) {
        self.routes.write().connectors.insert(authority.into(), Arc::new(connect));
    }

    fn service(&self, namespace: &str, name: &str) -> Option<ServiceRoute> {
        self.routes.read().services.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn connector(&self, authority: &str) -> Option<Connector> {
        self.routes.read().connectors.get(authority).cloned()
    }
}

impl fmt::Debug for ServiceRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority(authority) => f.write_str(authority),
            Self::Handler(_) => f.write_str("a handler in this process"),
        }
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self.routes.read();
        f.debug_struct("Webhooks")
            .field("services", &routes.services)
            .field("connectors", &routes.connectors.keys())
            .finish()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(crate) url: Option<String>,
    pub(crate) service: Option<Service>,
    /// PEM certificates in base64.
    #[serde(default)]
    pub(crate) ca_bundle: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) port: Option<u16>,
}

/// Decodes the object in a webhook response, which is JSON, or YAML, as kube-apiserver's client also accepts.
pub(crate) fn decode_response(body: &[u8]) -> Result<Value, String> {
    let failed = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let response = match crate::model::json::read_json(body) {
        Ok(response) => response,
        Err(why) if why.starts_with("unexpected end") => return Err(failed(why)),
        Err(why) => crate::model::yaml::read_yaml_value(body).map_err(|_| failed(why))?,
    };
    match response {
        Value::Object(_) => Ok(response),
        other => Err(failed(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,\
             omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            crate::model::json::json_type(&other)
        ))),
    }
}
