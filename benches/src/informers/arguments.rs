//! Command line values of all benchmark programs, and of `cargo xtask bench`, which includes this file. The
//! file depends on no crate of this workspace.

use clap::ValueEnum;

/// The served kind.
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

/// The encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    /// For built-in kinds and representations that support it; otherwise JSON.
    #[default]
    Protobuf,
}

/// The representation in a cache of this library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    #[default]
    Lazy,
    Typed,
    Dynamic,
    Metadata,
    Packed,
}
