//! The handler of a view under test. It checks the history of its events, and hangs or panics when the
//! scenario requests it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer_cache::Event;
use informer_cache::handler::EventHandler;
use informer_core::Object;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::check::Checks;

/// Controls a handler: the behavior that the scenario requests, and the events that the handler has received.
#[derive(Debug)]
pub(crate) struct HandlerControl {
    hangs: watch::Sender<bool>,
    panics: AtomicBool,
    removed: AtomicBool,
    /// The uid and the resourceVersion of each object that exists according to the events so far.
    known: Mutex<BTreeMap<String, (String, String)>>,
}

impl HandlerControl {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            hangs: watch::Sender::new(false),
            panics: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            known: Mutex::default(),
        })
    }

    /// Makes the next calls of the handler wait until this method is called with false.
    pub(crate) fn set_hanging(&self, hangs: bool) {
        self.hangs.send_replace(hangs);
    }

    pub(crate) fn panic_once(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    /// Records that the handler was removed. A later call of the handler is a violation.
    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    pub(crate) fn known(&self) -> BTreeMap<String, (String, String)> {
        self.known.lock().clone()
    }
}

pub(crate) struct Observer<O> {
    pub(crate) name: String,
    pub(crate) control: Arc<HandlerControl>,
    pub(crate) checks: Checks,
    /// Returns how often the transform has processed an object; `None` if objects are not transformed.
    pub(crate) transformations: Option<fn(&O) -> u64>,
}

fn identity<O: Object>(object: &O) -> (String, String) {
    (object.uid().to_owned(), object.resource_version().to_string())
}

impl<O: Object> Observer<O> {
    fn observe(&self, event: &Event<O>) {
        let key = event.key().to_string();
        let mut known = self.control.known.lock();
        let (name, before) = (&self.name, known.get(&key).cloned());
        let legal = match (event, &before) {
            (Event::Added { .. }, None) => true,
            (Event::Updated { old, new, .. }, Some(before)) => {
                identity(&**old) == *before && new.uid() == before.0
            }
            (Event::Deleted { last, .. }, Some(before)) => last.uid() == before.0,
            _ => false,
        };
        self.checks.ensure("legal-history", legal, || format!("{name}: {event} after {before:?}"));
        if let Some(transformations) = self.transformations {
            let count = transformations(event.object());
            self.checks.ensure("transformed-once", count == 1, || {
                format!("{name}: the object of {event} was transformed {count} times")
            });
        }
        match event {
            Event::Deleted { .. } => drop(known.remove(&key)),
            _ => drop(known.insert(key, identity(&**event.object()))),
        }
    }
}

impl<O: Object> EventHandler<O> for Observer<O> {
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        let control = Arc::clone(&self.control);
        self.checks.ensure("no-call-after-remove", !control.is_removed(), || {
            format!("{}: {event} was delivered after the handler was removed", self.name)
        });
        self.observe(&event);
        assert!(!control.panics.swap(false, Ordering::SeqCst), "simulated: the handler panics");
        async move {
            let mut hangs = control.hangs.subscribe();
            // The wait cannot fail: `control` holds the sender, so the channel does not close.
            let _ = hangs.wait_for(|hangs| !hangs).await;
        }
    }
}
