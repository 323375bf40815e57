//! The two peers of the comparison: the informer of client-go in a separate process, and that of this
//! library. Both accept the same commands.

mod go;
mod ours;

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

pub use go::GoPeer;
pub use ours::OurPeer;

use crate::trace::Entry;

/// The timeout of a command to a peer (client-go or this library). If a peer hangs, only the script that sent
/// the command fails; other scripts continue.
const MAX_COMMAND: Duration = Duration::from_secs(20);

/// One of the two compared libraries: client-go or this library.
#[derive(Debug)]
pub enum Peer {
    /// client-go, in a separate process.
    Go(Box<GoPeer>),
    /// This library, in this process.
    Ours(OurPeer),
}

/// The commands of a peer. Every command except the first runs after the peer has recorded nothing for 150
/// ms, so that it has handled everything that the server sent before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Command {
    /// Starts an informer with its handlers `first`, `removed` and `resync`.
    Start {
        /// The URL of the scripted server.
        url: String,
        /// True if the informer is to request streaming lists.
        streaming: bool,
        /// The resync period of the handler `resync`.
        resync: Duration,
    },
    /// Records the content of the store and the sync state of the informer in the trace.
    Check,
    /// Adds a handler with this name, and without resyncs, to the informer.
    Add(String),
    /// Removes the handler with this name from the informer.
    Remove(String),
    /// Makes the following calls of the handler with this name wait until `Unblock`.
    Block(String),
    /// Lets the waiting and the following calls of the handler with this name continue.
    Unblock(String),
    /// Adds an index to the running informer.
    Index,
    /// Stops the informer and waits until it has stopped.
    Stop,
}

/// The reply of a peer (client-go or this library) to a command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The name of the job to which the reply belongs. A job is one run of one script.
    pub job: String,
    /// The entries of the trace that the peer has recorded since its last reply.
    pub entries: Vec<Entry>,
    /// The results of operations on a queue or an election, one line for each.
    pub lines: Vec<String>,
    /// The error message if the command failed, otherwise empty.
    pub error: String,
}

/// The error of a peer (client-go or this library) or of one of its commands.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The client-go program cannot be started.
    #[error("cannot start the program {program}")]
    Start {
        /// The path of the program.
        program: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The client-go program has ended.
    #[error("client-go's program has exited; its last output is above")]
    Ended,
    /// The peer did not reply within the timeout of a command.
    #[error("{job}: {command}: no reply within {MAX_COMMAND:?}")]
    Silent {
        /// The name of the job: one run of one script.
        job: String,
        /// The command that got no reply.
        command: String,
    },
    /// The peer replied that a command failed.
    #[error("{job}: {command}: {problem}")]
    Refused {
        /// The name of the job: one run of one script.
        job: String,
        /// The command that failed.
        command: String,
        /// The error message in the reply of the peer.
        problem: String,
    },
}

impl Peer {
    /// Runs a command on a peer, and waits for the reply.
    ///
    /// # Errors
    ///
    /// When the peer has ended or the command fails.
    pub async fn command(&self, job: &str, command: &Command) -> Result<Reply, PeerError> {
        let reply = async {
            match self {
                Self::Go(peer) => peer.send(job, command.json(job)).await,
                Self::Ours(peer) => Ok(peer.command(job, command).await),
            }
        };
        let Ok(reply) = tokio::time::timeout(MAX_COMMAND, reply).await else {
            return Err(PeerError::Silent { job: job.to_owned(), command: format!("{command:?}") });
        };
        let reply = reply?;
        if reply.error.is_empty() {
            return Ok(reply);
        }
        let (job, command) = (job.to_owned(), format!("{command:?}"));
        Err(PeerError::Refused { job, command, problem: reply.error })
    }
}

impl Command {
    fn json(&self, job: &str) -> serde_json::Value {
        let about = |what: &str, handler: &str| json!({ "job": job, "do": what, "handler": handler });
        match self {
            Self::Start { url, streaming, resync } => json!({
                "job": job, "do": "start", "url": url, "streaming": streaming,
                "resync_ms": u64::try_from(resync.as_millis()).unwrap_or(u64::MAX),
            }),
            Self::Check => about("check", ""),
            Self::Add(handler) => about("add", handler),
            Self::Remove(handler) => about("remove", handler),
            Self::Block(handler) => about("block", handler),
            Self::Unblock(handler) => about("unblock", handler),
            Self::Index => about("index", ""),
            Self::Stop => about("stop", ""),
        }
    }
}

impl TryFrom<String> for Command {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (what, handler) = text.split_once(' ').unwrap_or((&text, ""));
        let command = match (what, handler) {
            ("check", "") => Self::Check,
            ("index", "") => Self::Index,
            ("add", handler) if !handler.is_empty() => Self::Add(handler.to_owned()),
            ("remove", handler) if !handler.is_empty() => Self::Remove(handler.to_owned()),
            ("block", handler) if !handler.is_empty() => Self::Block(handler.to_owned()),
            ("unblock", handler) if !handler.is_empty() => Self::Unblock(handler.to_owned()),
            _ => {
                return Err(format!(
                    "{text:?} is not a command; use check, index, or add, remove, block, unblock with a handler"
                ));
            }
        };
        Ok(command)
    }
}
