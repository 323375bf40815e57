//! Benchmarks of single queue operations, with 100,000 string keys unless stated otherwise. `cargo xtask
//! bench workqueue` compares the queue with client-go and controller-runtime; this benchmark measures one
//! case at a time.
//!
//! Go copies strings by reference, so keys are `Arc<str>`; `get_done_string` measures owned strings.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use informer_workqueue::{AddOptions, Aging, QueueKey, WorkQueue};

const KEYS: usize = 100_000;

fn keys<K: for<'s> From<&'s str>>(count: usize) -> Vec<K> {
    (0..count).map(|n| K::from(&format!("namespace-{}/web-{n:08}", n % 100))).collect()
}

fn plain<K: QueueKey>() -> WorkQueue<K> {
    WorkQueue::new()
}

fn with_priorities<K: QueueKey>() -> WorkQueue<K> {
    WorkQueue::builder().priorities(Aging::default()).build()
}

fn fair() -> WorkQueue<Arc<str>> {
    WorkQueue::builder()
        .priorities(Aging::default())
        .fair_by(|key: &Arc<str>| key.split('/').next().unwrap_or_default().into())
        .build()
}

fn full<K: QueueKey>(queue: WorkQueue<K>, keys: &[K]) -> WorkQueue<K> {
    for (n, key) in keys.iter().enumerate() {
        let priority = if n % 2 == 0 { 0 } else { -100 };
        queue.add_with(key.clone(), AddOptions::new().priority(priority));
    }
    queue
}

fn add_all<K: QueueKey>(queue: &WorkQueue<K>, keys: Vec<K>) {
    for key in keys {
        black_box(queue.add(key));
    }
}

fn get_done<K: QueueKey>(queue: &WorkQueue<K>) {
    while let Some(item) = queue.try_get() {
        black_box(item.key());
        item.done();
    }
}

fn single(c: &mut Criterion) {
    let mut group = c.benchmark_group("single");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    let shared: Vec<Arc<str>> = keys(KEYS);
    let owned: Vec<String> = keys(KEYS);
    for (name, make) in [
        ("fifo", plain as fn() -> WorkQueue<Arc<str>>),
        ("priorities", with_priorities),
        ("priorities_fair", fair),
    ] {
        group.bench_function(format!("add_new/{name}"), |b| {
            let setup = || (make(), shared.clone());
            b.iter_batched(
                setup,
                |(q, keys)| {
                    add_all(&q, keys);
                    q
                },
                BatchSize::PerIteration,
            );
        });
        group.bench_function(format!("add_known/{name}"), |b| {
            let queue = full(make(), &shared);
            b.iter_batched(|| shared.clone(), |keys| add_all(&queue, keys), BatchSize::PerIteration);
        });
        group.bench_function(format!("get_done/{name}"), |b| {
            let setup = || full(make(), &shared);
            b.iter_batched(
                setup,
                |q| {
                    get_done(&q);
                    q
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.bench_function("get_done_string/priorities", |b| {
        let setup = || full(with_priorities(), &owned);
        b.iter_batched(
            setup,
            |q| {
                get_done(&q);
                q
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Measures 4 producers of 25,000 keys each and 4 workers on one queue. The tokio runtime has one thread per
/// core, like Go's runtime.
fn contention(c: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("threads can be started");
    let keys: Vec<Arc<str>> = keys(KEYS);
    let mut group = c.benchmark_group("contention");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    group.bench_function("4x4", |b| {
        b.iter_batched(
            || keys.chunks(KEYS / 4).map(<[_]>::to_vec).collect::<Vec<_>>(),
            |parts| runtime.block_on(four_by_four(parts)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

async fn four_by_four(parts: Vec<Vec<Arc<str>>>) {
    let queue = with_priorities::<Arc<str>>();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        tasks.spawn(async move {
            while let Some(item) = queue.get().await {
                item.done();
            }
        });
    }
    let mut producers = tokio::task::JoinSet::new();
    for part in parts {
        let queue = queue.clone();
        producers.spawn(async move {
            for key in part {
                black_box(queue.add(key));
                // Yields to other tasks, since Go's scheduler preempts goroutines too.
                tokio::task::coop::consume_budget().await;
            }
        });
    }
    producers.join_all().await;
    queue.shut_down();
    tasks.join_all().await;
}

/// Measures a round trip: a key goes through one queue to a worker on another thread, and back through a
/// second queue. Half of the time is the cost of one hand-over between threads.
fn hand_over(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("threads can be started");
    c.bench_function("hand_over/there_and_back", |b| {
        let (there, back) = (plain::<u64>(), plain::<u64>());
        let echo = runtime.spawn({
            let (there, back) = (there.clone(), back.clone());
            async move {
                while let Some(item) = there.get().await {
                    back.add(*item);
                    item.done();
                }
            }
        });
        b.iter_custom(|rounds| {
            let (there, back) = (there.clone(), back.clone());
            let run = runtime.spawn(async move {
                let start = tokio::time::Instant::now();
                for round in 0..rounds {
                    there.add(round);
                    if let Some(item) = back.get().await {
                        item.done();
                    }
                }
                start.elapsed()
            });
            runtime.block_on(run).expect("the task does not panic")
        });
        there.shut_down();
        runtime.block_on(echo).expect("the task does not panic");
    });
}

fn delays(c: &mut Criterion) {
    const MILLION: usize = 1_000_000;
    let mut group = c.benchmark_group("delays");
    group.throughput(Throughput::Elements(MILLION as u64)).sample_size(10);
    let keys: Vec<u64> = (0..MILLION as u64).collect();
    let add = |queue: &WorkQueue<u64>| {
        for &key in &keys {
            // The deadlines are spread over one hour, in no order.
            let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3_600_000;
            queue.add_after(key, Duration::from_secs(3600) + Duration::from_millis(spread));
        }
    };
    group.bench_function("add_after_1M", |b| {
        b.iter_batched(
            plain::<u64>,
            |q| {
                add(&q);
                q
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Measures the memory of a million waiting keys, excluding the keys themselves. Runs before the other
/// benchmarks, which would leave freed memory in the allocator.
fn memory(_: &mut Criterion) {
    const MILLION: usize = 1_000_000;
    let before = resident();
    let queue = plain::<u64>();
    for key in 0..MILLION as u64 {
        queue.add_after(key, Duration::from_secs(3600) + Duration::from_micros(key));
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        let overhead = (after - before) / MILLION - size_of::<u64>();
        println!("delays/memory_1M: {overhead} bytes of overhead a key");
    }
    drop(queue);
}

/// Returns the resident memory of this process in bytes. Linux reports it in pages, assumed to be 4 KiB.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

criterion_group!(benches, memory, single, contention, hand_over, delays);
criterion_main!(benches);
