//! Benchmarks of lookups, lists, snapshots and updates of a store with 100,000 objects.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use informer_core::{Header, LabelSelector, Object, ObjectKey};
use informer_store::{Indexer, StoreBuilder, StoreChange, StoreWriter, label, namespace};
use parking_lot::RwLock;

const OBJECTS: usize = 100_000;
const NAMESPACES: usize = 100;
/// The number of changes in each transaction of the benchmarks: about as many as an informer under load
/// applies at once.
const BATCH: usize = 64;

fn pod(number: usize, version: u64) -> Arc<Header> {
    let name = format!("deployment-6d4b75cb6d-{number:08}");
    let key = ObjectKey::new(&format!("namespace-{:03}", number % NAMESPACES), &name)
        .expect("neither part has a slash");
    Header::new(key).with_version(version).with_labels([("app", format!("app-{}", number % 1000))]).into()
}

fn filled(builder: StoreBuilder<Header>) -> StoreWriter<Header> {
    let mut writer = builder.index("namespace", namespace()).writer();
    let items = (0..OBJECTS).map(|number| pod(number, 1));
    writer.replace(items.map(|pod| (pod.key().clone(), pod)).collect(), 1);
    // After an update of every object, the two copies of the store's state (one for readers, one for the
    // writer) share no pages, as in a store that has been used for some time.
    writer.apply((0..OBJECTS).map(|number| StoreChange::upsert(pod(number, 2)))).expect("pods have keys");
    writer
}

fn while_a_writer_runs(writer: &mut StoreWriter<Header>, read: impl FnOnce()) {
    let changes: Vec<StoreChange<Header>> =
        (0..OBJECTS).map(|number| StoreChange::upsert(pod(number, 3))).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for batch in changes.chunks(BATCH).cycle() {
                writer.apply(batch.iter().cloned()).expect("pods have keys");
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        read();
        done.store(true, Ordering::Relaxed);
    });
}

/// Returns 65,536 keys of the store in pseudo-random order, so that a CPU cannot load the next key into its
/// caches ahead of the lookup.
fn scattered(pods: &Indexer<Header>) -> Vec<ObjectKey> {
    let mut keys = pods.keys();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for at in (1..keys.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys.swap(at, state as usize % (at + 1));
    }
    // The number of keys is reduced to 65,536, a power of two. A benchmark that cycles through the keys then
    // computes its position with a bit mask, which affects the measured time less than a division.
    keys.truncate(1 << 16);
    keys
}

/// Returns a closure that passes the next element of `keys` to `look` on each call, and starts again after
/// the last one. The number of keys must be a power of two, because the position is computed with a bit mask.
fn in_turn<'k>(keys: &'k [ObjectKey], mut look: impl FnMut(&'k ObjectKey)) -> impl FnMut() {
    let mut next = 0;
    move || {
        next = (next + 1) & (keys.len() - 1);
        look(&keys[next]);
    }
}

fn lookups(criterion: &mut Criterion) {
    let mut writer = filled(StoreBuilder::new());
    let pods = writer.indexer().clone();
    let keys = scattered(&pods);
    // Lookups in the store are compared with lookups in a plain `HashMap` behind one `RwLock` that contains
    // the same objects and keys.
    let map = RwLock::new(HashMap::<ObjectKey, Arc<Header>, RandomState>::default());
    map.write().extend(pods.snapshot().iter().map(|(key, pod)| (key.clone(), pod.clone())));
    let mut group = criterion.benchmark_group("lookup");
    for (name, keys) in [("65,536 scattered keys", &keys[..]), ("1,024 hot keys", &keys[..1024])] {
        let mut of_store = in_turn(keys, |key| drop(black_box(pods.get(key))));
        let mut of_map = in_turn(keys, |key| drop(black_box(map.read().get(key.as_str()).cloned())));
        group.bench_function(format!("alone, {name}"), |bencher| bencher.iter(&mut of_store));
        group.bench_function(format!("alone, {name}, in a map behind one lock"), |bencher| {
            bencher.iter(&mut of_map);
        });
        while_a_writer_runs(&mut writer, || {
            group.bench_function(format!("next to a busy writer, {name}"), |bencher| {
                bencher.iter(&mut of_store)
            });
        });
    }
    group.finish();
}

fn lists(criterion: &mut Criterion) {
    let writer = filled(StoreBuilder::new().index("app", label("app")));
    let pods = writer.indexer();
    let mut group = criterion.benchmark_group("list");
    group.throughput(Throughput::Elements((OBJECTS / NAMESPACES) as u64));
    group.bench_function("one namespace of 1,000", |bencher| {
        bencher.iter(|| pods.by_index("namespace", "namespace-007"));
    });
    let lister = pods.lister();
    let selector: LabelSelector = "app in (app-7, app-8)".parse().expect("a selector");
    group.throughput(Throughput::Elements(200));
    group.bench_function("200 by a label index", |bencher| bencher.iter(|| lister.list(&selector)));
    group.throughput(Throughput::Elements(OBJECTS as u64));
    group.sample_size(20);
    group.bench_function("all 100,000", |bencher| bencher.iter(|| pods.list()));
    group.finish();
}

fn snapshots(criterion: &mut Criterion) {
    let mut writer = filled(StoreBuilder::new().index("app", label("app")));
    let pods = writer.indexer().clone();
    let mut group = criterion.benchmark_group("snapshot");
    group.bench_function("of 100,000 with two indexes", |bencher| bencher.iter(|| pods.snapshot()));
    while_a_writer_runs(&mut writer, || {
        group.bench_function("next to a busy writer", |bencher| bencher.iter(|| pods.snapshot()));
    });
    group.finish();
}

fn updates(criterion: &mut Criterion) {
    let mut writer = filled(StoreBuilder::new());
    let changes: Vec<StoreChange<Header>> =
        (0..OBJECTS).map(|number| StoreChange::upsert(pod(number, 4))).collect();
    let mut group = criterion.benchmark_group("update with a namespace index");
    for size in [1, BATCH, 1000] {
        let mut batches = changes.chunks(size).cycle();
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(format!("{size} a transaction"), |bencher| {
            let batch = || batches.next().expect("it is a cycle").to_vec();
            bencher.iter_batched(batch, |batch| writer.apply(batch), BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group!(store, lookups, lists, snapshots, updates);
criterion_main!(store);
