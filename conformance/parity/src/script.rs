//! What the server does, as a data file.
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
//! An attempt says which request it answers (`list`, `page`, `watch` or `watch-list`) and how: with a `list`, a `status`, a
//! `stream` of events, or not at all (`drop`); `refuse` closes the port instead. A request that the next attempt does not
//! expect is answered by the first later one that does; what is skipped so shows in the trace.

mod object;
mod parse;
mod status;

use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use object::ObjectText;
pub use status::StatusAnswer;

use crate::peer::Command;

/// A script that was read and makes sense.
#[derive(Debug, Clone)]
pub struct Script {
    /// The name of its file.
    pub name: String,
    /// Which rule it shows.
    pub about: String,
    /// Whether streaming lists are asked for.
    pub streaming: bool,
    /// The resync period of the handler that has one.
    pub resync: Duration,
    /// Whether the calls of the transform are compared as well.
    pub transforms: bool,
    /// What the server does.
    pub attempts: Vec<Attempt>,
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Which request it is for; none for a closed port.
    pub expect: Option<RequestKind>,
    /// How long the answer takes.
    pub delay: Duration,
    /// The answer.
    pub answer: Answer,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// A list, or its first page.
    List,
    /// A later page.
    Page,
    /// A watch.
    Watch,
    /// A streaming list.
    WatchList,
}

/// How a request is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With a list.
    List(ListAnswer),
    /// With a status.
    Status(StatusAnswer),
    /// With a stream of events.
    Stream(Vec<Step>, End),
    /// Not at all: the connection ends so after the request was read.
    Drop(End),
    /// The port is closed for this time.
    Refuse(Duration),
}

/// A list.
#[derive(Debug, Clone)]
pub struct ListAnswer {
    /// The body.
    pub body: String,
    /// Its type.
    pub content_type: String,
    /// Half of the body is sent, then this happens.
    pub broken: Option<End>,
}

/// One thing that happens in a stream.
#[derive(Debug, Clone)]
pub enum Step {
    /// These bytes are sent.
    Send(String),
    /// An `ERROR` event is sent.
    Error(StatusAnswer),
    /// Time passes.
    Wait(Duration),
    /// The peer does something, and is waited for.
    Do(Command),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// As HTTP has it: the last chunk is sent.
    Close,
    /// The connection is closed before the last chunk.
    Cut,
    /// The connection is closed within a chunk.
    CutChunk,
    /// The connection is reset.
    Reset,
    /// It stays open until the peer closes it.
    Hold,
}

/// What is wrong with a script, and where.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not of the form of a script.
    #[error("script {name}: {problem}")]
    Form {
        /// The script.
        name: String,
        /// What the parser says.
        problem: String,
    },
    /// An attempt makes no sense.
    #[error("script {name}: attempt {attempt}: {problem}")]
    Attempt {
        /// The script.
        name: String,
        /// The attempt, from 1.
        attempt: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Script {
    /// Reads a script from its text.
    ///
    /// # Errors
    ///
    /// When the text is no script; the error says where.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        parse::script(name, text)
    }

    /// Reads all scripts of a folder, in the order of their names.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is no script.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, ScriptError> {
        files(folder)?.into_iter().map(|(name, text)| Self::parse(&name, &text)).collect()
    }
}

/// The YAML files of a folder: names without the extension, and texts.
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
