use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Entry;
use crate::Cable;

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The resources that a client program's process uses, on systems that report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Number of open file descriptors of the process.
    pub descriptors: u64,
    /// Number of tasks of the process's tokio runtime.
    pub tasks: u64,
    /// Resident memory of the process, in KiB.
    pub resident: u64,
}

/// A running client program with an informer, the proxy between that program and the server, and the pipe
/// through which the test requests the content of the informer's cache.
#[derive(Debug)]
pub struct Peer {
    name: String,
    cable: Cable,
    cuts: AtomicU64,
    child: Child,
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    footprint: Option<Footprint>,
}

/// The error of a client program that ended, did not respond, or responded with invalid data.
#[derive(Debug, Error)]
#[error("peer {name}: {what}")]
pub struct PeerError {
    name: String,
    what: String,
    #[source]
    cause: Option<std::io::Error>,
}

impl Peer {
    /// Starts a program with a kubeconfig, a namespace and further arguments.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(name: &str, program: &Path, arguments: &[&OsStr], cable: Cable) -> Result<Self, PeerError> {
        let failed = |what: &str, cause| PeerError { name: name.to_owned(), what: what.to_owned(), cause };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // The client program logs each cut of a connection. Its log is discarded, since it is useful only for
        // debugging.
        command.stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| failed(&format!("cannot start {}", program.display()), Some(error)))?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes", None));
        };
        let responses = BufReader::new(output).lines();
        let (name, cuts) = (name.to_owned(), AtomicU64::new(0));
        Ok(Self { name, cable, cuts, child, requests, responses, footprint: None })
    }

    /// Returns the name of the client program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the proxy between the client program and the server.
    pub fn cable(&self) -> &Cable {
        &self.cable
    }

    /// Returns how often the connections of the client program were cut.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Returns the resources that the client program reported with its last view; `None` if it reports none.
    pub fn footprint(&self) -> Option<Footprint> {
        self.footprint
    }

    pub(super) fn count_cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests the view of the client program: the objects in the cache of its informer.
    ///
    /// # Errors
    ///
    /// When the client program has ended, does not respond, or responds with invalid data.
    pub async fn view(&mut self) -> Result<BTreeMap<String, Entry>, PeerError> {
        match tokio::time::timeout(RESPONSE_TIMEOUT, self.ask()).await {
            Ok(Ok(view)) => Ok(view),
            Ok(Err((what, cause))) => Err(PeerError { name: self.name.clone(), what, cause }),
            Err(_) => {
                let what = format!("no response within {RESPONSE_TIMEOUT:?}");
                Err(PeerError { name: self.name.clone(), what, cause: None })
            }
        }
    }

    async fn ask(&mut self) -> Result<BTreeMap<String, Entry>, (String, Option<std::io::Error>)> {
        let broken = |error| ("its standard input is closed".to_owned(), Some(error));
        self.requests.write_all(b"view\n").await.map_err(broken)?;
        self.requests.flush().await.map_err(broken)?;
        let mut view = BTreeMap::new();
        loop {
            let line = self.responses.next_line().await;
            let line = line.map_err(|error| ("its response cannot be read".to_owned(), Some(error)))?;
            let line = line.ok_or_else(|| ("it has exited".to_owned(), None))?;
            let value: Value =
                serde_json::from_str(&line).map_err(|_| (format!("invalid response: {line}"), None))?;
            if let Some(count) = value["end"].as_u64() {
                self.footprint = serde_json::from_value(value["footprint"].clone()).ok();
                return if usize::try_from(count) == Ok(view.len()) {
                    Ok(view)
                } else {
                    Err((
                        format!("{} distinct keys in a response that reports {count} objects", view.len()),
                        None,
                    ))
                };
            }
            let entry: Entry =
                serde_json::from_value(value).map_err(|_| (format!("invalid response: {line}"), None))?;
            view.insert(entry.key.clone(), entry);
        }
    }

    /// Ends the client program.
    pub async fn stop(mut self) {
        drop(self.requests);
        // The client program ends when its standard input is closed. If it does not end in time, it is killed
        // on drop.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await;
    }
}
