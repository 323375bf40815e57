//! The generated manifests are up to date: the CRDs of the types, the registration of the webhooks,
//! and the copies in the Helm chart of the manifests in `config`. `informer manifests` writes them.

use informer::testing::Manifests;
use minimal::api;

/// The manifests that are generated from the code.
fn manifests() -> Manifests {
    Manifests::of_project(env!("CARGO_PKG_NAME")).crds(api::crds())
}

#[test]
fn manifests_are_up_to_date() {
    let manifests = manifests();
    let report = match std::env::var_os("UPDATE_MANIFESTS") {
        Some(_) => manifests.write(),
        None => manifests.check(),
    };
    let report = report.expect("the manifests can be read and written");
    println!("\n{report}");
    assert!(!report.is_stale(), "run `informer manifests`:\n{report}");
}
