//! Calls of webhooks: of admission, and of conversion.
//!
//! A call is one POST on a connection of its own, driven by whoever calls: nothing is spawned and nothing is kept, so that a
//! call ends with the request that made it. TLS is always spoken, as upstream: a webhook proves itself with a certificate of
//! its configuration's `caBundle`.
//!
//! # Lock order
//!
//! `routes` is taken alone, and never over an await.

mod client;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::DuplexStream;

pub(crate) use client::Post;

/// The port of a service that names none, and of a URL without one.
const PORT: u16 = 443;

/// How webhooks are reached.
///
/// A configuration with a `url` is called at that address. One with a `service` needs [`route_service`](Self::route_service),
/// since there is no network of a cluster here. Hosts can also be reached without a socket:
/// [`connect_with`](Self::connect_with).
///
/// ```
/// use informer_apiserver::ApiServer;
///
/// let server = ApiServer::builder().build();
/// // A configuration that names the service `hooks` in `system` is called here.
/// server.webhooks().route_service("system", "hooks", "127.0.0.1:9443");
/// ```
#[derive(Clone, Default)]
pub struct Webhooks {
    routes: Arc<RwLock<Routes>>,
}

#[derive(Default)]
struct Routes {
    /// By namespace and name: the host and port.
    services: HashMap<(String, String), String>,
    /// By host and port: what makes a connection.
    connectors: HashMap<String, Connector>,
}

type Connector = Arc<dyn Fn() -> DuplexStream + Send + Sync>;

impl Webhooks {
    /// Calls of a service go to this host and port, whatever its port is; the certificate must be that of
    /// `NAME.NAMESPACE.svc` all the same.
    pub fn route_service(&self, namespace: &str, name: &str, authority: impl Into<String>) {
        let service = (namespace.to_owned(), name.to_owned());
        self.routes.write().services.insert(service, authority.into());
    }

    /// Connections to a host and port (as `127.0.0.1:9443`) are made by this function instead of a socket: it hands out the
    /// client's end. TLS is spoken over it.
    pub fn connect_with(
        &self,
        authority: impl Into<String>,
        connect: impl Fn() -> DuplexStream + Send + Sync + 'static,
    ) {
        self.routes.write().connectors.insert(authority.into(), Arc::new(connect));
    }

    fn service(&self, namespace: &str, name: &str) -> Option<String> {
        self.routes.read().services.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn connector(&self, authority: &str) -> Option<Connector> {
        self.routes.read().connectors.get(authority).cloned()
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

/// Where a webhook is, as configurations say it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(crate) url: Option<String>,
    pub(crate) service: Option<Service>,
    /// Base64 of PEM.
    #[serde(default)]
    pub(crate) ca_bundle: Option<String>,
}

/// A service of the cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) port: Option<u16>,
}

/// The object in an answer: JSON, or YAML as upstream's client reads it too.
pub(crate) fn read_answer(body: &[u8]) -> Result<Value, String> {
    let failed = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let answer = match crate::model::json::read_json(body) {
        Ok(answer) => answer,
        Err(why) if why.starts_with("unexpected end") => return Err(failed(why)),
        Err(why) => crate::model::yaml::read_yaml_value(body).map_err(|_| failed(why))?,
    };
    match answer {
        Value::Object(_) => Ok(answer),
        other => Err(failed(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,\
             omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            crate::model::metadata::json_type(&other)
        ))),
    }
}
