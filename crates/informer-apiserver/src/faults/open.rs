use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::FaultAction;
use crate::requests::RequestRecord;

/// A watch that is open, and what later rules want of it.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    request: Arc<RequestRecord>,
    spoiled: Mutex<Vec<FaultAction>>,
    bell: Notify,
}

impl OpenWatch {
    pub(super) fn new(request: Arc<RequestRecord>) -> Self {
        Self { request, spoiled: Mutex::default(), bell: Notify::new() }
    }

    pub(super) fn request(&self) -> &RequestRecord {
        &self.request
    }

    pub(super) fn spoil(&self, action: &FaultAction) {
        self.spoiled.lock().push(action.clone());
        self.bell.notify_one();
    }

    /// Waits until a rule wants something. Dropping the future loses nothing.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// What was wanted since the last call.
    pub(crate) fn take(&self) -> Vec<FaultAction> {
        std::mem::take(&mut self.spoiled.lock())
    }
}
