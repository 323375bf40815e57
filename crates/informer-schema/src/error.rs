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

    /// Returns the reason why the object cannot be converted.
    pub fn problem(&self) -> Problem {
        self.problem
    }
}

/// The reason why protobuf or JSON data cannot be read or converted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The protobuf or JSON ends too early.
    #[error("the data ends too early")]
    Truncated,
    /// A protobuf varint has more than 64 bits.
    #[error("a variable-length integer has more than 64 bits")]
    Overflow,
    /// A protobuf tag with an invalid field number (0, or over 32 bits) or an invalid wire type, such as the
    /// end of a group that did not begin.
    #[error("illegal protobuf tag")]
    Tag,
    /// A protobuf field has another wire type than its type in the schema table requires.
    #[error("wrong wire type {found}")]
    WireType {
        /// The wire type of the field in the message.
        found: u8,
    },
    /// A string is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// Nesting exceeds [`MAX_DEPTH`](crate::MAX_DEPTH) or [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH).
    #[error("nested too deeply")]
    TooDeep,
    /// JSON input exceeds [`MAX_INPUT`](crate::MAX_INPUT) bytes, a field of a list exceeds the limit of the
    /// [`ListSplitter`](crate::ListSplitter), or JSON output exceeds [`MAX_GROWTH`](crate::MAX_GROWTH) times
    /// the size of the protobuf object.
    #[error("the input is too long")]
    TooLong,
    /// A value has another type than its field, or is out of the range of this type.
    #[error("expected {expected}")]
    Value {
        /// The value that is expected, such as `a string`.
        expected: &'static str,
    },
    /// Invalid JSON.
    #[error("invalid JSON at byte {at}")]
    Json {
        /// The offset of the error in bytes.
        at: usize,
    },
    /// The data does not begin with [`MAGIC`](crate::MAGIC), the prefix of every Kubernetes object in
    /// protobuf encoding.
    #[error("the data does not begin with the prefix of a protobuf object")]
    Magic,
    /// The schema table does not contain the `apiVersion` and `kind` of the object.
    #[error("no built-in kind has this name")]
    UnknownKind,
    /// The kind has no protobuf encoding.
    #[error("the kind has no protobuf form")]
    NoProtobuf,
    /// The object in an envelope is compressed, or is not protobuf.
    #[error("the envelope contains an encoding other than protobuf")]
    Encoding,
}

/// A problem and the path of the field in which it occurred. The path is built from the innermost field
/// outwards, while the error is returned to the callers.
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
    /// Prepends a field name to the path: the problem occurred within this field.
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let path = self.path.get_or_insert_default();
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        path.insert_str(0, dot);
        path.insert_str(0, name);
        self
    }

    /// Prepends a list index to the path: the problem occurred within this entry of a list.
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
