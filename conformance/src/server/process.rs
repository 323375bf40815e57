use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use informer::Gvr;
use informer::client::Client;
use informer_apiserver::ReservedPort;
use kube_client::Config;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::ServerError;
use crate::Api;

/// Timeout for the server to become ready. An idle machine needs milliseconds; the timeout is for a machine
/// under heavy load.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The kinds that a backup contains. A server started from a backup has the objects of these kinds with new
/// uids, and counts resource versions from the start.
const KEPT: [(&str, &str); 2] = [("Namespace", "namespaces"), ("ConfigMap", "configmaps")];

/// `informer serve` in a separate process. The state of the server is lost when the process ends.
#[derive(Debug)]
pub struct Spawned {
    program: PathBuf,
    /// The reserved port of the server. It is the same after each start, so that clients can reconnect.
    port: ReservedPort,
    folder: TempDir,
    child: Mutex<Option<Child>>,
}

impl Spawned {
    /// Starts the server on a free port.
    ///
    /// # Errors
    ///
    /// When the server cannot be started, or does not become ready.
    pub async fn new(program: &Path) -> Result<Self, ServerError> {
        let child = Mutex::new(None);
        let server =
            Self { program: program.to_owned(), port: ReservedPort::new()?, folder: TempDir::new()?, child };
        server.start().await?;
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the process id of the server; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child.lock().as_ref().and_then(Child::id)
    }

    pub(super) async fn start(&self) -> Result<(), ServerError> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", &self.address().to_string()]);
        let state = self.state();
        if state.exists() {
            command.arg("--load").arg(state);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        *self.child.lock() = Some(command.spawn()?);
        let ready = async {
            while TcpStream::connect(self.address()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY_WITHIN, ready).await.map_err(|_| {
            let late = format!("{} does not respond on {}", self.program.display(), self.address());
            ServerError::Listen(io::Error::new(io::ErrorKind::TimedOut, late))
        })
    }

    pub(super) async fn stop(&self) -> Result<(), ServerError> {
        self.signal(Signal::End)?;
        self.gone().await
    }

    pub(super) async fn kill(&self) -> Result<(), ServerError> {
        self.signal(Signal::Kill)?;
        self.gone().await
    }

    pub(super) fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::Pause)
    }

    pub(super) fn resume(&self) -> Result<(), ServerError> {
        self.signal(Signal::Resume)
    }

    pub(super) async fn backup(&self) -> Result<(), ServerError> {
        let config = Config::new(
            format!("http://{}", self.address()).parse().expect("a URL with an address is valid"),
        );
        let api = Api::new(Client::new(config)?);
        let mut items = Vec::new();
        for (kind, plural) in KEPT {
            let (objects, _) = api.list(&Gvr::new("", "v1", plural), "").await?;
            items.extend(objects.into_iter().map(|object| manifest(kind, object)));
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        Ok(std::fs::write(self.state(), list.to_string())?)
    }

    pub(super) async fn restore(&self) -> Result<(), ServerError> {
        self.kill().await?;
        self.start().await
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state.json")
    }

    async fn gone(&self) -> Result<(), ServerError> {
        let child = self.child.lock().take();
        if let Some(mut child) = child {
            child.wait().await?;
        }
        Ok(())
    }

    fn signal(&self, what: Signal) -> Result<(), ServerError> {
        match self.pid() {
            Some(pid) => Ok(send(pid, what)?),
            None => Ok(()),
        }
    }
}

/// Returns the manifest of an object: its content without the fields that the server sets.
fn manifest(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(kind);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for given in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(given);
        }
    }
    object
}

#[derive(Clone, Copy)]
enum Signal {
    End,
    Kill,
    Pause,
    Resume,
}

#[cfg(unix)]
fn send(pid: u32, what: Signal) -> io::Result<()> {
    use rustix::process::{Pid, Signal as Number, kill_process};
    let pid =
        i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the operating system returned this pid");
    let number = match what {
        Signal::End => Number::TERM,
        Signal::Kill => Number::KILL,
        Signal::Pause => Number::STOP,
        Signal::Resume => Number::CONT,
    };
    kill_process(pid, number).map_err(io::Error::from)
}

#[cfg(not(unix))]
fn send(_pid: u32, _what: Signal) -> io::Result<()> {
    Err(io::Error::other("signals are not supported on this system"))
}
