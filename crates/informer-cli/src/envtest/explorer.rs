//! The connection of the installed `kube-apiserver` and `etcd` to `informer explore`.
//!
//! If `informer explore` has started the test suite, it serves the API of each `kube-apiserver` itself. It
//! can then number the requests of all servers of the suite, and inject faults. The started program only
//! forwards its arguments and a signal to stop.
//!
//! # Protocol
//!
//! The programs connect to the address in [`VARIABLE`], and send one line with a [`Hello`]. For a
//! `kube-apiserver`, the explorer sends one line with a [`Reply`] when the server listens. At its end, the
//! program sends the line [`STOP`], and the explorer replies when the server has stopped. A connection that
//! closes without this line means that the other process has ended.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::apiserver::announce;
use crate::failure::Failure;
use crate::signals::Signals;

/// The environment variable with the address of `informer explore` and a secret: `127.0.0.1:1234/SECRET`. It
/// is set for the explored test suite, and inherited by the programs that the suite starts.
pub(crate) const VARIABLE: &str = "INFORMER_EXPLORE_CONTROL";

/// The line with which a `kube-apiserver` program asks `informer explore` to stop the server that runs for
/// it.
pub(crate) const STOP: &str = "stop";

/// The maximum length of a line that the program and `informer explore` exchange, in bytes.
pub(crate) const MAX_LINE_BYTES: u64 = 1 << 20;

/// The first line that a program sends to `informer explore`, in JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The secret from the environment variable [`VARIABLE`]. It proves that the program belongs to the test
    /// suite, because other users of the machine can also connect to the address.
    pub(crate) secret: String,
    /// The working directory of the program, to which paths in its arguments are relative.
    pub(crate) directory: PathBuf,
    /// The command-line arguments of `kube-apiserver`; `None` for `etcd`, for which no server runs.
    pub(crate) arguments: Option<Vec<String>>,
}

/// The response of `informer explore` to a [`Hello`] or to [`STOP`], in JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// The URL at which the API server listens; empty in the response to [`STOP`] and after an error.
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) error: Option<String>,
}

/// The connection data of the `informer explore` process that started the test suite, and thereby this
/// program.
pub(super) struct ExplorerConnection {
    address: String,
    secret: String,
}

impl ExplorerConnection {
    /// Reads the environment variable [`VARIABLE`]. Returns `None` if it is not set, because
    /// `informer explore` has not started this program. Returns an error if its value is invalid.
    pub(super) fn of_environment() -> Result<Option<Self>, Failure> {
        let Some(value) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let text = value.to_string_lossy();
        let (address, secret) = text.split_once('/').ok_or_else(|| {
            Failure::new(format!("invalid {VARIABLE}: only `informer explore` sets it; unset it"))
        })?;
        Ok(Some(Self { address: address.to_owned(), secret: secret.to_owned() }))
    }

    async fn connect(self, arguments: Option<Vec<String>>) -> Result<BufReader<TcpStream>, Failure> {
        let Self { address, secret } = self;
        let failed = |error| {
            let problem = format!("cannot connect to `informer explore` at {address}; unset {VARIABLE}");
            Failure::caused(problem, error)
        };
        let directory =
            std::env::current_dir().map_err(|error| Failure::io("read the working directory", error))?;
        let mut stream = TcpStream::connect(&address).await.map_err(failed)?;
        let hello = Hello { secret, directory, arguments };
        let line = serde_json::to_string(&hello)
            .map_err(|error| Failure::caused("cannot encode the arguments of this program", error))?;
        stream.write_all(format!("{line}\n").as_bytes()).await.map_err(failed)?;
        Ok(BufReader::new(stream))
    }

    /// Asks `informer explore` to run a `kube-apiserver` with these arguments, and prints its URL. Waits for
    /// a signal, and then asks `informer explore` to stop the server. Also returns if the exploration ends
    /// before.
    pub(super) async fn run_apiserver(
        self,
        arguments: Vec<String>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let mut connection = self.connect(Some(arguments)).await?;
        announce(&reply(&mut connection).await?.url);
        tokio::select! {
            outcome = signals.told_to_end() => outcome?,
            // `informer explore` sends nothing until it is asked to stop the server. It closes the connection
            // only when its run has ended.
            _ = reply(&mut connection) => return Ok(()),
        }
        let stop = format!("{STOP}\n");
        if connection.get_mut().write_all(stop.as_bytes()).await.is_ok() {
            reply(&mut connection).await?;
        }
        Ok(())
    }
}

/// Waits until the run of `informer explore` has ended. An `etcd` program then exits, also if its test suite
/// was killed because of a timeout and could not stop it. Waits forever if no `informer explore` has started
/// the program.
pub(super) async fn ended(explorer: Option<ExplorerConnection>) {
    let Some(explorer) = explorer else { return std::future::pending().await };
    if let Ok(mut connection) = explorer.connect(None).await {
        let mut line = String::new();
        let _ = connection.read_line(&mut line).await;
    }
}

async fn reply(connection: &mut BufReader<TcpStream>) -> Result<Reply, Failure> {
    let mut line = String::new();
    let failed = |error| Failure::io("read from `informer explore`", error);
    if connection.read_line(&mut line).await.map_err(failed)? == 0 {
        return Err(Failure::new("`informer explore` has ended"));
    }
    let reply: Reply = serde_json::from_str(&line)
        .map_err(|error| Failure::caused("cannot parse the reply of `informer explore`", error))?;
    match reply.error {
        Some(error) => Err(Failure::new(error)),
        None => Ok(reply),
    }
}
