//! Defines `Kind` for `informers/objects.rs`. That file generates objects for the program `informer-bench`,
//! and `apiserver-bench` includes it.

/// The kinds of objects, the same as in `informer-bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "`informer-bench` has more kinds")]
pub(crate) enum Kind {
    Pod,
    Crd,
    Configmap,
    Secret,
    SmallSecret,
    Node,
}
