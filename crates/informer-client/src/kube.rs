//! A client of kube that uses the connections and credentials of this client, for the requests that kube
//! implements and this crate does not: logs, exec, attach, port-forward, evictions and others.

use http::Request;
use kube_client::client::Body;

use crate::client::{BoxError, Transport};
use crate::{Client, StaticResource};

impl Client {
    /// Returns a client of kube that sends its requests through this client: with its TLS settings, proxy,
    /// headers and credentials, which are renewed as described at [`Client`].
    ///
    /// It has separate connections. With the feature `ws` they use HTTP/1.1, because HTTP/2 does not support
    /// the protocol upgrades of exec, attach and port-forward. It does not retry requests. Returns a clone of
    /// the original client if this client was created from a [`kube_client::Client`].
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, because kube starts a task.
    pub fn to_kube(&self) -> kube_client::Client {
        if let Transport::Kube(client) = self.transport() {
            return client.clone();
        }
        let client = self.with_upgradable_connections();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let response = client.request(Request::from_parts(head, body)).await;
                response.map_err(BoxError::from)
            }
        });
        kube_client::Client::new(service, self.default_namespace())
    }

    /// Returns kube's `Api` for the objects of a kind in one namespace, over a [client of
    /// kube](Self::to_kube). Without a namespace it is that of this client. The methods of the `Api` include
    /// `logs`, `log_stream`, `evict`, scale, resize and ephemeral containers, and with the feature `ws` also
    /// `exec`, `attach` and `portforward`.
    ///
    /// ```no_run
    /// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = client.kube_api::<Pod>(Some("default"));
    /// println!("{}", pods.logs("web-0", &Default::default()).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, like [`to_kube`](Self::to_kube).
    pub fn kube_api<K>(&self, namespace: Option<&str>) -> kube_client::Api<K>
    where
        K: StaticResource + kube_core::Resource<Scope = kube_core::NamespaceResourceScope>,
    {
        let client = self.to_kube();
        match namespace {
            Some(namespace) => kube_client::Api::namespaced(client, namespace),
            None => kube_client::Api::default_namespaced(client),
        }
    }
}
