//! Polling of states that have no notification. Scenarios run in real time, and only this module waits for a
//! fixed time. If that time is too short or too long, a scenario sends more requests or takes longer, but
//! does not fail.

use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(50);

pub(crate) async fn pause() {
    tokio::time::sleep(PERIOD).await;
}

/// Polls until a condition holds. The time limit of the scenario also limits this wait.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        pause().await;
    }
}
