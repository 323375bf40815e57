//! Measures the work queue once in each case. Prints one line of JSON: `{"CASE": FIGURE}`.
//!
//! `conformance/go/peers/cmd/workqueue-bench` does the same with the queues of Go; `cargo xtask bench
//! workqueue` runs both programs in turn, repeatedly. Each case is the same in both programs: the same keys
//! in the same order, and the same numbers of producers, workers and threads.
//!
//! Cases on one thread report the processor time of all threads of the process, which excludes other programs
//! and includes Go's garbage collector. Throughput and delays use wall-clock time. Each case is repeated:
//! processor time is the median of its rounds, and throughput is the best of its rounds, because other
//! programs only reduce it.
//!
//! Keys are `Arc<str>`, because copying a string in Go copies only a reference.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use informer_workqueue::{AddOptions, Aging, LOW_PRIORITY, QueueKey, WorkQueue};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Number of rounds of each case that is short enough to be repeated.
const ROUNDS: usize = 5;
/// Number of keys of the cases on one thread.
const KEYS: usize = 100_000;
/// The number of producers and of workers of the contention case.
const SIDES: usize = 4;
const KEYS_A_PRODUCER: usize = 100_000;
/// Number of keys that are added with a delay, to measure the time and the memory of each.
const WAITING: u64 = 1_000_000;
/// The number of keys that are added for a waiting worker. Before each there is a pause, in which the worker
/// goes to sleep.
const HAND_OVERS: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

type Figures = Map<String, Value>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let variant = arguments.next().unwrap_or_default();
    let case = arguments.next();
    let figures = match &*variant {
        "plain" => measure(case.as_deref(), plain, plain),
        "priorities" => measure(case.as_deref(), with_priorities, with_priorities),
        _ => {
            eprintln!("usage: workqueue-bench plain|priorities [delays|single|contention|hand-over]");
            return ExitCode::from(2);
        }
    };
    let Some(figures) = figures else {
        eprintln!("cannot start the threads of the runtime");
        return ExitCode::FAILURE;
    };
    println!("{}", Value::from(figures));
    ExitCode::SUCCESS
}

fn plain<K: QueueKey>() -> WorkQueue<K> {
    WorkQueue::new()
}

fn with_priorities<K: QueueKey>() -> WorkQueue<K> {
    WorkQueue::builder().priorities(Aging::default()).build()
}

/// Runs the case `only`, or all cases if it is `None`. Returns `None` if a runtime cannot be created.
fn measure(
    only: Option<&str>,
    queue: fn() -> WorkQueue<Arc<str>>,
    of_numbers: fn() -> WorkQueue<u64>,
) -> Option<Figures> {
    let wanted = |case| only.is_none_or(|only| only == case);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().ok()?;
    let mut figures = Figures::new();
    // Memory is measured first, because later cases would reuse memory that earlier cases have freed.
    if wanted("delays") {
        delays(&of_numbers(), &mut figures);
    }
    if wanted("single") {
        let rounds = |ends| -> Vec<_> { (0..ROUNDS).map(|_| single(&runtime, queue(), ends)).collect() };
        let (whole, apart) = (rounds(Ends::WithTheNextGet), rounds(Ends::Apart));
        for (case, rounds, at) in [
            ("add of a new key, CPU ns", &whole, 0),
            ("add of a known key, CPU ns", &whole, 1),
            ("get and done, CPU ns", &whole, 2),
            ("get and done, done apart, CPU ns", &apart, 2),
        ] {
            set(&mut figures, case, per(median(rounds.iter().map(|round| round[at])), KEYS));
        }
    }
    if wanted("delays") {
        let rounds = (0..ROUNDS).map(|_| few_delays(&queue()));
        set(&mut figures, "add_after of 100,000 string keys, ns", per(median(rounds), KEYS));
    }
    if wanted("contention") {
        let keys = names(SIDES * KEYS_A_PRODUCER);
        let parts = || keys.chunks(KEYS_A_PRODUCER).map(<[_]>::to_vec).collect();
        for (case, ends) in [
            ("4 producers and 4 workers", Ends::WithTheNextGet),
            ("4 producers and 4 workers, done apart", Ends::Apart),
        ] {
            let round = |_| runtime.block_on(contention(queue(), parts(), ends));
            let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
            let best = rounds.iter().map(|round| round.0).min().unwrap_or_default();
            set(&mut figures, &format!("{case}, ns a key"), per(best, keys.len()));
            let busy = median(rounds.iter().map(|round| round.1));
            set(&mut figures, &format!("{case}, CPU ns a key"), per(busy, keys.len()));
        }
    }
    if wanted("hand-over") {
        let mut delays = runtime.block_on(hand_over(of_numbers()));
        delays.sort_unstable();
        for (case, part) in [("add to a waiting worker, p50 us", 50), ("add to a waiting worker, p99 us", 99)]
        {
            let delay = delays.get(delays.len() * part / 100).copied().unwrap_or_default();
            set(&mut figures, case, nanos(delay) / 1e3);
        }
    }
    Some(figures)
}

fn set(figures: &mut Figures, case: &str, value: f64) {
    figures.insert(case.to_owned(), Value::from(value));
}

/// Returns the time per item in nanoseconds.
fn per(spent: Duration, count: usize) -> f64 {
    nanos(spent) / count as f64
}

fn nanos(spent: Duration) -> f64 {
    spent.as_nanos() as f64
}

fn names(count: usize) -> Vec<Arc<str>> {
    (0..count).map(|n| format!("namespace-{}/web-{n:08}", n % 100).into()).collect()
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Adds every key, adds all keys again, then gets and finishes each key. Returns the processor time of these
/// three steps.
fn single(runtime: &Runtime, queue: WorkQueue<Arc<str>>, ends: Ends) -> [Duration; 3] {
    let keys = names(KEYS);
    let (first, again) = (keys.clone(), keys.clone());
    let start = cpu();
    for (n, key) in first.into_iter().enumerate() {
        let priority = if n % 2 == 0 { 0 } else { LOW_PRIORITY };
        black_box(queue.add_with(key, AddOptions::new().priority(priority)));
    }
    let added = cpu();
    for key in again {
        black_box(queue.add(key));
    }
    let added_again = cpu();
    queue.shut_down();
    runtime.block_on(work(queue, ends));
    [added - start, added_again - added, cpu() - added_again]
}

/// How a worker reports that it has processed a key.
#[derive(Clone, Copy)]
enum Ends {
    /// The worker marks the key as done in the same call that gets the next key, as the workers of this
    /// library do.
    WithTheNextGet,
    /// The worker marks the key as done in a separate call, which is the only way in the queues of the Go
    /// peers.
    Apart,
}

async fn work(queue: WorkQueue<Arc<str>>, ends: Ends) {
    let mut next = queue.get().await;
    while let Some(mut item) = next {
        match ends {
            Ends::WithTheNextGet => loop {
                black_box(item.key());
                if !item.done_then_next().await {
                    return;
                }
            },
            Ends::Apart => {
                black_box(item.key());
                item.done();
                next = queue.get().await;
            }
        }
    }
}

/// Runs the contention case, in which several producers and workers share the queue. Returns wall-clock time
/// and processor time.
async fn contention(
    queue: WorkQueue<Arc<str>>,
    parts: Vec<Vec<Arc<str>>>,
    ends: Ends,
) -> (Duration, Duration) {
    let mut workers = JoinSet::new();
    let mut producers = JoinSet::new();
    let (start, busy) = (Instant::now(), cpu());
    for _ in 0..SIDES {
        workers.spawn(work(queue.clone(), ends));
    }
    for part in parts {
        let queue = queue.clone();
        producers.spawn(async move {
            for key in part {
                black_box(queue.add(key));
                // The task yields regularly, because Go also preempts goroutines.
                tokio::task::coop::consume_budget().await;
            }
        });
    }
    producers.join_all().await;
    queue.shut_down();
    workers.join_all().await;
    (start.elapsed(), cpu() - busy)
}

/// Returns the delay from the add of each key until a waiting worker receives it. Each key is the time at
/// which it was added.
async fn hand_over(queue: WorkQueue<u64>) -> Vec<Duration> {
    let epoch = Instant::now();
    let since = move || u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut delays = Vec::with_capacity(HAND_OVERS);
            while let Some(item) = queue.get().await {
                delays.push(Duration::from_nanos(since() - *item));
                item.done();
            }
            delays
        }
    });
    let producer = tokio::spawn(async move {
        for _ in 0..HAND_OVERS {
            tokio::time::sleep(PAUSE).await;
            queue.add(since());
        }
        queue.shut_down();
    });
    let (delays, _) = tokio::join!(worker, producer);
    delays.unwrap_or_default()
}

/// Returns the wall-clock time of adding 100,000 string keys with a delay. The client-go result with which it
/// is compared is wall-clock time, too.
fn few_delays(queue: &WorkQueue<Arc<str>>) -> Duration {
    let keys = names(KEYS);
    let start = Instant::now();
    for (key, spread) in
        keys.into_iter().zip((0_u64..).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3_600_000))
    {
        queue.add_after(key, Duration::from_secs(3600) + Duration::from_millis(spread));
    }
    start.elapsed()
}

fn delays(queue: &WorkQueue<u64>, figures: &mut Figures) {
    let before = resident();
    let (start, busy) = (Instant::now(), cpu());
    for key in 0..WAITING {
        // The deadlines are spread over an hour, in pseudo-random order.
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3_600_000;
        queue.add_after(key, Duration::from_secs(3600) + Duration::from_millis(spread));
    }
    let (spent, busy) = (start.elapsed(), cpu() - busy);
    set(figures, "add_after of a million keys, ns", nanos(spent) / 1e6);
    set(figures, "add_after of a million keys, CPU ns", nanos(busy) / 1e6);
    if let (Some(before), Some(after)) = (before, resident()) {
        let overhead = (after - before) / 1e6 - 8.0;
        set(figures, "overhead of a waiting key, bytes", overhead);
    }
}

/// Returns the resident bytes of this process, assuming pages of 4 KiB; `None` if the system does not report
/// them.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u32 = text.split(' ').nth(1)?.parse().ok()?;
    Some(f64::from(pages) * 4096.0)
}
