//! The suite on the embedded server.

use std::sync::Arc;

use informer_conformance::{Embedded, Options, Server, all, run};

#[tokio::test(flavor = "multi_thread")]
async fn informers_behave_on_the_embedded_server() {
    let server = Server::Embedded(Embedded::new().await.expect("loopback has a free port"));
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
    assert!(verdict.passed() >= 40, "the suite has shrunk to {}", verdict.passed());
}
