//! Shared set-up of the examples: the embedded server, or the cluster that `KUBECONFIG` names.
//!
//! Every example is a program of its own in `examples/`, listed in `docs/examples.md`. By default [`connect`] starts an API
//! server inside of the process and fills it; with `KUBECONFIG` set it connects to that cluster, which the examples
//! read and never write to.

mod content;

use std::time::Duration;

use informer::Client;
use informer_apiserver::ApiServer;
use tokio::task::JoinHandle;

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the `main` of an example returns.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// How long examples wait for what takes moments.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two changes of the generator.
const CHANGE_EVERY: Duration = Duration::from_millis(10);

/// What an example runs on. Dropping it ends the embedded server.
#[derive(Debug)]
pub struct Cluster {
    server: Option<ApiServer>,
}

/// Changes that go on until this is dropped.
#[derive(Debug)]
#[must_use = "the changes end when this is dropped"]
pub struct Changes(Option<JoinHandle<Result>>);

/// A client of the cluster that `KUBECONFIG` names, or else of an embedded server with some pods, deployments and config
/// maps.
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

impl Cluster {
    /// The embedded server; `None` on a real cluster.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// Lets pods of the embedded server change, go and come back. A real cluster changes by itself.
    pub fn changes(&self) -> Changes {
        Changes(self.server.clone().map(|server| tokio::spawn(change(server))))
    }

    /// Long enough for a few dozen changes on the embedded server, and for a few on a real cluster.
    pub async fn a_while(&self) {
        let time = if self.server.is_some() { Duration::from_millis(300) } else { Duration::from_secs(5) };
        tokio::time::sleep(time).await;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn change(server: ApiServer) -> Result {
    let mut ticks = tokio::time::interval(CHANGE_EVERY);
    for step in 0.. {
        ticks.tick().await;
        content::change(&server, step)
            .inspect_err(|error| eprintln!("the generator of changes ends: {error}"))?;
    }
    Ok(())
}
