use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use informer::Object;
use informer::cache::reflector::ReflectorPhase;
use informer::cache::{Event, HandlerOptions, HandlerRegistration, InformerRun, SharedInformer, on_event};
use tokio::sync::watch;

use crate::bench::Failure;

/// Timeout of a scenario for each state that it waits for. On an idle machine, backoffs of up to a minute
/// determine the time; a machine under heavy load takes many times as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// A running informer with a handler that records its calls.
#[derive(Debug)]
pub struct Watched<O: Object> {
    /// The informer that this value runs and whose calls it records.
    pub informer: SharedInformer<O>,
    /// The registration of the handler that records its calls.
    pub registration: HandlerRegistration<O>,
    run: Option<InformerRun>,
    seen: watch::Receiver<Vec<RecordedCall>>,
}

/// The kinds of calls of an event handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// An object of the initial list, or an object that is replayed for a handler that was added late.
    Initial,
    /// An object that was added after the initial list.
    Added,
    /// An update of an object.
    Updated,
    /// A resync, which reports an unchanged object.
    Resync,
    /// A deletion that a watch event reported.
    Deleted,
    /// A deletion that was detected because an object was missing in a later list.
    DeletedStale,
}

/// One recorded call of a handler.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// The kind of the call.
    pub what: CallKind,
    /// The key of the object: namespace and name.
    pub key: String,
    /// The uid of the object in the event.
    pub uid: String,
    /// For updates, the resourceVersion of the previous state of the object.
    pub old: Option<String>,
    /// The resourceVersion of the newest state of the object in the event.
    pub version: String,
}

impl RecordedCall {
    fn of<O: Object>(event: &Event<O>) -> Self {
        let object = event.object();
        let (what, old) = match event {
            Event::Added { initial: true, .. } => (CallKind::Initial, None),
            Event::Added { .. } => (CallKind::Added, None),
            Event::Updated { old, resync: true, .. } => (CallKind::Resync, Some(old)),
            Event::Updated { old, .. } => (CallKind::Updated, Some(old)),
            Event::Deleted { stale: true, .. } => (CallKind::DeletedStale, None),
            Event::Deleted { .. } => (CallKind::Deleted, None),
        };
        Self {
            what,
            key: object.key().to_string(),
            uid: object.uid().to_owned(),
            old: old.map(|old| old.resource_version().to_string()),
            version: object.resource_version().to_string(),
        }
    }

    /// Returns the name of the object without its namespace.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Debug for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} @{}", self.what, self.key, self.version)
    }
}

/// Returns a handler that records its calls, and the receiver of the recording.
pub(crate) fn recorder<O: Object>()
-> (impl informer::cache::EventHandler<O>, watch::Receiver<Vec<RecordedCall>>) {
    let (sender, receiver) = watch::channel(Vec::new());
    let handler =
        on_event(move |event: Event<O>| sender.send_modify(|seen| seen.push(RecordedCall::of(&event))));
    (handler, receiver)
}

impl<O: Object> Watched<O> {
    /// Starts an informer with a recording handler.
    ///
    /// # Errors
    ///
    /// When the informer accepts no further handler.
    pub fn start(informer: SharedInformer<O>) -> Result<Self, Failure> {
        let mut watched = Self::join(informer, HandlerOptions::default())?;
        watched.run = Some(watched.informer.start());
        Ok(watched)
    }

    /// Adds a recording handler to an informer that other code runs.
    ///
    /// # Errors
    ///
    /// When the informer accepts no further handler.
    pub fn join(informer: SharedInformer<O>, options: HandlerOptions) -> Result<Self, Failure> {
        let (handler, seen) = recorder();
        let registration = informer.add_handler_with(options, handler)?;
        Ok(Self { informer, registration, run: None, seen })
    }

    /// Starts an informer and waits for its first list, for the handler to process it, and for the watch to
    /// be open. A watch that breaks before it was accepted is followed by another list.
    ///
    /// # Errors
    ///
    /// When the informer does not sync in time.
    pub async fn synced(informer: SharedInformer<O>) -> Result<Self, Failure> {
        let watched = Self::start(informer)?;
        watched.informer.wait_for_sync(PATIENCE).await?;
        watched.registration.wait_for_sync(PATIENCE).await?;
        watched.until_state(|state| state.reflector.phase == ReflectorPhase::Watching).await?;
        Ok(watched)
    }

    /// Waits until the cache satisfies a condition.
    ///
    /// # Errors
    ///
    /// When the cache does not satisfy the condition in time. The error contains the state of the informer.
    pub async fn until(
        &self,
        condition: impl Fn(&informer::cache::Indexer<O>) -> bool,
    ) -> Result<(), Failure> {
        Ok(self.informer.wait_until_for(PATIENCE, condition).await?)
    }

    /// Waits until the recorded calls satisfy a condition.
    ///
    /// # Errors
    ///
    /// When the calls do not satisfy the condition in time. The error contains all recorded calls.
    pub async fn until_seen(&self, condition: impl Fn(&[RecordedCall]) -> bool) -> Result<(), Failure> {
        let mut seen = self.seen.clone();
        let told = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| condition(seen))).await;
        match told {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let state = self.informer.state();
                Err(format!("the handler received only {:?}; {}", self.seen(), state.reflector).into())
            }
        }
    }

    /// Waits until the informer reaches a state. The informer sends no notification of such changes, so this
    /// polls.
    ///
    /// # Errors
    ///
    /// When the state is not reached in time. The error contains the current state.
    pub async fn until_state(
        &self,
        condition: impl Fn(&informer::cache::InformerState) -> bool,
    ) -> Result<(), Failure> {
        let holds = async {
            while !condition(&self.informer.state()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, holds).await {
            Ok(()) => Ok(()),
            Err(_) => Err(format!(
                "the informer did not reach the expected state: {:?}",
                self.informer.state().reflector
            )
            .into()),
        }
    }

    /// Returns all recorded handler calls.
    pub fn seen(&self) -> Vec<RecordedCall> {
        self.seen.borrow().clone()
    }

    /// Returns the kinds of the handler calls for the object with this name, in order.
    pub fn story(&self, name: &str) -> Vec<CallKind> {
        self.seen.borrow().iter().filter(|seen| seen.name() == name).map(|seen| seen.what).collect()
    }

    /// Returns the state that results from the recorded handler calls: the uid and the resourceVersion of
    /// each key.
    ///
    /// # Errors
    ///
    /// When the calls do not form a legal history, for example an update of an object that was not added.
    pub fn replayed(&self) -> Result<BTreeMap<String, (String, String)>, Failure> {
        replay(&self.seen.borrow())
    }

    /// Stops the informer, unless other code runs it.
    pub async fn stop(&mut self) {
        if let Some(run) = self.run.take() {
            run.stop().await;
        }
    }

    /// Starts the informer again after it was stopped.
    pub fn start_again(&mut self) {
        self.run = Some(self.informer.start());
    }
}

/// Returns the state that results from a sequence of handler calls. Fails if the calls for a key do not form
/// a legal history, for example an update of an object that was not added.
fn replay(calls: &[RecordedCall]) -> Result<BTreeMap<String, (String, String)>, Failure> {
    let mut view: BTreeMap<String, (String, String)> = BTreeMap::new();
    for call in calls {
        let held = view.get(&call.key);
        let legal = match call.what {
            CallKind::Initial | CallKind::Added => held.is_none(),
            CallKind::Updated | CallKind::Resync => {
                held.is_some_and(|(uid, version)| *uid == call.uid && Some(version) == call.old.as_ref())
            }
            CallKind::Deleted | CallKind::DeletedStale => held.is_some_and(|(uid, _)| *uid == call.uid),
        };
        if !legal {
            return Err(format!("{call:?} is illegal after {held:?}").into());
        }
        match call.what {
            CallKind::Deleted | CallKind::DeletedStale => view.remove(&call.key),
            _ => view.insert(call.key.clone(), (call.uid.clone(), call.version.clone())),
        };
    }
    Ok(view)
}
