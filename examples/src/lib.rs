//! Shared set-up of the examples: the embedded server, or the cluster that `KUBECONFIG` names.
//!
//! Every example is a folder of `examples/` with a program and a README, listed in `docs/examples.md`. By
//! default [`connect`] starts an API server in the process and creates some objects. With `KUBECONFIG` set it
//! connects to that cluster. The examples only read from it, except for the operators, which create and
//! delete their own objects.

#[cfg(doctest)]
pub mod book;
mod content;
pub mod replicas;

use std::time::Duration;

use informer::client::Client;
use informer::kube_client::Config;
use informer::kube_client::config::{KubeConfigOptions, Kubeconfig};
use informer::runtime::Cache;
use informer_apiserver::ApiServer;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

/// The error type of the examples, which any error converts to.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result type of the `main` function of an example.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The timeout of operations in examples that normally complete within a second.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two changes that [`Cluster::changes`] makes.
const CHANGE_EVERY: Duration = Duration::from_millis(10);

/// The number of changes that [`Cluster::change_for_a_while`] makes.
const CHANGES: u64 = 8;

/// The API server of an example. Dropping this value stops an embedded server.
#[derive(Debug)]
pub struct Cluster {
    server: Option<ApiServer>,
}

/// A task that changes pods of the embedded server, until this value is dropped.
#[derive(Debug)]
#[must_use = "the changes end when this is dropped"]
pub struct Changes(Option<JoinHandle<Result>>);

/// Returns a client of the cluster of `KUBECONFIG`, or else of an embedded server with some pods, deployments
/// and config maps.
///
/// With an embedded server on a single-threaded runtime, the function pauses tokio's clock: sleeps and
/// timeouts end as soon as all tasks are idle, so the example takes no real time and always prints the same
/// output.
///
/// # Errors
///
/// If the configuration is invalid.
pub async fn connect() -> Result<(Client, Cluster)> {
    if std::env::var_os("KUBECONFIG").is_some() {
        return Ok((Client::try_default().await?, Cluster { server: None }));
    }
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        tokio::time::pause();
    }
    let server = ApiServer::builder().build();
    content::fill(&server)?;
    // This client passes requests directly to the embedded server, without a socket.
    let client = Client::from_service(server.service(), "default");
    Ok((client, Cluster { server: Some(server) }))
}

/// Returns the client that an operator uses. If the environment variable `OPERATOR_KUBECONFIG` is set, the
/// client uses this kubeconfig, whose user has only the permissions of the operator's Role. Otherwise the
/// function returns a clone of `client`.
///
/// # Errors
///
/// If the configuration is invalid.
pub async fn operator(client: &Client) -> Result<Client> {
    let Some(path) = std::env::var_os("OPERATOR_KUBECONFIG") else { return Ok(client.clone()) };
    let options = KubeConfigOptions::default();
    Ok(Client::new(Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?)?)
}

/// Returns a client for the user of an operator, who creates the operator's input objects and reads the
/// results.
pub fn user(client: &Client) -> informer::runtime::CachedClient {
    informer::runtime::CachedClient::new(&Cache::builder(client.clone()).build())
}

impl Cluster {
    /// Returns the embedded server; `None` on a real cluster.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// Changes, deletes and re-creates pods of the embedded server until the returned value is dropped. Does
    /// nothing on a real cluster.
    pub fn changes(&self) -> Changes {
        let change_for_ever = |server| tokio::spawn(async move { change(&server, u64::MAX).await });
        Changes(self.server.clone().map(change_for_ever))
    }

    /// Makes 8 changes of pods on the embedded server and waits until informers have received them. The
    /// changes are, twice: update `default/web-0` and `shop/db-0`, delete `default/api-3`, and re-create it.
    /// On a real cluster it waits for five seconds.
    ///
    /// # Errors
    ///
    /// If the embedded server rejects a change.
    pub async fn change_for_a_while(&self) -> Result {
        let pause = match &self.server {
            Some(server) => {
                change(server, CHANGES).await?;
                CHANGE_EVERY * 10
            }
            None => Duration::from_secs(5),
        };
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn change(server: &ApiServer, times: u64) -> Result {
    for step in 0..times {
        content::change(server, step).inspect_err(|error| eprintln!("the changes stopped: {error}"))?;
        tokio::time::sleep(CHANGE_EVERY).await;
    }
    Ok(())
}
