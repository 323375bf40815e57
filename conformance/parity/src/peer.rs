//! The two informers: client-go's in a process of its own, and ours in this one. Both take the same commands.

mod go;
mod ours;

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

pub use go::GoPeer;
pub use ours::OurPeer;

use crate::trace::Entry;

/// The longest that a peer may take for a command. One that hangs must not hold up the other scripts: its script has failed.
const COMMAND_MAX: Duration = Duration::from_secs(20);

/// A peer.
#[derive(Debug)]
pub enum Peer {
    /// client-go's.
    Go(Box<GoPeer>),
    /// Ours.
    Ours(OurPeer),
}

/// What a peer is told. Each but the first is carried out when nothing has been seen for a while, so that what the server
/// sent before it has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Command {
    /// Starts an informer with its handlers `first`, `removed` and `resync`.
    Start {
        /// The address of the server.
        url: String,
        /// Whether streaming lists are asked for.
        streaming: bool,
        /// The period of `resync`.
        resync: Duration,
    },
    /// Looks at the store.
    Check,
    /// Adds a handler.
    Add(String),
    /// Removes a handler.
    Remove(String),
    /// From now on the calls of this handler do not return.
    Block(String),
    /// They return.
    Unblock(String),
    /// Adds an index.
    Index,
    /// Stops the informer and waits for its end.
    Stop,
}

/// What a peer answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// Of which job.
    pub job: String,
    /// What it has seen since the reply before.
    pub entries: Vec<Entry>,
    /// What the operations on a queue gave.
    pub lines: Vec<String>,
    /// Why it could not do what it was told.
    pub error: String,
}

/// A peer that cannot do its part.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Its program cannot be started.
    #[error("cannot start the program {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its program has ended.
    #[error("client-go's program has ended; what it said last is above")]
    Ended,
    /// It does not answer.
    #[error("{job}: {command}: no answer within {COMMAND_MAX:?}")]
    Silent {
        /// The job.
        job: String,
        /// What it was told.
        command: String,
    },
    /// It says that it could not do what it was told.
    #[error("{job}: {command}: {problem}")]
    Refused {
        /// The job.
        job: String,
        /// What it was told.
        command: String,
        /// What it says.
        problem: String,
    },
}

impl Peer {
    /// Tells a peer to do something, and waits until it is done.
    ///
    /// # Errors
    ///
    /// When it is not there or could not do it.
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

/// As scripts write it.
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
                    "{text:?} is no command; there are check, index, and add, remove, block, unblock with a handler"
                ));
            }
        };
        Ok(command)
    }
}
