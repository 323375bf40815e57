//! Faults that are injected into watches which are already open.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::FaultAction;
use crate::requests::RequestRecord;

/// Notifies the single task that polls a watch that a fault was added. The task polls this before each event,
/// so polling must be cheap: usually two loads and a waker registration, without an atomic read-modify-write
/// on the flag.
#[derive(Debug, Default)]
struct PollNotify {
    notified: AtomicBool,
    waker: AtomicWaker,
}

impl PollNotify {
    fn notify(&self) {
        self.notified.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.notified.load(Ordering::SeqCst) {
            self.waker.register(context.waker());
        }
        // `notify` may have run before the waker was registered, so check the flag again. The plain load
        // avoids the swap if the flag is not set.
        if self.notified.load(Ordering::SeqCst) && self.notified.swap(false, Ordering::SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// An open watch, and the faults that rules have added to it since it started.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    request: Arc<RequestRecord>,
    injected: Mutex<Vec<FaultAction>>,
    notify: PollNotify,
}

impl OpenWatch {
    pub(super) fn new(request: Arc<RequestRecord>) -> Self {
        Self { request, injected: Mutex::default(), notify: PollNotify::default() }
    }

    pub(crate) fn request(&self) -> &RequestRecord {
        &self.request
    }

    pub(super) fn inject(&self, action: &FaultAction) {
        self.injected.lock().push(action.clone());
        self.notify.notify();
    }

    /// Waits until a rule has added a fault to the watch. Cancel safe.
    pub(crate) async fn notified(&self) {
        poll_fn(|context| self.notify.poll(context)).await;
    }

    /// Returns the faults that were added since the last call.
    pub(crate) fn take(&self) -> Vec<FaultAction> {
        std::mem::take(&mut self.injected.lock())
    }
}
