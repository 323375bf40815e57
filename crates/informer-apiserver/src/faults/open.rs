//! Faults that are injected into open watches.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::FaultAction;
use crate::requests::RequestRecord;

/// A notification for the single task that polls a watch. The task polls it before each event, so polling must be cheap:
/// usually two loads and a waker registration, without an atomic read-modify-write on the flag.
#[derive(Debug, Default)]
struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

impl Bell {
    fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        self.listener.wake();
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if !self.rung.load(Ordering::SeqCst) {
            self.listener.register(context.waker());
        }
        // `notify` may run before the registration, so check again. A plain load avoids the swap on the common path.
        match self.rung.load(Ordering::SeqCst) && self.rung.swap(false, Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// An open watch and the faults that rules have added since it started.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    request: Arc<RequestRecord>,
    spoiled: Mutex<Vec<FaultAction>>,
    bell: Bell,
}

impl OpenWatch {
    pub(super) fn new(request: Arc<RequestRecord>) -> Self {
        Self { request, spoiled: Mutex::default(), bell: Bell::default() }
    }

    pub(super) fn request(&self) -> &RequestRecord {
        &self.request
    }

    pub(super) fn spoil(&self, action: &FaultAction) {
        self.spoiled.lock().push(action.clone());
        self.bell.ring();
    }

    /// Waits until a rule has added a fault. Cancel safe.
    pub(crate) async fn rung(&self) {
        poll_fn(|context| self.bell.poll(context)).await;
    }

    /// Returns the faults that were added since the last call.
    pub(crate) fn take(&self) -> Vec<FaultAction> {
        std::mem::take(&mut self.spoiled.lock())
    }
}
