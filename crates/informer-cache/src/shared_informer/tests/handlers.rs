//! Tests of handlers that are added, removed, panic, or delay each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{HANGS, Log, SOON, informer, quiet};
use crate::handler::{EventHandler, filtered, handler_funcs, on_event, on_event_async};
use crate::testing::{TestObject, added, deleted, modified, object};
use crate::{BufferPolicy, Event, HandlerOptions};

/// Returns a handler whose calls each wait for one permit of `gate`, so that a test can block the handler.
/// After the wait, the call logs the event.
fn gated(log: &Log, gate: &Arc<Semaphore>) -> impl EventHandler<TestObject> {
    let (log, gate) = (log.clone(), Arc::clone(gate));
    on_event_async(move |event: Event<TestObject>| {
        let (log, gate) = (log.clone(), Arc::clone(&gate));
        async move {
            gate.acquire().await.unwrap().forget();
            log.0.lock().push(event.to_string());
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_informer_is_synced_before_a_slow_handler() {
    let (informer, mut server) = informer();
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let slow = informer.add_handler(gated(&log, &gate)).unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    gate.add_permits(1);
    quiet().await;
    assert!(informer.has_synced() && !slow.has_synced());
    gate.add_permits(1);
    slow.wait_for_sync(SOON).await.unwrap();
    assert_eq!(log.take().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_is_not_synced_before_its_replay_was_handled() {
    let (informer, mut server) = informer();
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    let late = informer.add_handler(gated(&log, &gate)).unwrap();
    quiet().await;
    assert!(!late.has_synced());
    watch.send(added(object("b", "6")));
    gate.add_permits(2);
    late.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "added b @6"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_added_before_the_start_is_not_synced_before_it() {
    let (informer, mut server) = informer();
    let early = informer.add_handler(Log::default().handler()).unwrap();
    quiet().await;
    assert!(!early.has_synced());
    let _run = informer.start();
    assert!(!early.has_synced());
    let _watch = server.expect_sync([], "5").await;
    early.wait_for_sync(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thread_without_a_runtime_can_add_a_handler_to_a_running_informer() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    let log = Log::default();
    let late = std::thread::scope(|scope| {
        scope.spawn(|| informer.add_handler(log.handler())).join().unwrap().unwrap()
    });
    late.wait_for_sync(SOON).await.unwrap();
    assert_eq!(log.take(), ["added a @1 (initial)"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_handler_added_twice_is_two_handlers() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let first = informer.add_handler(log.handler()).unwrap();
    let second = informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    second.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!(log.take().len(), 2);
    first.remove();
    watch.send(added(object("b", "6")));
    quiet().await;
    assert_eq!(log.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_remove_and_wait_waits_for_the_call_in_flight() {
    for waits in [false, true] {
        let (informer, mut server) = informer();
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let slow = informer.add_handler(gated(&log, &gate)).unwrap();
        let _run = informer.start();
        let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
        quiet().await;
        if waits {
            let open = Arc::clone(&gate);
            let removal = slow.remove_and_wait();
            tokio::pin!(removal);
            assert!(tokio::time::timeout(SOON, &mut removal).await.is_err(), "the call is in flight");
            open.add_permits(2);
            removal.await;
        } else {
            slow.remove();
            gate.add_permits(2);
            quiet().await;
        }
        assert_eq!(log.take(), ["added a @1 (initial)"], "the call in flight finishes, and no other begins");
        assert!(informer.state().handlers.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_be_removed_before_the_start_and_after_the_stop() {
    let (informer, mut server) = informer();
    let (first, second) = (Log::default(), Log::default());
    let (one, two) =
        (informer.add_handler(first.handler()).unwrap(), informer.add_handler(second.handler()).unwrap());
    one.remove_and_wait().await;
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    two.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    two.remove_and_wait().await;
    assert_eq!((first.take().len(), second.take().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_remove_itself_and_add_another() {
    let (informer, mut server) = informer();
    let (log, slot) = (Log::default(), Arc::new(parking_lot::Mutex::new(None)));
    let (own, inner, added_by) = (Arc::clone(&slot), log.clone(), informer.clone());
    let handler = on_event(move |_: Event<TestObject>| {
        let registration: Option<crate::HandlerRegistration<TestObject>> = own.lock().take();
        registration.expect("the handler is called once").remove();
        added_by.add_handler(inner.handler()).unwrap();
    });
    *slot.lock() = Some(informer.add_handler(handler).unwrap());
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!((log.take().len(), informer.state().handlers.len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_drop_of_a_removed_handler_can_use_the_informer() {
    struct Asks(crate::SharedInformer<TestObject>);
    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(self.0.state().handlers.is_empty());
        }
    }
    let (informer, _server) = informer();
    let asks = Asks(informer.clone());
    let handler = informer.add_handler(on_event(move |_: Event<TestObject>| drop(asks.0.state()))).unwrap();
    handler.remove();
}

#[tokio::test(start_paused = true)]
async fn a_delete_reaches_every_handler_and_every_stream() {
    let (informer, mut server) = informer();
    let logs: Vec<Log> = (0..3).map(|_| Log::default()).collect();
    for log in &logs {
        informer.add_handler(log.handler()).unwrap();
    }
    let mut stream = informer.events();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    watch.send(deleted(object("a", "6")));
    stream.next().await.unwrap();
    assert!(stream.next().await.unwrap().is_deleted());
    quiet().await;
    assert!(logs.iter().all(|log| log.take() == ["added a @1 (initial)", "deleted a @6"]));
}

#[tokio::test(start_paused = true)]
async fn a_filtered_handler_receives_exactly_the_filtered_set() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(filtered(|o: &TestObject| o.text() == "in", log.handler())).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1").with_text("in"), object("b", "2")], "5").await;
    watch
        .send(modified(object("a", "6").with_text("in")))
        .send(modified(object("a", "7")))
        .send(modified(object("a", "8")))
        .send(modified(object("b", "9").with_text("in")))
        .send(deleted(object("b", "10").with_text("in")))
        .send(deleted(object("a", "11")));
    quiet().await;
    let told = ["added a @1 (initial)", "updated a @1 -> @6", "deleted a @6", "added b @9", "deleted b @10"];
    assert_eq!(log.take(), told);
}

#[tokio::test(start_paused = true)]
async fn callbacks_receive_old_and_new_object_and_whether_it_is_initial() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let (adds, updates, deletes) = (log.clone(), log.clone(), log.clone());
    let handler = handler_funcs::<TestObject>()
        .on_add(move |object, initial| adds.0.lock().push(format!("+{object:?} {initial}")))
        .on_update(move |old, new| updates.0.lock().push(format!("{old:?} to {new:?}")))
        .on_delete(move |last| deletes.0.lock().push(format!("-{last:?}")));
    informer.add_handler(handler).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    watch.send(added(object("b", "6"))).send(modified(object("a", "7"))).send(deleted(object("b", "8")));
    quiet().await;
    assert_eq!(log.take(), ["+a @1 true", "+b @6 false", "a @1 to a @7", "-b @8"]);
}

#[tokio::test(start_paused = true)]
async fn handlers_have_their_configured_name_or_a_number() {
    let (informer, _server) = informer();
    informer.add_handler(Log::default().handler()).unwrap();
    informer.add_handler_with(HandlerOptions::new().name("mine"), Log::default().handler()).unwrap();
    informer.add_handler(Log::default().handler()).unwrap();
    let names: Vec<_> = informer.state().handlers.into_iter().map(|handler| handler.name).collect();
    assert_eq!(names, ["handler-1", "mine", "handler-3"]);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_coalescing_handler_holds_at_most_two_events_per_key_and_loses_no_delete() {
    let (informer, mut server) = informer();
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let options = HandlerOptions::new().buffer(BufferPolicy::Coalesce);
    let stuck = informer.add_handler_with(options, gated(&log, &gate)).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    quiet().await;
    for version in 6..1006_u64 {
        watch.send(modified(object("b", version)));
    }
    watch.send(deleted(object("b", 1006_u64))).send(deleted(object("a", 1007_u64)));
    quiet().await;
    assert!(stuck.state().max_depth <= 4, "{:?}", stuck.state());
    gate.add_permits(10);
    quiet().await;
    // The handler was blocked in its call for `a` while the other changes arrived. `b` was deleted before its
    // add was delivered, so the coalescing buffer dropped both events.
    assert_eq!(log.take(), ["added a @1 (initial)", "deleted a @1007"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_blocks_its_thread_is_counted() {
    let (informer, mut server) = informer();
    let handler = informer
        .add_handler(on_event_async(|_: Event<TestObject>| tokio::time::advance(Duration::from_millis(150))))
        .unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
    assert_eq!(handler.state().blocked, 1);
}

#[tokio::test(start_paused = true)]
async fn durations_of_calls_are_counted_including_calls_that_panic() {
    let (informer, mut server) = informer();
    let handler = informer
        .add_handler(on_event_async(|event: Event<TestObject>| async move {
            tokio::time::advance(Duration::from_millis(2)).await;
            assert!(!event.key().as_str().ends_with('b'), "a handler that fails for b");
        }))
        .unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
    let state = handler.state();
    let buckets: Vec<_> = state.latency.buckets().collect();
    assert_eq!((state.calls, state.panics), (2, 1));
    assert_eq!(buckets, [(Some(Duration::from_millis(3)), 2)]);
    assert_eq!(state.latency.total(), Duration::from_millis(4));
}

/// Runs on two threads, so that handlers are added and removed concurrently with events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adding_and_removing_handlers_in_a_hundred_tasks_does_not_affect_others() {
    let (informer, mut server) = informer();
    let steady = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&steady);
    informer
        .add_handler(on_event(move |_: Event<TestObject>| {
            counts.fetch_add(1, Ordering::Relaxed);
        }))
        .unwrap();
    let run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    let abusers = (0..100).map(|_| {
        let informer = informer.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let handler = informer.add_handler(on_event(|_: Event<TestObject>| {})).unwrap();
                if round % 3 == 0 {
                    handler.wait_for_sync(HANGS).await.unwrap();
                }
                handler.remove();
            }
        })
    });
    let abusers: Vec<_> = abusers.collect();
    for version in 6..2006_u64 {
        watch.send(modified(object("a", version)));
        if version % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for abuser in abusers {
        abuser.await.unwrap();
    }
    let last = |cache: &informer_store::Indexer<TestObject>| cache.resource_version() == "2005";
    informer.wait_until_for(HANGS, last).await.unwrap();
    run.stop().await;
    assert_eq!(informer.state().handlers.len(), 1);
    // The informer may have stopped while events were pending. The handled and the pending events together
    // must be all 2001 events.
    let waiting = informer.state().handlers[0].depth;
    assert_eq!(steady.load(Ordering::Relaxed) + waiting, 2001);
}
