//! The live data of `informer top` and `informer console`: that of the console of a running program, or that
//! of informers that the command runs itself.
//!
//! # Shutdown
//!
//! Dropping a [`LiveSource`] ends its task, which stops the informers or closes the connection.

mod attach;
mod local;

use std::time::Duration;

use clap::Args;
use informer::runtime::Manager;
use informer::runtime::console::{ConsoleData, ConsoleEvent, KeyHistory};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::attach::Attached;
pub(crate) use self::attach::{AttachArguments, ConsoleClient};
use crate::connection::ConnectionArguments;
use crate::failure::Failure;

/// The time between two snapshots; the same as that of the events of a console.
const PERIOD: Duration = Duration::from_secs(1);

/// The number of updates that wait for a slow terminal. Older data is of no use.
const MAX_PENDING: usize = 4;

/// The arguments for own informers, which `--attach` excludes.
const OWN_INFORMERS: [&str; 7] =
    ["kinds", "namespace", "all_namespaces", "server", "kubeconfig", "context", "as_user"];

/// Selects a program to attach to, or the cluster and the kinds to watch.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("attach", |attach| attach.conflicts_with_all(OWN_INFORMERS)))]
pub(crate) struct LiveArguments {
    /// Kinds to watch with own informers, by kind, plural or short name: `pods`, `deploy,rs`; with the group
    /// if the name alone is ambiguous: `deployments.apps`.
    #[arg(value_name = "KIND[.GROUP]", value_delimiter = ',', required_unless_present = "attach")]
    kinds: Vec<String>,
    #[command(flatten)]
    pub(crate) attach: AttachArguments,
    /// Watch the objects of this namespace; by default that of the kubeconfig.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Watch the objects of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl LiveArguments {
    /// Returns a manager that runs an informer and an empty controller for each kind. It only reads. The
    /// informers cache whole objects, or only their metadata.
    pub(crate) async fn manager(&self, whole_objects: bool) -> Result<Manager, Failure> {
        let client = self.connection.client().await?;
        let namespace = match (&self.namespace, self.all_namespaces) {
            (_, true) => None,
            (Some(namespace), false) => Some(namespace.clone()),
            (None, false) => Some(client.default_namespace().to_owned()),
        };
        local::manager(&client, &self.kinds, namespace, whole_objects).await
    }
}

/// A change of what is known about the watched program.
#[derive(Debug)]
pub(crate) enum LiveUpdate {
    Event(Box<ConsoleEvent>),
    /// The source is disconnected; contains the error. It connects again, unless it has ended.
    Disconnected(String),
}

/// A source of live data.
pub(crate) struct LiveSource {
    pub(crate) updates: mpsc::Receiver<LiveUpdate>,
    pub(crate) reader: HistoryReader,
    task: JoinHandle<()>,
}

/// Reads the history of keys. Clones read the same source.
#[derive(Clone)]
pub(crate) enum HistoryReader {
    Local(ConsoleData),
    Attached(ConsoleClient),
}

impl LiveSource {
    pub(crate) async fn open(arguments: &LiveArguments) -> Result<Self, Failure> {
        let mut clients = arguments.attach.clients()?;
        if clients.len() > 1 {
            return Err(Failure::new(format!(
                "attach to {} programs: this view shows one; use `informer console` with the same options",
                clients.len()
            )));
        }
        if let Some(client) = clients.pop() {
            return Ok(Self::attach(client));
        }
        let (sender, updates) = mpsc::channel(MAX_PENDING);
        let manager = arguments.manager(false).await?;
        let data = manager.console_data();
        let reader = HistoryReader::Local(data.clone());
        let task = tokio::spawn(local::run(manager, data, sender));
        Ok(Self { updates, reader, task })
    }

    /// Reads the data of a running program.
    pub(crate) fn attach(client: ConsoleClient) -> Self {
        let (sender, updates) = mpsc::channel(MAX_PENDING);
        let reader = HistoryReader::Attached(client.clone());
        let task = tokio::spawn(Attached { client, sender }.run());
        Self { updates, reader, task }
    }
}

impl Drop for LiveSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HistoryReader {
    pub(crate) async fn read(&self, key: &str) -> Result<KeyHistory, String> {
        match self {
            Self::Local(data) => Ok(data.history(key)),
            Self::Attached(client) => client.history(key).await,
        }
    }
}
