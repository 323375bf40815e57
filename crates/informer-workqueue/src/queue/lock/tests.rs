use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use super::QueueLock;

#[test]
fn a_caller_that_backs_off_gets_the_lock_after_its_release() {
    let lock = Arc::new(QueueLock::new(0));
    for adds in [false, true] {
        let held = lock.lock();
        let (asks, asked) = mpsc::channel();
        let waiter = thread::spawn({
            let lock = Arc::clone(&lock);
            move || {
                asks.send(()).unwrap();
                *if adds { lock.lock_to_add() } else { lock.lock() } += 1;
            }
        });
        asked.recv().unwrap();
        // Holds the lock for longer than the sum of the pauses of a waiting thread.
        (0..100_000).for_each(|_| std::hint::spin_loop());
        drop(held);
        waiter.join().unwrap();
    }
    assert_eq!(*lock.lock(), 2);
}

#[test]
fn adders_and_workers_exclude_each_other() {
    const ROUNDS: usize = 20_000;
    let lock = Arc::new(QueueLock::new(0_usize));
    let threads: Vec<_> = [false, true, false, true]
        .into_iter()
        .map(|adds| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    *if adds { lock.lock_to_add() } else { lock.lock() } += 1;
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*lock.lock(), 4 * ROUNDS);
}
