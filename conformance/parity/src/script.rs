//! A script: the behavior of the scripted server, as a data file.
//!
//! ```yaml
//! about: a watch that is closed in time is watched again from its last version
//! attempts:
//!   - expect: list
//!     list: { version: 10, items: ["a@5", "b@6 app=web"] }
//!   - expect: watch
//!     stream: [{ added: "c@11" }, { do: check }]
//!     end: close
//!   - expect: watch
//!     end: hold
//! ```
//!
//! An attempt names the request that it responds to (`list`, `page`, `watch` or `watch-list`) and the
//! response: a `list`, a `status`, a `stream` of events, or no response (`drop`). `refuse` closes the port
//! instead. If the next attempt does not expect a request, the first later one that does is used. The
//! trace shows the skipped attempts.

mod object;
mod parse;
mod status;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use object::ObjectText;
pub use status::StatusResponse;

use crate::peer::Command;

/// A script of an informer, parsed and validated: the requests that the scripted server expects, and its
/// responses.
#[derive(Debug, Clone)]
pub struct Script {
    /// The name of the script's file, without the extension.
    pub name: String,
    /// A sentence about the rule that the script demonstrates.
    pub about: String,
    /// True if the informer is to request streaming lists.
    pub streaming: bool,
    /// The resync period of the handler `resync`.
    pub resync: Duration,
    /// True if the calls of the informer's transform are part of the compared traces.
    pub transforms: bool,
    /// The attempts of the script, in order: the expected requests with the server's responses.
    pub attempts: Vec<Attempt>,
}

/// One entry of a script: the request that the server expects, and its response to it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The kind of the expected request; `None` for [`Response::Refuse`], because a closed port receives no
    /// request.
    pub expect: Option<RequestKind>,
    /// The time that the server waits between the request and its response.
    pub delay: Duration,
    /// The server's response to the expected request.
    pub response: Response,
}

/// The kinds of requests that an attempt can expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// A request for a list, or for its first page.
    List,
    /// A request for a later page of a list.
    Page,
    /// A request for a watch.
    Watch,
    /// A request for a streaming list.
    WatchList,
}

/// The kinds of responses to a request.
#[derive(Debug, Clone)]
pub enum Response {
    /// A response with a list.
    List(ListResponse),
    /// A response with an API error (`Status`).
    Status(StatusResponse),
    /// A response with a stream of watch events.
    Stream(Vec<Step>, End),
    /// The server reads the request and sends no response. It then ends the connection in this way.
    Drop(End),
    /// The port of the server is closed for this duration, so that connection attempts are refused.
    Refuse(Duration),
}

/// A response with a list or a page of a list.
#[derive(Debug, Clone)]
pub struct ListResponse {
    /// The body of the response.
    pub body: String,
    /// The content type of the body.
    pub content_type: String,
    /// If set, the server sends only the first half of the body, and then ends the connection in this way.
    pub broken: Option<End>,
}

/// One step of a stream of watch events.
#[derive(Debug, Clone)]
pub enum Step {
    /// The server sends this string as one chunk, usually one watch event.
    Send(String),
    /// The server sends an `ERROR` event.
    Error(StatusResponse),
    /// The server sends nothing for this duration, unless the client closes the connection earlier.
    Wait(Duration),
    /// The library under test performs a command. The server continues with the next step after the reply.
    Do(Command),
}

/// The ways in which the server ends a response or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The response ends properly, with the last chunk.
    Close,
    /// The connection is closed before the last chunk of the response.
    Cut,
    /// The connection is closed in the middle of a chunk.
    CutChunk,
    /// The server resets the connection.
    Reset,
    /// The server sends nothing more and leaves the response open, until the client closes the connection.
    Hold,
}

/// The error of an invalid script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file of the script cannot be read.
    #[error("cannot read the script {path}")]
    Read {
        /// The path of the file that cannot be read.
        path: String,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file of the script is malformed.
    #[error("script {name}: {problem}")]
    Form {
        /// The name of the malformed script.
        name: String,
        /// The error of the YAML parser.
        problem: String,
    },
    /// An attempt of the script is invalid.
    #[error("script {name}: attempt {attempt}: {problem}")]
    Attempt {
        /// The name of the script with the invalid attempt.
        name: String,
        /// The position of the invalid attempt, counted from 1.
        attempt: usize,
        /// A description of the problem.
        problem: String,
    },
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    ///
    /// When the script is malformed; the error contains the position.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        parse::script(name, text)
    }

    /// Reads all scripts of a folder, sorted by name.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is malformed.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, ScriptError> {
        files(folder)?.into_iter().map(|(name, text)| Self::parse(&name, &text)).collect()
    }
}

/// Returns the YAML files of a folder: names without the extension, and contents.
pub(crate) fn files(folder: &Path) -> Result<Vec<(String, String)>, ScriptError> {
    let read = |path: &Path| {
        let source = |source| ScriptError::Read { path: path.display().to_string(), source };
        std::fs::read_to_string(path).map_err(source)
    };
    let entries = std::fs::read_dir(folder)
        .map_err(|source| ScriptError::Read { path: folder.display().to_string(), source })?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let named = paths.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, read(path)?))
    });
    named.collect()
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Page => "page",
            Self::Watch => "watch",
            Self::WatchList => "watch-list",
        })
    }
}

#[cfg(test)]
mod tests;
