//! The task that sends recorded events to the API server. It retries failed requests, and sends the remaining
//! events when the manager stops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use informer_client::Client;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::state::{EventState, EventWrite, WriteResult};
use super::{EventRecorder, EventSinks, FLUSH_TIMEOUT, MAX_REQUESTS, Recorded, wire};
use crate::random::jitter;
use crate::{BoxError, Runnable, RunnableGroup};

/// The interval between two checks for series of events whose count must be sent to the server.
const SWEEP: Duration = Duration::from_secs(60);

/// The maximum number of attempts to send one event, as in client-go. The delay between two attempts and its
/// jitter are those of client-go, too.
const TRIES: u32 = 12;
const RETRY: Duration = Duration::from_secs(10);
const RETRY_JITTER: f64 = 0.25;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

type Sent = (EventWrite, Option<WriteResult>);

/// Sends the events that were recorded with an [`EventRecorder`]. Every manager runs an `EventSender`. It
/// stops after all other runnables, so that events which they record during the stop are sent.
pub(crate) struct EventSender {
    client: Client,
    instance: Arc<str>,
    events: mpsc::Receiver<Recorded>,
    dropped: Arc<AtomicU64>,
    state: EventState,
    sinks: EventSinks,
}

impl EventSender {
    pub(crate) fn new(client: Client) -> (Self, EventRecorder) {
        let (recorder, events) = EventRecorder::channel();
        let dropped = Arc::clone(&recorder.dropped);
        let instance: Arc<str> = std::env::var("HOSTNAME").unwrap_or_else(|_| "informer".to_owned()).into();
        (
            Self {
                client,
                instance,
                events,
                dropped,
                state: EventState::default(),
                sinks: EventSinks::default(),
            },
            recorder,
        )
    }

    /// Returns the list of sinks, to which sinks can be added while the sender runs.
    pub(crate) fn sinks(&self) -> EventSinks {
        self.sinks.clone()
    }

    async fn send_all(mut self, stop: CancellationToken) {
        let (mut waiting, mut on_their_way) = (VecDeque::new(), FuturesUnordered::new());
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            while on_their_way.len() < MAX_REQUESTS
                && let Some(write) = waiting.pop_front()
            {
                on_their_way.push(self.send(write, TRIES));
            }
            let free = on_their_way.len() < MAX_REQUESTS;
            // Completed requests are handled first, because they make room for requests of new events. If a
            // periodic check finds many series whose counts are due, their requests are queued. New events
            // are accepted only when all queued requests are in flight.
            let writes = tokio::select! {
                biased;
                Some(sent) = on_their_way.next() => self.sent(sent).into_iter().collect(),
                () = stop.cancelled() => break,
                Some(event) = self.events.recv(), if free => self.record(event).into_iter().collect(),
                _ = sweep.tick(), if free => self.state.tick(now()),
            };
            waiting.extend(writes);
        }
        drop(on_their_way);
        if tokio::time::timeout(FLUSH_TIMEOUT, self.flush()).await.is_err() {
            tracing::warn!("events were not sent before the program stopped");
        }
    }

    /// Sends all events that were recorded before the manager stopped. Requests that were in flight are sent
    /// again, because it is unknown whether the server has received them.
    async fn flush(mut self) {
        self.events.close();
        let mut writes = self.state.interrupted(now());
        while let Ok(event) = self.events.try_recv() {
            writes.extend(self.record(event));
        }
        let mut rounds = 2;
        while !writes.is_empty() && rounds > 0 {
            let sent = futures_util::stream::iter(
                writes.drain(..).map(|write| self.send(write, 1)).collect::<Vec<_>>(),
            );
            let sent: Vec<Sent> = sent.buffer_unordered(MAX_REQUESTS).collect().await;
            writes.extend(sent.into_iter().filter_map(|sent| self.sent(sent)));
            writes.extend(self.state.flush(now()));
            rounds -= 1;
        }
    }

    fn record(&mut self, event: Recorded) -> Option<EventWrite> {
        self.sinks.send(&event);
        self.state.record(event, now(), Timestamp::now()).unwrap_or_else(|()| {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            None
        })
    }

    fn sent(&mut self, (write, outcome): Sent) -> Option<EventWrite> {
        let next = self.state.written(&write, outcome.unwrap_or(WriteResult::Refused), now());
        let lost = match outcome {
            Some(WriteResult::Done | WriteResult::NotFound) => false,
            Some(WriteResult::NameTaken) => next.is_none(),
            Some(WriteResult::Refused) | None => true,
        };
        self.dropped.fetch_add(u64::from(lost), Ordering::Relaxed);
        next
    }

    fn send(&self, write: EventWrite, tries: u32) -> BoxFuture<'static, Sent> {
        let (client, instance) = (self.client.clone(), Arc::clone(&self.instance));
        async move {
            let mut repeats = write.repeats;
            for attempt in 1..=tries {
                let sent =
                    tokio::time::timeout(REQUEST_TIMEOUT, wire::send(&client, &write, &instance)).await;
                match sent {
                    // The server reports that an event with this name exists. An earlier attempt has created
                    // that event, but its response was lost, so the write has succeeded.
                    Ok(Ok(WriteResult::NameTaken)) if repeats => return (write, Some(WriteResult::Done)),
                    Ok(Ok(outcome)) => return (write, Some(outcome)),
                    Ok(Err(problem)) => {
                        tracing::debug!(event = write.name, problem, "failed to send an event")
                    }
                    Err(_) => tracing::debug!(event = write.name, "timed out sending an event"),
                }
                repeats = true;
                if attempt < tries {
                    // The delay before the second attempt is random. Otherwise a restarted server would
                    // receive the events of all clients at the same time.
                    let factor = if attempt == 1 { jitter() } else { 1.0 + RETRY_JITTER * jitter() };
                    tokio::time::sleep(RETRY.mul_f64(factor)).await;
                }
            }
            (write, None)
        }
        .boxed()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Runnable for EventSender {
    fn name(&self) -> String {
        "events".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::HttpServers
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        self.send_all(stop).map(Ok).boxed()
    }
}
