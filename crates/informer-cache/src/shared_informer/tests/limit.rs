//! Tests of the limit of handlers and streams of an informer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::{Log, informer};
use crate::{HandlerOptions, MAX_HANDLERS};

#[tokio::test(start_paused = true)]
async fn streams_count_as_handlers_and_both_are_rejected_beyond_the_limit() {
    let (informer, _server) = informer();
    let fill = || informer.events_with(HandlerOptions::new()).unwrap();
    let mut streams: Vec<_> = (1..MAX_HANDLERS).map(|_| fill()).collect();
    let last = informer.add_handler(Log::default().handler()).unwrap();
    let error = informer.events_with(HandlerOptions::new()).unwrap_err();
    let text =
        "informer things: it has 10000 handlers and streams; remove some, or serve several needs with one";
    assert_eq!(error.to_string(), text);
    assert_eq!(informer.add_handler(Log::default().handler()).unwrap_err(), error);
    let panic = catch_unwind(AssertUnwindSafe(|| informer.events())).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), text);
    assert_eq!(informer.state().handlers.len(), MAX_HANDLERS);
    streams.pop();
    streams.push(fill());
    last.remove();
    informer.add_handler(Log::default().handler()).unwrap();
    assert_eq!(informer.state().handlers.len(), MAX_HANDLERS);
}

#[test]
fn of_concurrent_additions_at_the_limit_exactly_one_succeeds() {
    const RIVALS: u64 = 8;
    let (informer, _server) = informer();
    let add = || informer.add_handler(Log::default().handler());
    (1..MAX_HANDLERS).for_each(|_| drop(add().unwrap()));
    let numbers = &informer.shared.next_handler;
    let all_came = numbers.load(Ordering::Relaxed) + RIVALS;
    let added: Vec<bool> = std::thread::scope(|scope| {
        // This thread holds the lifecycle lock until all other threads have begun to add a handler, so that
        // they compete for the lock.
        let door = informer.shared.lifecycle.lock();
        let rivals: Vec<_> = (0..RIVALS).map(|_| scope.spawn(|| add().is_ok())).collect();
        while numbers.load(Ordering::Relaxed) < all_came {
            std::thread::yield_now();
        }
        drop(door);
        rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
    });
    assert_eq!(added.iter().filter(|added| **added).count(), 1);
    assert_eq!(informer.state().handlers.len(), MAX_HANDLERS);
}
