//! The two informers: that of client-go in a separate process, and that of this library. Both take the same
//! commands.

mod go;
mod ours;

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

pub use go::GoPeer;
pub use ours::OurPeer;

use crate::trace::Entry;

/// The timeout of a command. A peer that hangs must not block other scripts; its script fails.
const COMMAND_MAX: Duration = Duration::from_secs(20);

/// A peer.
#[derive(Debug)]
pub enum Peer {
    /// client-go.
    Go(Box<GoPeer>),
    /// This library.
    Ours(OurPeer),
}

/// The commands of a peer. Each but the first runs after the peer has been idle for 150 ms, so that it has
/// received everything that the server sent before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Command {
    /// Starts an informer with its handlers `first`, `removed` and `resync`.
    Start {
        /// The address of the server.
        url: String,
        /// Whether to request streaming lists.
        streaming: bool,
        /// The period of `resync`.
        resync: Duration,
    },
    /// Reads the store.
    Check,
    /// Adds a handler.
    Add(String),
    /// Removes a handler.
    Remove(String),
    /// Blocks the following calls of this handler.
    Block(String),
    /// Unblocks the calls of this handler.
    Unblock(String),
    /// Adds an index.
    Index,
    /// Stops the informer and waits for it.
    Stop,
}

/// The reply of a peer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The job.
    pub job: String,
    /// The trace since the last reply.
    pub entries: Vec<Entry>,
    /// The results of the operations on a queue.
    pub lines: Vec<String>,
    /// The error of the command.
    pub error: String,
}

/// A peer that failed.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The program of the peer cannot be started.
    #[error("cannot start the program {program}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The program of the peer has ended.
    #[error("client-go's program has exited; its last output is above")]
    Ended,
    /// The peer does not reply.
    #[error("{job}: {command}: no reply within {COMMAND_MAX:?}")]
    Silent {
        /// The job.
        job: String,
        /// The command.
        command: String,
    },
    /// The peer reports that a command failed.
    #[error("{job}: {command}: {problem}")]
    Refused {
        /// The job.
        job: String,
        /// The command.
        command: String,
        /// The reported problem.
        problem: String,
    },
}

impl Peer {
    /// Runs a command on a peer, and waits for it.
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
        let Ok(reply) = tokio::time::timeout(COMMAND_MAX, reply).await else {
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

/// The script syntax.
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
