//! Runs a blocking handler on its own thread.
//!
//! # Shutdown
//!
//! The thread starts with the first event. Dropping the handler closes the channel to the thread, which then
//! ends after the current call. The thread is not joined, so a call that never returns does not delay
//! shutdown.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;

use tokio::sync::oneshot;

use super::EventHandler;
use crate::Event;

/// Returns a handler whose closure may block. The closure runs on its own thread and is called for one event
/// at a time, in order.
pub fn blocking<O, F>(callback: F) -> Blocking<O>
where
    O: Send + Sync + 'static,
    F: FnMut(Event<O>) + Send + 'static,
{
    Blocking { state: State::Idle(Box::new(callback)) }
}

/// The handler returned by [`blocking`].
pub struct Blocking<O> {
    state: State<O>,
}

enum State<O> {
    Idle(Box<dyn FnMut(Event<O>) + Send>),
    Running(mpsc::Sender<Call<O>>),
    /// The thread of the handler could not be started. Every event then fails like one whose handler
    /// panicked.
    Failed,
}

struct Call<O> {
    event: Event<O>,
    /// Sends the result of the closure from the handler's thread back to the task of the listener, which
    /// waits for it. If the closure panicked, the result contains the panic.
    done: oneshot::Sender<Result<(), Box<dyn Any + Send>>>,
}

impl<O: Send + Sync + 'static> Blocking<O> {
    /// Returns the channel to the handler's thread. The first call starts the thread. Returns an error if the
    /// thread could not be started.
    fn worker(&mut self) -> Result<&mpsc::Sender<Call<O>>, &'static str> {
        if let State::Idle(_) = self.state
            && let State::Idle(callback) = std::mem::replace(&mut self.state, State::Failed)
        {
            let (sender, receiver) = mpsc::channel();
            let thread = std::thread::Builder::new().name("informer-handler".to_owned());
            if thread.spawn(move || serve(callback, &receiver)).is_ok() {
                self.state = State::Running(sender);
            }
        }
        match &self.state {
            State::Running(sender) => Ok(sender),
            State::Idle(_) | State::Failed => Err("the thread of a blocking handler could not be started"),
        }
    }
}

fn serve<O>(mut callback: Box<dyn FnMut(Event<O>) + Send>, calls: &mpsc::Receiver<Call<O>>) {
    while let Ok(Call { event, done }) = calls.recv() {
        let outcome = catch_unwind(AssertUnwindSafe(|| callback(event)));
        // A failed send is ignored: it only means that the listener no longer waits for the result. The
        // callback has handled the event in any case.
        let _ = done.send(outcome);
    }
}

impl<O: Send + Sync + 'static> EventHandler<O> for Blocking<O> {
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        let (done, outcome) = oneshot::channel();
        let sent = self.worker().map(|worker| worker.send(Call { event, done }).is_ok());
        async move {
            match (sent, outcome.await) {
                // Resumes the callback's panic in the listener's task, where it is caught and counted.
                (_, Ok(Err(panic))) => resume_unwind(panic),
                (Ok(true), _) => {}
                (Ok(false), _) => resume_unwind(Box::new("the thread of a blocking handler has ended")),
                (Err(reason), _) => resume_unwind(Box::new(reason)),
            }
        }
    }
}

impl<O> fmt::Debug for Blocking<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle(_) => "idle",
            State::Running(_) => "running",
            State::Failed => "failed",
        };
        f.debug_struct("Blocking").field("state", &state).finish()
    }
}
