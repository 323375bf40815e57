//! Finds unknown fields and duplicate keys in JSON. A server reports them as warnings, or as errors with
//! strict field validation.

use std::collections::HashSet;
use std::fmt;

use crate::error::{Fault, Problem, TranscodeError};
use crate::schema::field::{Base, Field, Shape};
use crate::schema::kind::{KindSchema, Message};
use crate::text::{At, JsonKind, Tape};
use crate::transcode::MAX_DEPTH;

/// The maximum number of unknown fields and duplicate keys that are reported per object, as in
/// kube-apiserver.
pub const MAX_STRICT_PROBLEMS: usize = 100;

/// An unknown field or a duplicate key in the JSON of a request. [`Display`](fmt::Display) writes the text of
/// kube-apiserver's warning, which contains the field path and no value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictProblem {
    /// The type of the enclosing object has no field with this name.
    Unknown {
        /// The path, such as `spec.containers[0].imge`.
        path: String,
    },
    /// A key occurs more than once in an object; its last value is used.
    Duplicate {
        /// The path of the duplicate key, such as `data.k`.
        path: String,
    },
}

impl fmt::Display for StrictProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { path } => write!(f, "unknown field {path:?}"),
            Self::Duplicate { path } => write!(f, "duplicate field {path:?}"),
        }
    }
}

impl KindSchema<'_> {
    /// Returns the unknown fields and duplicate keys of a JSON object of this kind, in document order, each
    /// of them once.
    ///
    /// ```
    /// let schema = informer_schema::Schema::builtin();
    /// let map = schema.kind_by_api_version("v1", "ConfigMap").ok_or("no such kind")?;
    /// let json = br#"{"metadata":{"name":"a","nam":"b"},"data":{"k":"1","k":"2"}}"#;
    /// let problems: Vec<String> = map.strict_problems(json)?.iter().map(ToString::to_string).collect();
    /// assert_eq!(problems, [r#"unknown field "metadata.nam""#, r#"duplicate field "data.k""#]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or nests too deeply. Values of wrong types are ignored here,
    /// because decoding reports them.
    pub fn strict_problems(self, json: &[u8]) -> Result<Vec<StrictProblem>, TranscodeError> {
        let failed = |problem| Fault::from(problem).into_error("read", self.describe());
        let tape = Tape::parse(json).map_err(failed)?;
        let mut walk = StrictWalk {
            tape: &tape,
            path: String::new(),
            depth: 0,
            found: Vec::new(),
            reported: HashSet::new(),
        };
        walk.message(self.message(), tape.root()).map_err(failed)?;
        Ok(walk.found)
    }
}

struct StrictWalk<'w, 't> {
    tape: &'w Tape<'t>,
    path: String,
    depth: usize,
    found: Vec<StrictProblem>,
    reported: HashSet<StrictProblem>,
}

impl StrictWalk<'_, '_> {
    fn message(&mut self, message: Message<'_>, at: At) -> Result<(), Problem> {
        if self.depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        if self.tape.kind(at) != JsonKind::Object {
            return Ok(());
        }
        self.depth += 1;
        let mut seen = HashSet::new();
        for (key, value) in self.tape.members(at) {
            let Some(name) = self.tape.string(key) else { continue };
            let Some(field) = message.field(&name) else {
                self.report(&name, |path| StrictProblem::Unknown { path });
                continue;
            };
            if !seen.insert(field.name()) {
                self.report(&name, |path| StrictProblem::Duplicate { path });
            }
            self.within(&name, |walk| walk.field(field, value))?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(&mut self, field: Field<'_>, at: At) -> Result<(), Problem> {
        match (field.data.shape, self.tape.kind(at)) {
            (Shape::List, JsonKind::Array) => {
                for (index, entry) in self.tape.entries(at).enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.value(field, entry)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (Shape::Map, JsonKind::Object) => {
                let mut seen = HashSet::new();
                for (key, value) in self.tape.members(at) {
                    let Some(name) = self.tape.string(key) else { continue };
                    if !seen.insert(name.clone()) {
                        self.report(&name, |path| StrictProblem::Duplicate { path });
                    }
                    self.within(&name, |walk| walk.value(field, value))?;
                }
                Ok(())
            }
            (Shape::Value | Shape::Pointer, _) => self.value(field, at),
            _ => Ok(()),
        }
    }

    /// Checks one value and its nested values. Types with their own unmarshaler in Go are skipped, as in Go.
    fn value(&mut self, field: Field<'_>, at: At) -> Result<(), Problem> {
        match (field.data.base, field.message()) {
            (Base::Message(_), Some(message)) => self.message(message, at),
            _ => Ok(()),
        }
    }

    fn within(
        &mut self,
        name: &str,
        walk: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let outcome = walk(self);
        self.path.truncate(length);
        outcome
    }

    fn named(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn report(&mut self, name: &str, problem: impl FnOnce(String) -> StrictProblem) {
        let problem = problem(self.named(name));
        if self.found.len() < MAX_STRICT_PROBLEMS && self.reported.insert(problem.clone()) {
            self.found.push(problem);
        }
    }
}
