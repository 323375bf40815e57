//! A watch that lags behind: what it has to tell comes so much later.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::http::watch::{Item, WatchDriver};

/// What a lagging watch holds back at most; what is more waits in the history, which everybody shares.
const WAITING_MAX: usize = 1024;

/// What waits until it may be told.
pub(super) struct Late {
    clock: Arc<dyn Clock>,
    lag: Duration,
    waiting: VecDeque<(Duration, Item)>,
    /// The watch is over.
    drained: bool,
}

impl Late {
    /// A lag of a watch; `None` where it is none.
    pub(super) fn by(driver: &WatchDriver, lag: Duration) -> Option<Box<Self>> {
        let late =
            || Self { clock: Arc::clone(driver.clock()), lag, waiting: VecDeque::new(), drained: false };
        (!lag.is_zero()).then(|| Box::new(late()))
    }

    /// The next item whose time has come; `None` at the end. Dropping the future loses nothing.
    async fn next(&mut self, driver: &mut WatchDriver) -> Option<Item> {
        loop {
            let due = self.waiting.front().map(|(due, _)| *due);
            if due.is_some_and(|due| due <= self.clock.elapsed()) {
                return self.waiting.pop_front().map(|(_, item)| item);
            }
            if due.is_none() && self.drained {
                return None;
            }
            let sleep = self.clock.sleep_until(due.unwrap_or_default());
            tokio::select! {
                biased;
                () = sleep, if due.is_some() => {}
                item = driver.next(), if !self.drained && self.waiting.len() < WAITING_MAX => match item {
                    Some(item) => self.waiting.push_back((self.clock.elapsed() + self.lag, item)),
                    None => self.drained = true,
                },
            }
        }
    }
}

/// The next item of a watch, which may lag.
pub(super) async fn next(late: Option<&mut Late>, driver: &mut WatchDriver) -> Option<Item> {
    match late {
        None => driver.next().await,
        Some(late) => late.next(driver).await,
    }
}
