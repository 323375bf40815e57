//! Candidates for one Lease under scripted faults, as a data file, and what ours do. The clock is the script's own: it stands still but
//! for `advance`.
//!
//! ```yaml
//! about: a leader that cannot renew ends before another one leads
//! do: [start a, start b, refuse a, advance 60000ms]
//! ```

mod lease;
mod ours;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

pub use ours::run_our_election;

use crate::script::{ScriptError, files};

/// Operations in their order.
#[derive(Debug, Clone)]
pub struct ElectionScript {
    /// The name of its file.
    pub name: String,
    /// Which rule it shows.
    pub about: String,
    pub(crate) operations: Vec<Operation>,
}

/// What is wrong with a script.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ScriptError),
    /// The file is not of its form.
    #[error("election script {name}: {problem}")]
    Form {
        /// The script.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// One operation, as it is written: `start a`, `advance 5000ms`, `take x 15000ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) what: What,
    pub(crate) who: String,
    pub(crate) milliseconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A candidate takes part.
    Start,
    /// It is asked to end.
    Stop,
    Advance,
    /// All of its requests are answered with an error.
    Refuse,
    /// None is answered.
    Hang,
    /// Its writes are conflicts.
    Conflict,
    /// Its requests work again.
    Heal,
    /// Its clock shows a later time.
    Ahead,
    /// Its clock shows an earlier time.
    Behind,
    /// The Lease is deleted.
    Delete,
    /// Somebody else holds the Lease, for so long.
    Take,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    about: String,
    #[serde(rename = "do")]
    operations: Vec<String>,
}

impl What {
    /// Each with its name, and whether it takes a candidate and a time.
    const ALL: [(Self, &'static str, bool, bool); 11] = [
        (Self::Start, "start", true, false),
        (Self::Stop, "stop", true, false),
        (Self::Advance, "advance", false, true),
        (Self::Refuse, "refuse", true, false),
        (Self::Hang, "hang", true, false),
        (Self::Conflict, "conflict", true, false),
        (Self::Heal, "heal", true, false),
        (Self::Ahead, "ahead", true, true),
        (Self::Behind, "behind", true, true),
        (Self::Delete, "delete", false, false),
        (Self::Take, "take", true, true),
    ];
}

impl Operation {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let known = What::ALL.iter().find(|(_, each, ..)| *each == name);
        let Some((what, _, takes_name, takes_time)) = known else {
            let names: Vec<&str> = What::ALL.iter().map(|(_, name, ..)| *name).collect();
            return Err(format!("{text:?} is no operation; there are {}", names.join(", ")));
        };
        let who =
            if *takes_name { words.next().ok_or_else(|| format!("{text:?} needs a name"))? } else { "" };
        let time = |word: &str| word.strip_suffix("ms")?.parse().ok();
        let milliseconds = match takes_time {
            true => words.next().and_then(time).ok_or_else(|| format!("{text:?} needs a time, as 50ms"))?,
            false => 0,
        };
        match words.next() {
            None => Ok(Self { what: *what, who: who.to_owned(), milliseconds }),
            Some(word) => Err(format!("{text:?}: {word} is too much")),
        }
    }

    /// As it is written.
    pub(crate) fn text(&self) -> String {
        let name = What::ALL.iter().find(|(what, ..)| *what == self.what).map_or("", |(_, name, ..)| name);
        let mut text = name.to_owned();
        if !self.who.is_empty() {
            text += &format!(" {}", self.who);
        }
        if self.milliseconds > 0 {
            text += &format!(" {}ms", self.milliseconds);
        }
        text
    }

    /// As client-go's program reads it.
    fn json(&self) -> Value {
        let text = self.text();
        let name = text.split(' ').next().unwrap_or_default();
        json!({"do": name, "key": self.who, "ms": self.milliseconds})
    }
}

impl ElectionScript {
    /// Reads a script from its text.
    ///
    /// # Errors
    ///
    /// When it is not of its form, or a candidate is stopped before it was started.
    pub fn parse(name: &str, text: &str) -> Result<Self, ElectionError> {
        let bad = |problem: String| ElectionError::Form { name: name.to_owned(), problem };
        let form: Form = serde_norway::from_str(text).map_err(|error| bad(error.to_string()))?;
        let operations = form.operations.iter().map(|text| Operation::parse(text));
        let operations = operations.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let mut started: Vec<&str> = Vec::new();
        for Operation { what, who, .. } in &operations {
            match what {
                What::Start if started.contains(&who.as_str()) => {
                    return Err(bad(format!("{who} is started twice")));
                }
                What::Start => started.push(who),
                What::Stop if !started.contains(&who.as_str()) => {
                    return Err(bad(format!("{who} is stopped, and was not started")));
                }
                _ => {}
            }
        }
        match started.is_empty() {
            true => Err(bad("nobody takes part".to_owned())),
            false => Ok(Self { name: name.to_owned(), about: form.about, operations }),
        }
    }

    /// Reads all scripts of a folder, in the order of their names.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is not of its form.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, ElectionError> {
        files(folder)?.into_iter().map(|(name, text)| Self::parse(&name, &text)).collect()
    }

    /// The command for client-go's program.
    pub fn command(&self, job: &str) -> Value {
        let operations: Vec<Value> = self.operations.iter().map(Operation::json).collect();
        json!({"job": job, "do": "election", "election": operations})
    }
}

#[cfg(test)]
mod tests;
