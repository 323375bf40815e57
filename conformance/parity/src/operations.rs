//! Scripts of sequential operations on the work queue or the election. The clock is simulated and changes
//! only with `advance`.
//!
//! ```yaml
//! about: a key that is added while it is processed is requeued when it is done
//! do: [add a, get one, add a, len, done a, get two]
//! ```

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::script::{ScriptError, files};

/// The verbs of operation scripts. An implementation has the verbs for one component: the work queue or the
/// election.
pub trait Verb: Copy + PartialEq + fmt::Debug + Send + 'static {
    /// The name of the component: `queue` or `election`. Used in error messages, and in the commands for the
    /// client-go program.
    const OF: &'static str;

    /// The word for the name that an operation takes, for error messages: `key` in scripts of queues, `name`
    /// in scripts of elections.
    const WHOM: &'static str;

    /// All verbs: each with its name in scripts, whether it takes a name, and whether it takes a duration.
    const ALL: &'static [(Self, &'static str, bool, bool)];

    /// Returns the JSON field in which the client-go program expects the name that the operation takes.
    fn field(self) -> &'static str {
        "key"
    }

    /// Checks that the operations are in an allowed order.
    ///
    /// # Errors
    ///
    /// A description of the first operation that is not allowed.
    fn check(operations: &[Operation<Self>]) -> Result<(), String>;
}

/// One operation of a script, which is written as `add KEY`, `start NAME`, `advance 50ms` or `add-after KEY
/// 50ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<V> {
    /// The verb of the operation.
    pub verb: V,
    /// The name that the operation takes: a key, a task that waits for a key (in `get one`), or a candidate
    /// or holder of the Lease. Empty if the verb takes no name.
    pub whom: String,
    /// The duration that the operation takes; 0 if the verb takes none.
    pub milliseconds: u64,
}

/// A parity script of a work queue or an election: operations that client-go and this library both perform,
/// in order.
#[derive(Debug, Clone)]
pub struct OperationScript<V> {
    /// The name of the script's file, without the extension.
    pub name: String,
    /// A sentence about the rule that the script demonstrates.
    pub about: String,
    pub(crate) operations: Vec<Operation<V>>,
}

/// The error of an invalid script of queue or election operations.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The file of the script cannot be read.
    #[error(transparent)]
    Read(#[from] ScriptError),
    /// The file of the script is malformed.
    #[error("{of} script {name}: {problem}")]
    Form {
        /// The component that the script operates on.
        of: &'static str,
        /// The name of the invalid script.
        name: String,
        /// A description of the problem.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    about: String,
    #[serde(rename = "do")]
    operations: Vec<String>,
}

impl<V: Verb> Operation<V> {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let known = V::ALL.iter().find(|(_, each, ..)| *each == name);
        let Some(&(verb, _, takes_word, takes_time)) = known else {
            let names: Vec<&str> = V::ALL.iter().map(|(_, name, ..)| *name).collect();
            return Err(format!("{text:?} is not an operation; use one of {}", names.join(", ")));
        };
        let whom = if takes_word {
            words.next().ok_or_else(|| format!("{text:?} needs a {}", V::WHOM))?
        } else {
            ""
        };
        let time = |word: &str| word.strip_suffix("ms")?.parse().ok();
        let milliseconds = if takes_time {
            words.next().and_then(time).ok_or_else(|| format!("{text:?} needs a duration such as 50ms"))?
        } else {
            0
        };
        match words.next() {
            None => Ok(Self { verb, whom: whom.to_owned(), milliseconds }),
            Some(word) => Err(format!("{text:?}: unexpected argument {word}")),
        }
    }

    fn name(&self) -> &'static str {
        V::ALL.iter().find(|(verb, ..)| *verb == self.verb).map_or("", |(_, name, ..)| name)
    }

    /// Returns the operation in the JSON format that the client-go program reads.
    fn json(&self) -> Value {
        json!({ "do": self.name(), (self.verb.field()): self.whom, "ms": self.milliseconds })
    }
}

impl<V: Verb> fmt::Display for Operation<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if !self.whom.is_empty() {
            write!(f, " {}", self.whom)?;
        }
        if self.milliseconds > 0 {
            write!(f, " {}ms", self.milliseconds)?;
        }
        Ok(())
    }
}

impl<V: Verb> OperationScript<V> {
    /// Parses a script.
    ///
    /// # Errors
    ///
    /// When the script is malformed, or an operation is not allowed after the previous ones.
    pub fn parse(name: &str, text: &str) -> Result<Self, OperationError> {
        let bad = |problem| OperationError::Form { of: V::OF, name: name.to_owned(), problem };
        let form: Form = serde_norway::from_str(text).map_err(|error| bad(error.to_string()))?;
        let operations = form.operations.iter().map(|text| Operation::parse(text));
        let operations = operations.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        V::check(&operations).map_err(bad)?;
        Ok(Self { name: name.to_owned(), about: form.about, operations })
    }

    /// Reads all scripts of a folder, sorted by name.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is malformed.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, OperationError> {
        files(folder)?.into_iter().map(|(name, text)| Self::parse(&name, &text)).collect()
    }

    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", V::OF, self.name)
    }

    /// Returns the command that makes the client-go program run this script as the job with this name.
    pub fn command(&self, job: &str) -> Value {
        let operations: Vec<Value> = self.operations.iter().map(Operation::json).collect();
        json!({ "job": job, "do": V::OF, (V::OF): operations })
    }
}
