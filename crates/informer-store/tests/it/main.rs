//! Tests of the stores through their public API: the behavior that client-go's tests of its stores specify,
//! and the stronger guarantees of this crate. `docs/parity.md` maps client-go's tests to these tests.

#![expect(clippy::unwrap_used, reason = "a test fails by its panic, in helpers too")]

use std::sync::Arc;

use informer_core::{Header, ObjectKey};

mod auto_traits;
mod concurrency;
mod expiration;
mod index;
mod lister;
mod mutation;
mod store;
mod thread_safe;
mod undelta;

type Pod = Header;

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn bare(text: &str) -> Arc<Pod> {
    Header::new(key(text)).into()
}

fn versioned(text: &str, version: &str) -> Arc<Pod> {
    Header::new(key(text)).with_version(version).into()
}

/// Returns an object with the label `values`: a list separated by dots, whose elements are the values of the
/// object in the index [`by_label`].
fn valued(text: &str, values: &str) -> Arc<Pod> {
    Header::new(key(text)).with_labels([("values", values)]).into()
}

fn values(pod: &Pod) -> Vec<String> {
    use informer_core::Object;
    let text = pod.labels().get("values").unwrap_or_default();
    text.split('.').filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

fn names(found: impl IntoIterator<Item = Arc<Pod>>) -> Vec<String> {
    use informer_core::Object;
    let mut names: Vec<String> = found.into_iter().map(|pod| pod.key().to_string()).collect();
    names.sort_unstable();
    names
}
