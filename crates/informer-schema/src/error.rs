use thiserror::Error;

/// The error of converting an object. `path` is the JSON path of the field. The error never contains a value.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("cannot {operation} {kind}{}{path}", if path.is_empty() { "" } else { " at " })]
pub struct TranscodeError {
    pub(crate) operation: &'static str,
    /// The kind of the object, such as `apps/v1 Deployment`.
    pub(crate) kind: String,
    /// The field, such as `spec.containers[0].image`.
    pub(crate) path: String,
    #[source]
    pub(crate) problem: Problem,
}

impl TranscodeError {
    /// Returns the path of the field, such as `spec.containers[0].image`; empty for the object itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the problem.
    pub fn problem(&self) -> Problem {
        self.problem
    }
}

/// A problem of encoded data.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The protobuf or JSON ends too early.
    #[error("the data ends too early")]
    Truncated,
    /// A protobuf varint has more than 64 bits.
    #[error("a variable-length integer has more than 64 bits")]
    Overflow,
    /// An invalid protobuf tag: field 0, or the end of a group that did not begin.
    #[error("illegal protobuf tag")]
    Tag,
    /// A protobuf field has another wire type than in the schema table.
    #[error("wrong wire type {found}")]
    WireType {
        /// The wire type of the field.
        found: u8,
    },
    /// A string is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// Nesting exceeds [`MAX_DEPTH`](crate::MAX_DEPTH) or [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH).
    #[error("nested too deeply")]
    TooDeep,
    /// The input exceeds [`MAX_INPUT`](crate::MAX_INPUT) bytes.
    #[error("the input is too long")]
    TooLong,
    /// The value does not fit the type of the field.
    #[error("expected {expected}")]
    Value {
        /// The JSON type that the field expects.
        expected: &'static str,
    },
    /// Invalid JSON.
    #[error("invalid JSON at byte {at}")]
    Json {
        /// The offset of the error.
        at: usize,
    },
    /// The four-byte prefix of a protobuf object is missing.
    #[error("the data does not begin with the prefix of a protobuf object")]
    Magic,
    /// The table does not contain the kind with this `apiVersion` and `kind`.
    #[error("no built-in kind has this name")]
    UnknownKind,
    /// The kind has no protobuf encoding.
    #[error("the kind has no protobuf form")]
    NoProtobuf,
    /// The object in an envelope is compressed, or is not protobuf.
    #[error("the envelope holds another encoding than protobuf")]
    Encoding,
}

/// A problem and its field path. The path is built from the innermost field outwards.
#[derive(Debug)]
pub(crate) struct Fault {
    problem: Problem,
    path: Option<String>,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self { problem, path: None }
    }
}

impl Fault {
    /// Prepends the name of the field that contains the fault to the path.
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let path = self.path.get_or_insert_default();
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        path.insert_str(0, dot);
        path.insert_str(0, name);
        self
    }

    /// Prepends the list index of the value that contains the fault to the path.
    #[cold]
    pub(crate) fn entry(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    #[cold]
    pub(crate) fn into_error(self, operation: &'static str, kind: impl ToString) -> TranscodeError {
        let path = self.path.unwrap_or_default();
        TranscodeError { operation, kind: kind.to_string(), path, problem: self.problem }
    }
}
