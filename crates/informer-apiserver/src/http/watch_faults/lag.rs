//! The fault that delays all items of a watch, to simulate a lagging server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::http::watch::{Item, WatchDriver};

/// Maximum number of delayed items in the buffer of a watch. Later events stay in the history, which all
/// watches share.
const MAX_BUFFERED_ITEMS: usize = 1024;

pub(super) struct LagBuffer {
    clock: Arc<dyn Clock>,
    lag: Duration,
    buffered: VecDeque<(Duration, Item)>,
    /// The watch driver has returned its last item.
    drained: bool,
}

impl LagBuffer {
    /// Creates the buffer of a delayed watch, or returns `None` if the delay is zero.
    pub(super) fn new(driver: &WatchDriver, lag: Duration) -> Option<Box<Self>> {
        let buffer =
            || Self { clock: Arc::clone(driver.clock()), lag, buffered: VecDeque::new(), drained: false };
        (!lag.is_zero()).then(|| Box::new(buffer()))
    }

    /// Returns the next item when its delay has passed, or `None` at the end of the watch. Cancel safe.
    async fn next(&mut self, driver: &mut WatchDriver) -> Option<Item> {
        loop {
            let due = self.buffered.front().map(|(due, _)| *due);
            if due.is_some_and(|due| due <= self.clock.elapsed()) {
                return self.buffered.pop_front().map(|(_, item)| item);
            }
            if due.is_none() && self.drained {
                return None;
            }
            let sleep = self.clock.sleep_until(due.unwrap_or_default());
            tokio::select! {
                biased;
                () = sleep, if due.is_some() => {}
                item = driver.next(), if !self.drained && self.buffered.len() < MAX_BUFFERED_ITEMS => {
                    match item {
                        Some(item) => self.buffered.push_back((self.clock.elapsed() + self.lag, item)),
                        None => self.drained = true,
                    }
                }
            }
        }
    }
}

/// Returns the next item of a watch. If there is a buffer, the item is delayed.
pub(super) async fn next(buffer: Option<&mut LagBuffer>, driver: &mut WatchDriver) -> Option<Item> {
    match buffer {
        None => driver.next().await,
        Some(buffer) => buffer.next(driver).await,
    }
}
