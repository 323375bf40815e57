//! Shared set-up of the examples: the embedded server, or the cluster that `KUBECONFIG` names.
//!
//! Every example is a program of its own in `examples/`, listed in `docs/examples.md`. By default [`connect`]
//! starts an API server inside of the process and fills it; with `KUBECONFIG` set it connects to that
//! cluster, which the examples read and never write to, but for the operators: they make and take away
//! objects of their own.

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
use tokio::task::JoinHandle;

/// Any error.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of the `main` of an example.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// How long examples wait for what takes moments.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two changes of the generator.
const CHANGE_EVERY: Duration = Duration::from_millis(10);

/// Changes of [`Cluster::change_for_a_while`].
const CHANGES: u64 = 30;

/// The server that an example uses. Dropping it ends the embedded server.
#[derive(Debug)]
pub struct Cluster {
    server: Option<ApiServer>,
}

/// Changes that go on until this is dropped.
#[derive(Debug)]
#[must_use = "the changes end when this is dropped"]
pub struct Changes(Option<JoinHandle<Result>>);

/// A client of the cluster that `KUBECONFIG` names, or else of an embedded server with some pods, deployments
/// and config maps.
///
/// # Errors
///
/// When the configuration cannot be used.
pub async fn connect() -> Result<(Client, Cluster)> {
    if std::env::var_os("KUBECONFIG").is_some() {
        return Ok((Client::try_default().await?, Cluster { server: None }));
    }
    let server = ApiServer::builder().build();
    content::fill(&server)?;
    // No socket: requests go from the client's stack straight to the server's.
    let client = Client::from_service(server.service(), "default");
    Ok((client, Cluster { server: Some(server) }))
}

/// The client that an operator runs with: of the user that `OPERATOR_KUBECONFIG` names, who may do what its
/// Role says, or else the one that there is.
///
/// # Errors
///
/// When the configuration cannot be used.
pub async fn operator(client: &Client) -> Result<Client> {
    let Some(path) = std::env::var_os("OPERATOR_KUBECONFIG") else { return Ok(client.clone()) };
    let options = KubeConfigOptions::default();
    Ok(Client::new(Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?)?)
}

/// The client of who uses an operator: makes what it works on, and looks at what it made of that.
pub fn user(client: &Client) -> informer::runtime::CachedClient {
    informer::runtime::CachedClient::new(&Cache::builder(client.clone()).build())
}

impl Cluster {
    /// The embedded server; `None` on a real cluster.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// Lets pods of the embedded server change, go and come back until the result is dropped. A real cluster
    /// changes by itself.
    pub fn changes(&self) -> Changes {
        let change_for_ever = |server| tokio::spawn(async move { change(&server, u64::MAX).await });
        Changes(self.server.clone().map(change_for_ever))
    }

    /// The same for some moments: 30 changes, and a pause in which they arrive. On a real cluster five
    /// seconds, in which it changes or not.
    ///
    /// # Errors
    ///
    /// When the embedded server refuses a change.
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
        content::change(server, step).inspect_err(|error| eprintln!("changes end: {error}"))?;
        tokio::time::sleep(CHANGE_EVERY).await;
    }
    Ok(())
}
