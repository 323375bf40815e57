//! What `objects.rs` asks of the program that it is part of.

/// What the objects are; those of `informer-bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "`informer-bench` has more kinds")]
pub(crate) enum Kind {
    Pod,
    Crd,
    Configmap,
    Secret,
    Node,
}
