//! A handler: the shipped listener and its task, polled by the simulator, and the state that results from the
//! calls of the handler.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use informer_cache::handler::EventHandler;
use informer_cache::proto::ProcessorListener;
use informer_cache::{BufferPolicy, Event, HandlerOptions};
use informer_core::Object;
use informer_store::Indexer;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::check::{Checked, ensure};
use crate::object::SimObject;

#[derive(Default)]
struct Tray {
    /// The events of the calls that have begun. The simulation takes and checks them.
    begun: VecDeque<Event<SimObject>>,
    /// Number of calls that are allowed to return.
    permits: u32,
    /// Number of calls that have returned or panicked.
    returned: u64,
    /// If set, the next call panics: immediately if false, and after it has waited for a permit if true.
    panics: Option<bool>,
}

/// The user's handler of the simulated informer. Each call waits until the world permits it to return.
struct TrayHandler(Arc<Mutex<Tray>>);

impl EventHandler<SimObject> for TrayHandler {
    fn handle(&mut self, event: Event<SimObject>) -> impl Future<Output = ()> + Send {
        let mut tray = self.0.lock();
        tray.begun.push_back(event);
        if tray.panics == Some(true) {
            tray.panics = None;
            tray.returned += 1;
            drop(tray);
            // Unwinds like a panic, but prints no message.
            std::panic::resume_unwind(Box::new("by design"));
        }
        let shared = Arc::clone(&self.0);
        poll_fn(move |_| {
            let mut tray = shared.lock();
            if tray.permits == 0 {
                return Poll::Pending;
            }
            tray.permits -= 1;
            tray.returned += 1;
            if tray.panics.take().is_some() {
                drop(tray);
                std::panic::resume_unwind(Box::new("by design"));
            }
            Poll::Ready(())
        })
    }
}

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Handler {
    pub(crate) listener: Arc<ProcessorListener<SimObject>>,
    pub(crate) policy: BufferPolicy,
    pub(crate) resync: Option<Duration>,
    pub(crate) resync_next: Option<Instant>,
    tray: Arc<Mutex<Tray>>,
    cancel: CancellationToken,
    run: Option<Run>,
    /// For each key, the object of the last call.
    pub(crate) view: Vec<Option<Arc<SimObject>>>,
    /// The uids that calls reported as deleted, with the version of each deletion.
    gone: Vec<(u32, u64)>,
    /// True if the informer has a selector. An object that left the selection may then return in a later
    /// state with the same uid.
    selector: bool,
    /// For each key, the number of initial events that are queued and not handled yet.
    initial: Vec<u8>,
    /// True once all initial events of the current run were added to the handler's buffer.
    pub(crate) initial_complete: bool,
    /// True if the processor has accepted the handler.
    pub(crate) joined: bool,
    pub(crate) leaving: bool,
    pub(crate) stuck: bool,
    /// The key of the running call, and whether its event is initial.
    in_call: Option<(usize, bool)>,
    told: u64,
}

fn uid(object: &SimObject) -> u32 {
    u32::from_str_radix(object.uid(), 16).unwrap_or_default()
}

impl Handler {
    pub(crate) fn new(
        options: &HandlerOptions,
        resync: Option<Duration>,
        (keys, selector): (usize, bool),
    ) -> Self {
        let mut handler = Self {
            listener: Arc::new(ProcessorListener::new("simulated".to_owned(), options)),
            policy: options.buffer,
            resync,
            resync_next: None,
            tray: Arc::default(),
            cancel: CancellationToken::new(),
            run: None,
            view: vec![None; keys],
            gone: Vec::new(),
            selector,
            initial: vec![0; keys],
            initial_complete: false,
            joined: false,
            leaving: false,
            stuck: false,
            in_call: None,
            told: 0,
        };
        handler.begin_run();
        handler
    }

    pub(crate) fn begin_run(&mut self) {
        self.listener.begin_run();
        self.initial_complete = false;
        self.cancel = CancellationToken::new();
        let (listener, tray, cancel) =
            (Arc::clone(&self.listener), Arc::clone(&self.tray), self.cancel.clone());
        self.run = Some(Box::pin(async move { listener.run(&mut TrayHandler(tray), &cancel).await }));
    }

    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.run.is_none()
    }

    pub(crate) fn panic_next(&self, at_once: bool) {
        self.tray.lock().panics = Some(at_once);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_call.is_none() && (self.listener.is_closed() || self.listener.state().depth == 0)
    }

    /// Permits up to `permits` calls to return, runs the handler's task, and returns the events of the calls
    /// that began.
    pub(crate) fn work(&mut self, permits: u32) -> VecDeque<Event<SimObject>> {
        self.tray.lock().permits = if self.stuck { 0 } else { permits };
        if let Some(run) = &mut self.run {
            let mut context = Context::from_waker(Waker::noop());
            if run.as_mut().poll(&mut context).is_ready() {
                self.run = None;
            }
        }
        let mut tray = self.tray.lock();
        let (begun, returned) = (std::mem::take(&mut tray.begun), tray.returned);
        drop(tray);
        self.told += begun.len() as u64;
        let calls = begun
            .iter()
            .map(|event| (event.object().number(), matches!(event, Event::Added { initial: true, .. })));
        let mut calls = self.in_call.take().into_iter().chain(calls).peekable();
        while let Some(call) = calls.next() {
            if calls.peek().is_none() && returned < self.told {
                self.in_call = Some(call);
            } else if call.1 {
                self.initial[call.0] = self.initial[call.0].saturating_sub(1);
            }
        }
        begun
    }

    pub(crate) fn was_given<'a>(&mut self, events: impl IntoIterator<Item = &'a Event<SimObject>>) {
        for event in events {
            let key = event.object().number();
            match event {
                Event::Added { initial: true, .. } => self.initial[key] += 1,
                Event::Deleted { .. } if self.policy == BufferPolicy::Coalesce => {
                    // In a buffer that merges events, a deletion removes initial events that were not
                    // delivered yet.
                    self.initial[key] = u8::from(self.in_call == Some((key, true)));
                }
                _ => {}
            }
        }
    }

    /// Applies the event of a call to the view, and checks it against the previous events.
    pub(crate) fn believe(
        &mut self,
        event: &Event<SimObject>,
        store: &Indexer<SimObject>,
        restored: bool,
    ) -> Checked {
        let object = event.object();
        let key = object.number();
        ensure!("legal-history", !self.leaving, "{event}: the handler was already removed");
        match event {
            Event::Added { object, .. } => {
                let before = &self.view[key];
                ensure!("legal-history", before.is_none(), "{event}: the handler already knows {before:?}");
                let back = self.gone.iter().any(|(gone, version)| {
                    *gone == uid(object) && (!self.selector || object.version() <= *version)
                });
                ensure!(
                    "no-resurrection",
                    restored || !back,
                    "{event}: the deletion of this object was reported before"
                );
                self.view[key] = Some(Arc::clone(object));
            }
            Event::Updated { old, new, resync } => {
                let before = self.view[key].replace(Arc::clone(new));
                let same = before.as_ref().is_some_and(|before| Arc::ptr_eq(before, old));
                ensure!("legal-history", same, "{event}: the previous event reported {before:?}");
                ensure!(
                    "legal-history",
                    old.uid() == new.uid(),
                    "{event}: the uid differs from that of the old state"
                );
                ensure!(
                    "legal-history",
                    !resync || Arc::ptr_eq(old, new),
                    "{event}: a resync has two different states"
                );
                let back = new.version() < old.version();
                ensure!("no-going-back", restored || !back, "{event}");
            }
            Event::Deleted { last, .. } => {
                let before = self.view[key].take();
                let same = before.as_ref().is_some_and(|before| before.uid() == last.uid());
                ensure!("legal-history", same, "{event}: the previous event reported {before:?}");
                self.gone.push((uid(last), last.version()));
            }
        }
        if event.is_deleted() {
            return Ok(());
        }
        match store.get(object.key()) {
            Some(shown) if shown.uid() == object.uid() => {
                let behind = shown.version() < object.version();
                ensure!(
                    "lister-not-behind",
                    restored || !behind,
                    "{event}: the store has the older {shown:?}"
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the handler is reported as synced as soon as no initial event is left, and not before. An
    /// initial event is handled, or a merge removes it from the buffer.
    pub(crate) fn check_sync(&self) -> Checked {
        let left: u32 = self.initial.iter().map(|left| u32::from(*left)).sum();
        let early = left > 0 && !self.leaving && self.listener.has_synced();
        ensure!(
            "sync-not-early",
            !early,
            "the handler is synced before it has handled {left} initial events"
        );
        let late = self.initial_complete && left == 0 && !self.leaving && !self.listener.has_synced();
        ensure!(
            "sync-not-late",
            !late,
            "the handler is not synced, although no initial event is left to handle"
        );
        Ok(())
    }
}
