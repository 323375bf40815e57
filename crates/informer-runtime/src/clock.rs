//! Returns the current time of tokio's clock as a `std::time::Instant`, because the state machines of this
//! crate are independent of tokio. In a test with paused time, tokio's clock is simulated, and so is this
//! one.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
