use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use informer_workqueue::{
    AddOptions, Aging, Cause, RetryDecision, WorkOutcome, WorkQueue, Workers, default_item_rate_limiter,
    run_workers,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue<K: informer_workqueue::QueueKey>() -> WorkQueue<K> {
    WorkQueue::builder().priorities(Aging::Off).rate_limiter(default_item_rate_limiter()).build()
}

fn no_number() -> std::num::ParseIntError {
    "x".parse::<u8>().expect_err("x is not a number")
}

#[tokio::test(start_paused = true)]
async fn workers_run_concurrently_and_end_with_the_queue() {
    let queue = queue();
    queue.add_all(0..20);
    queue.shut_down();
    let start = Instant::now();
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let report = run_workers(queue, 5, {
        let most = Arc::clone(&most);
        move |_| {
            let most = Arc::clone(&most);
            async move {
                most.1.fetch_max(most.0.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(SECOND).await;
                most.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })
    .await;
    assert_eq!((report.done, most.1.load(Ordering::Relaxed)), (20, 5));
    assert_eq!(start.elapsed(), SECOND * 4);
    assert!(report.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_pool_has_one_worker_by_default() {
    let queue = queue();
    queue.add_all(0..4);
    queue.shut_down();
    let start = Instant::now();
    let report = Workers::new(queue).run(|_| sleep(SECOND)).await;
    assert_eq!((report.done, start.elapsed()), (4, SECOND * 4));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_retried_with_backoff_and_a_success_resets_it() {
    let queue = queue();
    queue.add("foo");
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let work = {
        let (attempts, queue) = (Arc::clone(&attempts), queue.clone());
        move |_| {
            let (attempts, queue) = (Arc::clone(&attempts), queue.clone());
            async move {
                attempts.lock().push(start.elapsed().as_millis());
                if attempts.lock().len() < 4 {
                    return Err(no_number());
                }
                queue.shut_down();
                Ok(())
            }
        }
    };
    let report = Workers::new(queue.clone()).run(work).await;
    assert_eq!(*attempts.lock(), [0, 1, 3, 7]);
    assert_eq!((report.retried, report.done, queue.retries(&"foo")), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_too_often_is_given_up_and_forgotten() {
    let queue = queue();
    queue.add("foo");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let report = Workers::new(queue.clone())
        .max_retries(2)
        .on_failure({
            let (heard, queue) = (Arc::clone(&heard), queue.clone());
            move |key, failure| {
                heard.lock().push((*key, failure.retries, failure.decision, failure.to_string()));
                if failure.decision == RetryDecision::GivenUp {
                    queue.shut_down();
                }
            }
        })
        .run(|_| async { Err::<(), _>(no_number()) })
        .await;
    let heard = heard.lock();
    assert_eq!(
        heard.iter().map(|h| (h.1, h.2)).collect::<Vec<_>>(),
        [(0, RetryDecision::Retried), (1, RetryDecision::Retried), (2, RetryDecision::GivenUp)]
    );
    assert_eq!(heard[2].3, "invalid digit found in string (attempt 3, given up)");
    assert_eq!((report.retried, report.given_up, queue.retries(&"foo")), (2, 1, 0));
    assert!(!report.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_not_retried() {
    let queue = queue();
    queue.add("foo");
    queue.shut_down();
    let report = run_workers(queue, 1, |_| async { WorkOutcome::Fail(no_number().into()) }).await;
    assert_eq!((report.given_up, report.retried), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_counted_and_retried() {
    let queue = queue();
    queue.add_all(["foo", "bar"]);
    let (panics, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let message = Arc::new(Mutex::new(String::new()));
    let report = Workers::new(queue.clone())
        .on_failure({
            let message = Arc::clone(&message);
            move |_, failure| {
                if let Cause::Panic(text) = failure.cause {
                    text.clone_into(&mut message.lock());
                }
            }
        })
        .run(move |key| {
            // The closure panics in its first three calls for `foo`, before it returns a future.
            assert!(key != "foo" || panics.fetch_add(1, Ordering::Relaxed) >= 3, "no luck with {key}");
            let (done, queue) = (Arc::clone(&done), queue.clone());
            async move {
                if done.fetch_add(1, Ordering::Relaxed) == 1 {
                    queue.shut_down();
                }
            }
        })
        .await;
    assert_eq!((report.panicked, report.retried, report.done), (3, 3, 2));
    assert_eq!(*message.lock(), "no luck with foo");
}

#[tokio::test(start_paused = true)]
async fn requeue_is_rate_limited_and_requeue_after_forgets_and_both_keep_the_priority() {
    let queue = queue();
    queue.add_with("foo", AddOptions::new().priority(5));
    let outcomes = Arc::new(Mutex::new(vec![
        WorkOutcome::Done,
        WorkOutcome::RequeueAfter(SECOND),
        WorkOutcome::Requeue,
        WorkOutcome::Requeue,
    ]));
    let (start, times) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let work = {
        let (queue, times) = (queue.clone(), Arc::clone(&times));
        move |_| {
            let outcome = outcomes.lock().pop().unwrap();
            times.lock().push((start.elapsed().as_millis(), queue.retries(&"foo")));
            if matches!(outcome, WorkOutcome::Done) {
                queue.shut_down();
            }
            async move { outcome }
        }
    };
    let report = Workers::new(queue).max_retries(0).run(work).await;
    assert_eq!(*times.lock(), [(0, 0), (1, 1), (3, 2), (1003, 0)]);
    assert_eq!((report.requeued, report.done, report.given_up), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn workers_stop_at_a_signal_after_processing_ready_keys() {
    let queue = queue();
    queue.add_all(0..10);
    let start = Instant::now();
    let report = Workers::new(queue.clone()).count(2).run_until(sleep(MS * 1500), |_| sleep(SECOND)).await;
    assert_eq!((report.done, start.elapsed()), (10, SECOND * 5));
    assert!(queue.is_shutting_down());
    assert!(report.is_clean());
}

#[tokio::test(start_paused = true)]
async fn workers_that_do_not_finish_are_cancelled_at_the_deadline_and_reported() {
    let queue = queue();
    queue.add_all(0..5);
    let start = Instant::now();
    let report = Workers::new(queue.clone())
        .count(2)
        .drain_within(SECOND * 3)
        .run_until(sleep(SECOND), |key| async move {
            if key > 0 {
                std::future::pending::<()>().await;
            }
        })
        .await;
    assert_eq!(start.elapsed(), SECOND * 4);
    assert_eq!((report.done, report.abandoned, report.left), (1, 2, 2));
    assert!(!report.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_shutdown_is_reported_as_lost() {
    let queue = queue();
    queue.add("foo");
    queue.shut_down();
    let report = run_workers(queue, 1, |_| async { Err::<(), _>(no_number()) }).await;
    assert_eq!((report.lost, report.retried, report.left), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn keys_of_workers_whose_run_is_dropped_are_requeued() {
    let queue = queue();
    queue.add("foo");
    let run = Workers::new(queue.clone()).run(|_| std::future::pending::<()>());
    assert!(tokio::time::timeout(SECOND, run).await.is_err());
    let item = queue.get().await.unwrap();
    assert_eq!((*item, item.retries()), ("foo", 1));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn every_key_is_processed_exactly_once() {
    for pieces in [1000, 999] {
        let seen: Arc<Vec<AtomicU32>> = Arc::new((0..pieces).map(|_| AtomicU32::new(0)).collect());
        let queue = queue();
        queue.add_all(0..pieces);
        let work = {
            let seen = Arc::clone(&seen);
            move |piece: usize| {
                seen[piece].fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now()
            }
        };
        let report = Workers::new(queue.clone()).count(10).run_until(queue.idle(), work).await;
        assert_eq!(report.done, pieces as u64);
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
