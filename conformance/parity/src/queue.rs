//! Operations on a work queue, as a data file, and what they give on ours. The clock is the script's own: it stands still
//! but for `advance`.
//!
//! ```yaml
//! about: what is added while it is processed comes again when it is done
//! do: [add a, get one, add a, len, done a, get two]
//! ```

mod ours;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

pub use ours::run_ours;

use crate::script::{ScriptError, files};

/// Operations in their order.
#[derive(Debug, Clone)]
pub struct QueueScript {
    /// The name of its file.
    pub name: String,
    /// Which rule it shows.
    pub about: String,
    pub(crate) operations: Vec<Operation>,
}

/// What is wrong with a script.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ScriptError),
    /// The file is not of its form.
    #[error("queue script {name}: {problem}")]
    Form {
        /// The script.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// One operation, as it is written: `add KEY`, `get GETTER`, `add-after KEY 50ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) what: What,
    pub(crate) key: String,
    pub(crate) milliseconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Add,
    AddAfter,
    AddRateLimited,
    Forget,
    Retries,
    Get,
    Done,
    Len,
    Advance,
    ShutDown,
    Drain,
    ShuttingDown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    about: String,
    #[serde(rename = "do")]
    operations: Vec<String>,
}

impl What {
    /// Each with its name and whether it takes a key (or a getter) and a time.
    const ALL: [(Self, &'static str, bool, bool); 12] = [
        (Self::Add, "add", true, false),
        (Self::AddAfter, "add-after", true, true),
        (Self::AddRateLimited, "add-rate-limited", true, false),
        (Self::Forget, "forget", true, false),
        (Self::Retries, "retries", true, false),
        (Self::Get, "get", true, false),
        (Self::Done, "done", true, false),
        (Self::Len, "len", false, false),
        (Self::Advance, "advance", false, true),
        (Self::ShutDown, "shut-down", false, false),
        (Self::Drain, "drain", false, false),
        (Self::ShuttingDown, "shutting-down", false, false),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(what, ..)| *what == self).map_or("", |(_, name, ..)| name)
    }
}

impl Operation {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let known = What::ALL.iter().find(|(_, each, ..)| *each == name);
        let Some((what, _, takes_key, takes_time)) = known else {
            let names: Vec<&str> = What::ALL.iter().map(|(_, name, ..)| *name).collect();
            return Err(format!("{text:?} is no operation; there are {}", names.join(", ")));
        };
        let key = if *takes_key { words.next().ok_or_else(|| format!("{text:?} needs a key"))? } else { "" };
        let milliseconds = match (takes_time, words.next()) {
            (false, None) => 0,
            (true, Some(time)) => {
                parse_time(time).ok_or_else(|| format!("{text:?}: write a time as 50ms"))?
            }
            (true, None) => return Err(format!("{text:?} needs a time, as 50ms")),
            (false, Some(word)) => return Err(format!("{text:?}: {word} is too much")),
        };
        if words.next().is_some() {
            return Err(format!("{text:?} says too much"));
        }
        Ok(Self { what: *what, key: key.to_owned(), milliseconds })
    }

    /// As client-go's program reads it.
    fn json(&self) -> Value {
        let key_name = if self.what == What::Get { "getter" } else { "key" };
        json!({ "do": self.what.name(), key_name: self.key, "ms": self.milliseconds })
    }
}

fn parse_time(text: &str) -> Option<u64> {
    text.strip_suffix("ms")?.parse().ok()
}

impl QueueScript {
    /// Reads a script from its text.
    ///
    /// # Errors
    ///
    /// When it is not of its form.
    pub fn parse(name: &str, text: &str) -> Result<Self, QueueError> {
        let bad = |problem: String| QueueError::Form { name: name.to_owned(), problem };
        let form: Form = serde_norway::from_str(text).map_err(|error| bad(error.to_string()))?;
        let operations = form.operations.iter().map(|text| Operation::parse(text));
        let operations = operations.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        if operations.is_empty() {
            return Err(bad("it does nothing".to_owned()));
        }
        Ok(Self { name: name.to_owned(), about: form.about, operations })
    }

    /// Reads all scripts of a folder, in the order of their names.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is not of its form.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, QueueError> {
        files(folder)?.into_iter().map(|(name, text)| Self::parse(&name, &text)).collect()
    }

    /// The command for client-go's program.
    pub fn command(&self, job: &str) -> Value {
        let operations: Vec<Value> = self.operations.iter().map(Operation::json).collect();
        json!({ "job": job, "do": "queue", "queue": operations })
    }
}

#[cfg(test)]
mod tests;
