//! The generated manifests are up to date: the CRDs of the types, and the copies in the Helm chart
//! of the manifests in `config`. `informer manifests` writes them.

use complete::api;
use informer::testing::Manifests;

#[test]
fn manifests_are_up_to_date() {
    let manifests = Manifests::of_project(env!("CARGO_PKG_NAME")).crds(api::crds());
    let report = match std::env::var_os("UPDATE_MANIFESTS") {
        Some(_) => manifests.write(),
        None => manifests.check(),
    };
    let report = report.expect("the manifests can be read and written");
    println!("\n{report}");
    assert!(!report.is_stale(), "run `informer manifests`:\n{report}");
}
