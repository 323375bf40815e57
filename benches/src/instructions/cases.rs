//! The cases of `instruction-bench`. `xtask` includes this file, so the file depends on no crate of this
//! workspace.

use clap::ValueEnum;

/// A workload whose CPU instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Case {
    /// Initial sync of an informer of pods with one handler; the server sends protobuf.
    SyncProtobuf,
    /// Initial sync of an informer of custom resources without a type, with one handler; the server sends
    /// JSON.
    SyncJson,
    /// A relist of pods, after the history of the server was compacted; no object has changed.
    Relist,
    /// A watch event of a pod, from the response body to the cache and one handler.
    Event,
    /// A read of a pod from the cache by its key.
    Lookup,
    /// A read of 25 pods from the cache by an index.
    Index,
    /// A key of a work queue: add, get and done.
    Queue,
    /// A request to the embedded API server that creates a pod.
    Create,
    /// A list of 100 pods from the embedded API server as JSON.
    ListJson,
    /// A list of 100 pods from the embedded API server as protobuf; the server has not encoded them yet.
    ListProtobuf,
    /// A change of a pod that the embedded API server sends to 100 watches.
    Watch,
}

impl Case {
    /// Returns the name of the case on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the operation to which a count of the case refers.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::SyncProtobuf | Self::SyncJson | Self::Relist => "object",
            Self::Event => "event",
            Self::Lookup | Self::Index => "read",
            Self::Queue => "key",
            Self::Create => "request",
            Self::ListJson | Self::ListProtobuf => "object",
            Self::Watch => "delivery",
        }
    }
}
