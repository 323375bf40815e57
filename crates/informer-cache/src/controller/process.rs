use std::borrow::Cow;
use std::error::Error;
use std::future::Future;

use informer_core::Object;

use crate::Change;
use crate::queue::{Batch, Deltas, Popped};

/// The error that a [`Process`] returns for an item.
pub type ProcessError = Box<dyn Error + Send + Sync>;

/// Processes the items that an [`InformerController`](super::InformerController) pops.
///
/// Every `FnMut(&T) -> Result<(), ProcessError>` implements this trait; such a function runs on a runtime
/// thread and must not block. Implement the trait for processing that awaits.
pub trait Process<T>: Send + 'static {
    /// Processes one item of the queue. The next item follows when the returned future is ready. A panic is
    /// contained and counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the item could not be processed. The configuration of the controller decides
    /// whether the item is requeued.
    fn process(&mut self, item: &T) -> impl Future<Output = Result<(), ProcessError>> + Send;
}

impl<T, F> Process<T> for F
where
    T: Sync,
    F: FnMut(&T) -> Result<(), ProcessError> + Send + 'static,
{
    async fn process(&mut self, item: &T) -> Result<(), ProcessError> {
        self(item)
    }
}

/// Names a queue item in log messages, by the key of its object. The content of objects is never logged.
pub trait ProcessItem {
    /// Returns the key of the item's object. For an item with several objects, returns the first key and the
    /// number of the others.
    fn name(&self) -> Cow<'_, str>;
}

impl<O: Object> ProcessItem for Batch<O> {
    fn name(&self) -> Cow<'_, str> {
        let name = match self.first().map(|change| (change, change.key())) {
            Some((_, Some(key))) => Cow::Borrowed(key.as_str()),
            Some((Change::Replaced(list), _)) => Cow::Owned(format!("a list of {}", list.items.len())),
            Some((Change::Resync, _)) => Cow::Borrowed("a resync"),
            Some((Change::Bookmark(_), _)) => Cow::Borrowed("a bookmark"),
            Some(_) | None => Cow::Borrowed("a change without a key"),
        };
        match self.len() {
            0 | 1 => name,
            more => Cow::Owned(format!("{name} and {} more", more - 1)),
        }
    }
}

impl<O: Object> ProcessItem for Popped<Deltas<O>> {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.key().as_str())
    }
}
