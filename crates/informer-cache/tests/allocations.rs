//! Counts allocations from the queue to the handlers. Unlike benchmarks, these regression tests do not depend
//! on a clock. Each test runs on its own thread, which performs all counted work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use allocation_counter::measure;
use informer_cache::proto::{ProcessorListener, Pump, SharedProcessor};
use informer_cache::queue::{InOrderQueue, ReflectorStore};
use informer_cache::source::Listed;
use informer_cache::testing::{TestObject, object};
use informer_cache::{Change, HandlerOptions, Replacement, UndecodableLog};
use informer_core::Object;
use informer_store::{StoreBuilder, namespace};
use tokio::time::Instant;

const OBJECTS: usize = 1_000;

fn pod(number: usize, version: u64) -> Arc<TestObject> {
    object(&format!("team-{}/pod-{number}", number % 10), version).into()
}

struct Informer {
    queue: InOrderQueue<TestObject>,
    pump: Pump<TestObject>,
    processor: SharedProcessor<TestObject>,
    listeners: Vec<Arc<ProcessorListener<TestObject>>>,
}

impl Informer {
    fn new(handlers: usize) -> Self {
        let writer = StoreBuilder::new().index("namespace", namespace()).writer();
        let (mut processor, mut listeners) = (SharedProcessor::new(), Vec::new());
        for number in 0..handlers {
            let name = format!("handler-{number}");
            let listener = Arc::new(ProcessorListener::new(name, &HandlerOptions::new()));
            processor.join(Arc::clone(&listener), None, std::iter::empty(), Instant::now().into_std());
            listeners.push(listener);
        }
        let pump = Pump::new(writer, UndecodableLog::default());
        Self { queue: InOrderQueue::new(), pump, processor, listeners }
    }

    /// Passes changes through the queue and the pump to all handlers, and returns the number of events that
    /// the handlers received.
    fn carry(&mut self, changes: Vec<Change<TestObject>>) -> usize {
        self.queue.push(changes).unwrap();
        while let Some(batch) = self.queue.try_pop_batch(OBJECTS).unwrap() {
            let (changes, receipt) = batch.into_changes();
            let applied = self.pump.apply(changes);
            self.processor.distribute(applied.events);
            receipt.done();
        }
        let mut told = 0;
        for listener in &self.listeners {
            while let Some(event) = listener.pop() {
                told += usize::from(event.key().as_str().starts_with("team-"));
                listener.finished();
            }
        }
        told
    }

    fn list(&mut self, version: u64) -> Change<TestObject> {
        let items = (0..OBJECTS).map(|number| match self.pump.indexer().get(pod(number, 1).key()) {
            Some(held) => Listed::Known(held),
            None => Listed::Fresh(pod(number, 1)),
        });
        Change::Replaced(Replacement::new(items.collect(), version))
    }
}

#[test]
fn an_event_allocates_only_its_share_of_the_batch_for_any_number_of_handlers() {
    for handlers in [1, 10] {
        let mut informer = Informer::new(handlers);
        let list = informer.list(1);
        informer.carry(vec![list]);
        for version in [2, 3] {
            // In the first round (version 2), each of the store's two copies of its state, one for readers
            // and one for the writer, allocates its own pages. The limit applies only to the second round.
            let changes = (0..OBJECTS).map(|number| Change::Updated(pod(number, version))).collect();
            let mut told = 0;
            let carried = measure(|| told = informer.carry(changes)).count_total;
            assert_eq!(told, OBJECTS * handlers);
            println!("{handlers} handlers: {carried} allocations for {OBJECTS} changes");
            assert!(version == 2 || carried < 100, "{handlers} handlers: {carried} allocations");
        }
    }
}

#[test]
fn a_single_event_costs_few_allocations_and_further_handlers_cost_none() {
    let single = |handlers| {
        let mut informer = Informer::new(handlers);
        let list = informer.list(1);
        informer.carry(vec![list]);
        for version in 2..5 {
            informer.carry(vec![Change::Updated(pod(7, version))]);
        }
        let change = vec![Change::Updated(pod(7, 9))];
        measure(|| assert_eq!(informer.carry(change), handlers)).count_total
    };
    let (one, ten) = (single(1), single(10));
    println!("{one} allocations of an event with one handler, {ten} with ten");
    assert!(one <= 24, "{one}");
    assert_eq!(one, ten);
}

#[test]
fn a_list_without_changes_announces_and_stages_nothing() {
    let mut informer = Informer::new(1);
    let list = informer.list(1);
    assert_eq!(informer.carry(vec![list]), OBJECTS);
    let list = informer.list(2);
    let carried = measure(|| assert_eq!(informer.carry(vec![list]), 0));
    println!("{} allocations and {} bytes for {OBJECTS} objects", carried.count_total, carried.bytes_total);
    // A list of unchanged objects allocates only the set of its keys. It copies no object and stages no
    // change.
    assert!(carried.count_total < 40, "{} allocations", carried.count_total);
    assert!(carried.bytes_total < OBJECTS as u64 * 64, "{} bytes", carried.bytes_total);
}
