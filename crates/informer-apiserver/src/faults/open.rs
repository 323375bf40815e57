use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::FaultAction;
use crate::requests::RequestRecord;

/// Rings for the one task that a watch is read by. It listens before each event, so that this must cost next to nothing.
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
        // It may have rung before somebody listened. Looking first is free of a write where it has not.
        match self.rung.load(Ordering::SeqCst) && self.rung.swap(false, Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A watch that is open, and what later rules want of it.
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

    /// Waits until a rule wants something. Dropping the future loses nothing.
    pub(crate) async fn rung(&self) {
        poll_fn(|context| self.bell.poll(context)).await;
    }

    /// What was wanted since the last call.
    pub(crate) fn take(&self) -> Vec<FaultAction> {
        std::mem::take(&mut self.spoiled.lock())
    }
}
