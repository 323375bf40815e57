//! Detects kinds for which a newer server sends fields that the built-in schema does not contain.
//!
//! Protobuf identifies fields by number. If a number is unknown, the name of the field is unknown and the
//! object is partial. Such an object is sufficient for most reads. Once a read needs the unknown fields, all
//! objects of the kind are listed again as JSON.
//!
//! # Lock order
//!
//! At most one lock is held at a time. The list of observers is copied, and no observer is called under a
//! lock.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer_core::{Gvk, Gvr};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ResourceKind;

type Observer = Arc<dyn Fn(&Gvk) + Send + Sync>;

/// Maximum number of registered observers of one client. Each client of `informer-runtime` registers one
/// observer.
const MAX_OBSERVERS: usize = 1024;

#[derive(Default)]
pub(crate) struct UnknownFieldsLog {
    /// The kinds that the client has read, whole (`false`) or only their metadata (`true`). These are
    /// separate because the need for a field of the one does not concern the other. Entries are never
    /// removed.
    kinds: Mutex<HashMap<(Gvr, bool), Arc<UnknownFields>>>,
    shared: Arc<Mutex<Observed>>,
}

/// The kinds with unknown fields, and the observers that are notified of such kinds. Both are protected by
/// the same lock, so that an observer that registers while a kind is found is notified of that kind exactly
/// once.
#[derive(Default)]
struct Observed {
    found: Vec<Gvk>,
    observers: Vec<Observer>,
}

/// Records whether the server sends unknown fields of one kind, and whether the kind must be read as JSON
/// because of them.
pub(crate) struct UnknownFields {
    kind: Gvk,
    found: AtomicBool,
    json: watch::Sender<bool>,
    shared: Arc<Mutex<Observed>>,
}

impl UnknownFieldsLog {
    pub(crate) fn of(&self, kind: &ResourceKind, metadata_only: bool) -> Arc<UnknownFields> {
        let mut kinds = self.kinds.lock();
        let new = || UnknownFields::new(kind.gvk().clone(), Arc::clone(&self.shared));
        Arc::clone(kinds.entry((kind.gvr(), metadata_only)).or_insert_with(|| Arc::new(new())))
    }

    /// Returns the kinds for which unknown fields were found, in the order of their discovery.
    pub(crate) fn found(&self) -> Vec<Gvk> {
        self.shared.lock().found.clone()
    }

    pub(crate) fn observe(&self, observer: Observer) {
        let found = {
            let mut shared = self.shared.lock();
            if shared.observers.len() < MAX_OBSERVERS {
                shared.observers.push(Arc::clone(&observer));
            }
            shared.found.clone()
        };
        found.iter().for_each(|kind| observer(kind));
    }
}

impl UnknownFields {
    fn new(kind: Gvk, shared: Arc<Mutex<Observed>>) -> Self {
        Self { kind, found: AtomicBool::new(false), json: watch::Sender::new(false), shared }
    }

    pub(crate) fn is_found(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    /// Records that an object of this kind has unknown fields. Only the first call for a kind logs a warning
    /// and notifies the observers, even if both whole objects and metadata are read.
    pub(crate) fn note(&self) {
        if self.is_found() || self.found.swap(true, Ordering::Relaxed) {
            return;
        }
        let observers = {
            let mut shared = self.shared.lock();
            // The kind was already reported, by reads of whole objects or of metadata.
            if shared.found.contains(&self.kind) {
                return;
            }
            shared.found.push(self.kind.clone());
            shared.observers.clone()
        };
        tracing::warn!(
            kind = %self.kind,
            "the server sends fields that this version of informer does not know; updates that replace a list read the object \
             again as JSON; use a newer version of informer"
        );
        observers.iter().for_each(|observer| observer(&self.kind));
    }

    /// Records that a read needs unknown fields of this kind. From then on the client reads the kind as JSON,
    /// and open protobuf watches of the kind end.
    pub(crate) fn require_json(&self) {
        self.note();
        let is_new = self.json.send_if_modified(|json| !std::mem::replace(json, true));
        if is_new {
            tracing::info!(kind = %self.kind, "the kind is listed again as JSON");
        }
    }

    pub(crate) fn requires_json(&self) -> bool {
        *self.json.borrow()
    }

    pub(crate) fn json_required(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut json = self.json.subscribe();
        async move {
            // `wait_for` fails if the sender was dropped. No later read can then require JSON, so wait
            // forever.
            if json.wait_for(|json| *json).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl fmt::Debug for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnknownFields")
            .field("kind", &self.kind)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use parking_lot::MutexGuard;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata};

    use super::*;

    /// A subscriber that records warnings as `name=value ...`.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!("{}={value:?} ", field.name());
        }
    }

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.is_event() && *metadata.level() <= Level::WARN
        }

        fn event(&self, event: &tracing::Event<'_>) {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().push(fields.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// Two kinds have unknown fields, one of them whole and in its metadata. Each is recorded several times.
    fn note_two_kinds() {
        let log = UnknownFieldsLog::default();
        let pods = ResourceKind::new("", "v1", "Pod", "pods");
        let jobs = ResourceKind::new("batch", "v1", "Job", "jobs");
        for _ in 0..3 {
            for (kind, metadata_only) in [(&pods, false), (&pods, true), (&jobs, true)] {
                log.of(kind, metadata_only).note();
                log.of(kind, metadata_only).require_json();
            }
        }
    }

    #[test]
    fn unknown_fields_are_logged_once_for_each_kind() {
        // The thread that first reaches a log statement may decide for all threads that it is not recorded.
        // A second subscriber and later attempts make sure that it is.
        for _ in 0..100 {
            let warnings = Warnings::default();
            let _here = tracing::subscriber::set_default(warnings.clone());
            let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
            note_two_kinds();
            let seen: MutexGuard<'_, Vec<String>> = warnings.0.lock();
            if seen.is_empty() {
                continue;
            }
            let text = "message=the server sends fields that this version of informer does not know; updates \
                        that replace a list read the object again as JSON; use a newer version of informer";
            let line = |kind: &str| format!("{text} kind={kind} ");
            assert_eq!(*seen, [line("Pod.v1"), line("Job.v1.batch")]);
            return;
        }
        panic!("it was not logged");
    }

    /// One thread records a kind with unknown fields while another thread registers an observer. Many rounds
    /// make it likely that both interleave.
    #[test]
    fn observer_added_while_a_kind_is_found_receives_it_once() {
        for round in 0..500 {
            let log = UnknownFieldsLog::default();
            let kind = log.of(&ResourceKind::new("", "v1", "Pod", "pods"), false);
            let (begin, calls) = (Barrier::new(2), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&calls);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begin.wait();
                    kind.note();
                });
                begin.wait();
                log.observe(Arc::new(move |_| {
                    counted.fetch_add(1, Ordering::Relaxed);
                }));
            });
            assert_eq!(calls.load(Ordering::Relaxed), 1, "round {round}");
            assert_eq!(log.found().len(), 1);
        }
    }
}
