//! Runs the suite of informer scenarios on the embedded server.

use std::sync::Arc;

use informer_conformance::{Embedded, Options, Server, all, run};

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_the_embedded_server() {
    passes_on(Embedded::new().await.expect("loopback has a free port")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_a_server_that_is_newer_than_the_client() {
    passes_on(Embedded::newer().await.expect("loopback has a free port")).await;
}

async fn passes_on(server: Embedded) {
    let server = Server::Embedded(server);
    let verdict = run(Arc::new(server), all(), Options { slow: false, ..Options::default() }).await;
    let failed: Vec<String> = verdict
        .failed()
        .map(|outcome| format!("{}: {}", outcome.name, outcome.failure.as_deref().unwrap_or_default()))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        verdict.outcomes.len(),
        failed.join("\n")
    );
    assert!(verdict.passed() >= 40, "the suite has only {} scenarios", verdict.passed());
}
