//! Checks that the embedded server gives the responses that were recorded from the real one, except for the
//! listed differences.

use informer_differential::{Outcome, Suite, Target};

async fn outcome() -> (Suite, Outcome) {
    let suite = Suite::own().expect("the suite of this package can be read");
    let outcome = suite.check(&Target::embedded(), 1, 1).await.expect("every scenario has a recording");
    (suite, outcome)
}

#[tokio::test(start_paused = true)]
async fn responses_of_the_embedded_server_equal_the_recorded_ones() {
    let (_, outcome) = outcome().await;
    let unknown: Vec<String> = outcome
        .unknown
        .iter()
        .map(|d| format!("{} at {}: recorded {}, received {}", d.scenario, d.at, d.real, d.embedded))
        .collect();
    assert!(unknown.is_empty(), "{} differences that no rule covers:\n{}", unknown.len(), unknown.join("\n"));
    assert!(outcome.scenarios >= 75 && outcome.responses >= 950, "scenarios are missing: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn every_listed_difference_occurs() {
    let (suite, outcome) = outcome().await;
    let rules = suite.known.0.iter().zip(&outcome.known);
    let stale: Vec<_> = rules.filter(|(_, count)| **count == 0).map(|(rule, _)| rule).collect();
    assert!(stale.is_empty(), "listed differences that do not occur, remove them: {stale:?}");
}

#[test]
fn docs_list_every_known_difference_and_the_number_of_scenarios() {
    let suite = Suite::own().unwrap();
    let page = include_str!("../../../docs/apiserver.md");
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in &suite.known.0 {
        assert!(flat.contains(&rule.reason), "docs/apiserver.md does not contain: {}", rule.reason);
    }
    let count = format!("{} scenarios", suite.scenarios.len());
    assert!(flat.contains(&count), "docs/apiserver.md does not contain {count}");
}
