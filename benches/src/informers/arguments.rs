//! Words of the command lines of all programs, and of `cargo xtask bench`, which includes this file: it depends on none of our crates.

use clap::ValueEnum;

/// What is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    #[default]
    Pod,
    /// A custom resource with the body of a pod.
    Crd,
    Configmap,
    Secret,
    Node,
}

/// How objects are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    /// Where the kind is built in and what the cache holds can be made of it; JSON elsewhere.
    #[default]
    Protobuf,
}

/// What a cache of ours holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    #[default]
    Lazy,
    Typed,
    Dynamic,
    Metadata,
    Packed,
}
