use thiserror::Error;

/// Why bytes are not what they should be. Where is in `path`, in names of JSON; values are never told.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("cannot {doing} {kind}{}{path}", if path.is_empty() { "" } else { " at " })]
pub struct TranscodeError {
    /// What was attempted.
    pub(crate) doing: &'static str,
    /// Of which kind, as `apps/v1 Deployment`.
    pub(crate) kind: String,
    /// Which field, as `spec.containers[0].image`.
    pub(crate) path: String,
    /// What is wrong with it.
    #[source]
    pub(crate) problem: Problem,
}

impl TranscodeError {
    /// The field, as `spec.containers[0].image`; empty for the object itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong.
    pub fn problem(&self) -> Problem {
        self.problem
    }
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Protobuf or JSON ends in the middle of something.
    #[error("the data ends too early")]
    Truncated,
    /// A number of protobuf has more than 64 bits.
    #[error("a variable-length integer has more than 64 bits")]
    Overflow,
    /// A tag of protobuf that nobody may write: field 0, or an end of a group that did not begin.
    #[error("illegal protobuf tag")]
    Tag,
    /// A field of protobuf has another wire type than the table says.
    #[error("wrong wire type {found}")]
    WireType {
        /// What was found.
        found: u8,
    },
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// More nesting than [`MAX_DEPTH`](crate::MAX_DEPTH) or [`MAX_JSON_DEPTH`](crate::MAX_JSON_DEPTH).
    #[error("nested too deeply")]
    TooDeep,
    /// More than [`MAX_INPUT`](crate::MAX_INPUT) bytes.
    #[error("the input is too long")]
    TooLong,
    /// What stands there is no value of the type.
    #[error("expected {expected}")]
    Value {
        /// What belongs there.
        expected: &'static str,
    },
    /// JSON that is not JSON.
    #[error("invalid JSON at byte {at}")]
    Json {
        /// Where.
        at: usize,
    },
    /// The four bytes in front of every protobuf object are not there.
    #[error("the data does not begin with the prefix of a protobuf object")]
    Magic,
    /// `apiVersion` and `kind` name nothing that the table has.
    #[error("no built-in kind has this name")]
    UnknownKind,
    /// The kind has no protobuf form.
    #[error("the kind has no protobuf form")]
    NoProtobuf,
    /// The object in an envelope is compressed, or not protobuf.
    #[error("the envelope holds another encoding than protobuf")]
    Encoding,
}

/// A problem and the way to it, which grows from the innermost field outwards.
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
    /// Says which field the fault is in.
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let path = self.path.get_or_insert_default();
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        path.insert_str(0, dot);
        path.insert_str(0, name);
        self
    }

    /// Says which entry of a list the fault is in.
    #[cold]
    pub(crate) fn entry(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    #[cold]
    pub(crate) fn told(self, doing: &'static str, kind: impl ToString) -> TranscodeError {
        let path = self.path.unwrap_or_default();
        TranscodeError { doing, kind: kind.to_string(), path, problem: self.problem }
    }
}
