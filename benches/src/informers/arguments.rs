//! Values of command-line options of `informer-bench` and of `cargo xtask bench`. `xtask` includes this file,
//! so the file depends on no crate of this workspace.

use clap::ValueEnum;

/// The kind of the objects that the server of a benchmark contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    #[default]
    Pod,
    /// A custom resource with the body of a pod.
    Crd,
    Configmap,
    Secret,
    /// A Secret with 4 KB of data and few labels.
    SmallSecret,
    Node,
}

/// The encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    /// Protobuf for built-in kinds and for representations that support it; otherwise JSON.
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
