//! Measures the cost of passing a change from the queue to the handlers. The measured code is the pump, one
//! store transaction, and the buffers of all handlers.
//!
//! Run with `cargo bench -p informer-cache`. The benchmark runs on one thread, as in the simulator, so no
//! task is spawned or woken. Throughput is in changes, regardless of the number of handlers.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use informer_cache::proto::{ProcessorListener, Pump, SharedProcessor};
use informer_cache::queue::{InOrderQueue, ReflectorStore};
use informer_cache::source::Listed;
use informer_cache::{BufferPolicy, Change, HandlerOptions, Replacement, UndecodableLog};
use informer_core::{Header, Object, ObjectKey};
use informer_store::{StoreBuilder, namespace};
use tokio::time::Instant;

const OBJECTS: usize = 10_000;
const BATCH: usize = InOrderQueue::<Header>::MAX_BATCH;

fn pod(number: usize, version: u64) -> Arc<Header> {
    let name = format!("deployment-6d4b75cb6d-{number:08}");
    let key =
        ObjectKey::new(&format!("namespace-{:02}", number % 80), &name).expect("neither part has a slash");
    Header::new(key).with_uid(format!("uid-{number}")).with_version(version).into()
}

struct Informer {
    queue: InOrderQueue<Header>,
    pump: Pump<Header>,
    processor: SharedProcessor<Header>,
    listeners: Vec<Arc<ProcessorListener<Header>>>,
    /// The resourceVersion of the next change that the benchmark generates. It increases with each change,
    /// because the pump does not apply events that are older than the cached state.
    version: u64,
}

impl Informer {
    fn filled(handlers: usize, policy: BufferPolicy) -> Self {
        let writer = StoreBuilder::new().index("namespace", namespace()).writer();
        let mut informer = Self {
            queue: InOrderQueue::new(),
            pump: Pump::new(writer, UndecodableLog::default()),
            processor: SharedProcessor::new(),
            listeners: Vec::new(),
            version: 2,
        };
        for number in 0..handlers {
            let options = HandlerOptions::new().buffer(policy);
            let listener = Arc::new(ProcessorListener::new(format!("handler-{number}"), &options));
            informer.processor.join(
                Arc::clone(&listener),
                None,
                std::iter::empty(),
                Instant::now().into_std(),
            );
            informer.listeners.push(listener);
        }
        let items = (0..OBJECTS).map(|number| Listed::Fresh(pod(number, 1))).collect();
        informer.carry(vec![Change::Replaced(Replacement::new(items, 1))]);
        informer
    }

    fn changes(&mut self, count: usize) -> Vec<Change<Header>> {
        let first = self.version as usize;
        self.version += count as u64;
        (first..first + count).map(|at| Change::Updated(pod(at % OBJECTS, at as u64))).collect()
    }

    fn carry(&mut self, changes: Vec<Change<Header>>) {
        self.queue.push(changes).expect("the queue is never closed");
        while let Some(batch) = self.queue.try_pop_batch(BATCH).expect("the queue is never closed") {
            let (changes, receipt) = batch.into_changes();
            let applied = self.pump.apply(changes);
            self.processor.distribute(applied.events);
            receipt.done();
        }
        for listener in &self.listeners {
            while let Some(event) = listener.pop() {
                black_box(event.object().key());
                listener.finished();
            }
        }
    }
}

fn fan_out(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("from the queue to the handlers");
    for (handlers, policy, merging) in [
        (1, BufferPolicy::Unbounded, ""),
        (10, BufferPolicy::Unbounded, ""),
        (10, BufferPolicy::Coalesce, " that merge"),
    ] {
        for size in [1, 64, BATCH] {
            let informer = RefCell::new(Informer::filled(handlers, policy));
            group.throughput(Throughput::Elements(size as u64));
            group.bench_function(
                format!("{handlers} handlers{merging}, {size} changes a batch"),
                |bencher| {
                    let changes = || informer.borrow_mut().changes(size);
                    bencher.iter_batched(
                        changes,
                        |batch| informer.borrow_mut().carry(batch),
                        BatchSize::SmallInput,
                    );
                },
            );
        }
    }
    group.finish();
}

fn replays(criterion: &mut Criterion) {
    let informer = Informer::filled(0, BufferPolicy::Unbounded);
    let mut group = criterion.benchmark_group("a late handler");
    group.throughput(Throughput::Elements(OBJECTS as u64));
    group.bench_function("receives 10,000 objects", |bencher| {
        bencher.iter(|| {
            let mut processor = SharedProcessor::new();
            let listener = Arc::new(ProcessorListener::new("late".to_owned(), &HandlerOptions::new()));
            let present = informer.pump.indexer().list().into_iter();
            processor.join(Arc::clone(&listener), None, present, Instant::now().into_std());
            while let Some(event) = listener.pop() {
                black_box(event.object().key());
                listener.finished();
            }
        });
    });
    group.finish();
}

criterion_group!(benches, fan_out, replays);
criterion_main!(benches);
