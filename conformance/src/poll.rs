//! Polling of states without a notification. Scenarios run in real time, and wait for a fixed time only here:
//! a wait that is too short or too long costs requests or time, and does not fail a test.

use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(50);

pub(crate) async fn pause() {
    tokio::time::sleep(PERIOD).await;
}

/// Returns when a condition holds. The limit of the scenario bounds the wait.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        pause().await;
    }
}
