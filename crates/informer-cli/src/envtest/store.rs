//! Saves the state of the embedded API server, which runs as `kube-apiserver`, in the `etcd` that envtest
//! starts with it.

use std::error::Error;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use informer_apiserver::ApiServer;

use super::etcd::STATE_PATH;
use super::flags::Given;
use crate::failure::Failure;

/// A client of the `etcd` that the flag `--etcd-servers` names. It saves the state of the API server there.
/// Without this flag, no state is saved.
pub(super) struct Store {
    url: Option<String>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Store {
    pub(super) fn of(given: &Given) -> Result<Self, Failure> {
        let mut urls = given.list("etcd-servers");
        let url = urls.next().map(|url| format!("{}{STATE_PATH}", url.trim_end_matches('/')));
        if let Some(second) = urls.next() {
            return Err(Failure::new(format!(
                "invalid value {second:?} for flag --etcd-servers: only one server is supported, the etcd of \
                 `informer envtest install`"
            )));
        }
        Ok(Self { url, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    /// Reads the saved state from etcd, and restores it in the API server. Does nothing if no state is saved.
    pub(super) async fn restore(&self, server: &ApiServer) -> Result<(), Failure> {
        let Some(url) = &self.url else { return Ok(()) };
        let (status, body) = self.ask(Method::GET, url, Bytes::new()).await?;
        match status {
            StatusCode::OK => {
                let broken = |error: Box<dyn Error + Send + Sync>| {
                    Failure::caused(format!("cannot restore the state from {url}"), error)
                };
                let snapshot = serde_json::from_slice(&body).map_err(|error| broken(error.into()))?;
                server.restore(snapshot).map_err(|error| broken(error.into()))
            }
            // With 404 there is no saved state. The `etcd` of this project is new, or `--etcd-servers` names
            // a real etcd, which does not serve the URL path of the state.
            StatusCode::NOT_FOUND => Ok(()),
            status => Err(Failure::new(format!("cannot read the state from {url}: {status}"))),
        }
    }

    pub(super) async fn keep(&self, server: &ApiServer) -> Result<(), Failure> {
        let Some(url) = &self.url else { return Ok(()) };
        let state = serde_json::to_vec(&server.snapshot())
            .map_err(|error| Failure::caused("cannot serialize the state", error))?;
        match self.ask(Method::PUT, url, state.into()).await? {
            (StatusCode::NO_CONTENT | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _) => Ok(()),
            (status, _) => Err(Failure::new(format!("cannot save the state to {url}: {status}"))),
        }
    }

    async fn ask(&self, method: Method, url: &str, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let failed = |error: Box<dyn Error + Send + Sync>| {
            Failure::caused(format!("cannot reach etcd at {url}"), error)
        };
        let request = Request::builder().method(method).uri(url).body(Full::new(body));
        let request =
            request.map_err(|error| failed(Box::new(error) as Box<dyn std::error::Error + Send + Sync>))?;
        let response = self.client.request(request).await.map_err(|error| failed(error.into()))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| failed(error.into()))?;
        Ok((status, body.to_bytes()))
    }
}
