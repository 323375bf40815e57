use std::borrow::Cow;
use std::error::Error;
use std::future::Future;

use informer_core::Object;

use crate::Change;
use crate::queue::{Batch, Deltas, Popped};

/// Why an item could not be processed.
pub type ProcessError = Box<dyn Error + Send + Sync>;

/// What an [`InformerController`](super::InformerController) does with what it pops.
///
/// Every `FnMut(&T) -> Result<(), ProcessError>` is one; it runs on a thread of the runtime and must not block. What has to
/// wait implements the trait.
pub trait Process<T>: Send + 'static {
    /// Processes one item of the queue. The next one follows when the future is ready. A panic is contained and counted.
    ///
    /// # Errors
    ///
    /// When the item could not be processed; whether it is queued again is the controller's to say.
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

/// An item of a queue, as logs name it: by its key, never by its content.
pub trait ProcessItem {
    /// The key; of several objects, the first and how many follow.
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
