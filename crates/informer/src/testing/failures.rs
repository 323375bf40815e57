//! The failures of the managers that a test has started, for the waits of the test.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The managers of a [`TestServer`](super::TestServer). Clones are handles to the same managers.
#[derive(Debug, Clone)]
pub(super) struct Failures {
    managers: watch::Sender<Managers>,
}

#[derive(Debug, Default)]
pub(super) struct Managers {
    #[cfg(feature = "runtime")]
    count: u64,
    /// The managers whose failures the test does not expect, by number. The value is the error of a manager
    /// that has failed.
    errors: BTreeMap<u64, Option<String>>,
}

/// One manager of [`Failures`].
#[cfg(feature = "runtime")]
#[derive(Debug, Clone)]
pub(super) struct ManagerFailure {
    number: u64,
    failures: Failures,
}

impl Failures {
    pub(super) fn new() -> Self {
        Self { managers: watch::Sender::default() }
    }

    /// Returns a receiver that is notified when a manager fails.
    pub(super) fn subscribe(&self) -> watch::Receiver<Managers> {
        self.managers.subscribe()
    }

    /// Returns the error of the first manager that failed, if there is one.
    pub(super) fn first(&self) -> Option<String> {
        self.managers.borrow().errors.values().flatten().next().cloned()
    }

    #[cfg(feature = "runtime")]
    pub(super) fn register(&self) -> ManagerFailure {
        let mut number = 0;
        self.managers.send_if_modified(|managers| {
            managers.count += 1;
            number = managers.count;
            managers.errors.insert(number, None);
            false
        });
        ManagerFailure { number, failures: self.clone() }
    }
}

#[cfg(feature = "runtime")]
impl ManagerFailure {
    /// Sets the error with which the manager ended, unless it was removed.
    pub(super) fn set(&self, error: String) {
        self.failures.managers.send_if_modified(|managers| {
            let found = managers.errors.get_mut(&self.number);
            found.map(|failure| *failure = Some(error)).is_some()
        });
    }

    /// Removes the manager, because the test expects its failure or has received it.
    pub(super) fn remove(&self) {
        self.failures.managers.send_if_modified(|managers| {
            managers.errors.remove(&self.number);
            false
        });
    }
}
