//! The embedded server validates generated objects like the real one, whose verdicts are recorded.

use std::collections::BTreeMap;

use informer_differential::{Verdict, check_recorded_validation};

#[tokio::test(flavor = "current_thread")]
async fn generated_objects_get_the_recorded_verdicts_of_kube_apiserver() {
    let recorded: BTreeMap<String, Vec<Verdict>> =
        serde_json::from_str(include_str!("../validation/recorded.json")).expect("the recording is valid");
    let count: usize = recorded.values().map(Vec::len).sum();
    assert!(count > 1_000, "{count} verdicts are recorded");
    let differences = check_recorded_validation(&recorded).await.expect("the server responds");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
