//! The handlers of the demo. Each handler records the objects that it was notified of, counts illegal
//! sequences of events, and measures latency.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use informer::cache::{Event, EventHandler, on_event, on_event_async};
use informer::client::Lazy;
use informer::{Object, ObjectKey, ResourceVersion};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::server::now_nanos;

pub(crate) type PodEvent = Event<Lazy<Pod>>;

/// The maximum latency of an event that a handler records, in microseconds. A longer latency is recorded as
/// this minute.
const MAX_LATENCY_US: u64 = 60_000_000;

/// The objects that one handler of the demo received in events, and its measurements of these events. Clones
/// share the same state.
#[derive(Debug, Clone)]
pub(crate) struct View(Arc<Mutex<ObservedEvents>>);

#[derive(Debug)]
pub(crate) struct ObservedEvents {
    /// The key and the resourceVersion of each object that exists according to the events of this handler.
    /// The demo finally compares them with the objects on the server.
    pub(crate) objects: HashMap<ObjectKey, ResourceVersion>,
    pub(crate) events: u64,
    pub(crate) illegal: u64,
    /// The latencies of events, in microseconds: from the write of the demo server to the call of the
    /// handler.
    pub(crate) latency_us: Histogram<u64>,
}

impl View {
    pub(crate) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, MAX_LATENCY_US, 3).expect("the bounds are valid");
        Self(Arc::new(Mutex::new(ObservedEvents {
            objects: HashMap::new(),
            events: 0,
            illegal: 0,
            latency_us,
        })))
    }

    pub(crate) fn fast(&self) -> impl EventHandler<Lazy<Pod>> {
        let view = self.clone();
        on_event(move |event: PodEvent| view.take(&event))
    }

    /// Returns a slow handler: it waits a millisecond after every fourth event, except for initial adds. The
    /// demo shows with it how the buffer of a slow handler grows and coalesces updates.
    pub(crate) fn slow(&self) -> impl EventHandler<Lazy<Pod>> {
        let view = self.clone();
        on_event_async(move |event: PodEvent| {
            view.take(&event);
            let wait = view.0.lock().events.is_multiple_of(4)
                && !matches!(event, Event::Added { initial: true, .. });
            async move {
                if wait {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&ObservedEvents) -> T) -> T {
        look(&self.0.lock())
    }

    fn take(&self, event: &PodEvent) {
        let latency = match event {
            Event::Added { initial: true, .. } | Event::Deleted { .. } => None,
            _ => latency_us(event),
        };
        self.0.lock().take(event, latency);
    }
}

fn latency_us(event: &PodEvent) -> Option<u64> {
    let written: u64 = event.object().annotation(super::STAMP)?.parse().ok()?;
    Some(now_nanos().saturating_sub(written) / 1000)
}

impl ObservedEvents {
    fn take(&mut self, event: &PodEvent, latency_us: Option<u64>) {
        self.events += 1;
        if let Some(latency) = latency_us {
            self.latency_us.saturating_record(latency.max(1));
        }
        let object = event.object();
        let (key, version) = (object.key().clone(), object.resource_version().clone());
        let legal = match event {
            Event::Added { .. } => self.objects.insert(key, version).is_none(),
            Event::Updated { old, .. } => {
                self.objects.insert(key, version).is_some_and(|before| before == *old.resource_version())
            }
            Event::Deleted { .. } => self.objects.remove(&key).is_some(),
        };
        self.illegal += u64::from(!legal);
    }
}
