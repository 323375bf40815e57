use std::sync::Arc;
use std::time::Duration;

use informer_core::Object;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{ControllerConfig, InformerController, MIN_RETRY_DELAY, ProcessError, SimpleInformerOptions};
use super::{new_indexer_informer, new_informer, new_informer_with};
use crate::handler::{EventHandler, on_event, on_event_async};
use crate::queue::{Batch, Delta, DeltaFifo, DeltaFifoConfig, Deltas, InOrderQueue, Popped, ReflectorStore};
use crate::source::{SourceError, SourceErrorKind};
use crate::testing::{
    ScriptedServer, ScriptedSource, TestObject, WatchPeer, added, deleted, modified, object,
};
use crate::{Change, Event};

const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, text: impl ToString) {
        self.0.lock().push(text.to_string());
    }

    fn handler(&self) -> impl EventHandler<TestObject> {
        let log = self.clone();
        on_event(move |event: Event<TestObject>| log.say(event))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

type Ours<P> = InformerController<TestObject, InOrderQueue<TestObject>, P>;

fn change(key: &str, version: &str) -> Change<TestObject> {
    Change::Added(Arc::new(object(key, version)))
}

struct World<P> {
    controller: Arc<Ours<P>>,
    server: ScriptedServer<TestObject>,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

fn world<P>(retry: bool, process: P) -> World<P>
where
    P: FnMut(&Batch<TestObject>) -> Result<(), ProcessError> + Send + 'static,
{
    let (source, server) = ScriptedSource::new();
    let config = ControllerConfig::new(source, InOrderQueue::new()).retry_on_error(retry);
    let (controller, stop) = (Arc::new(InformerController::new(config, process)), CancellationToken::new());
    let running = (Arc::clone(&controller), stop.clone());
    let run = tokio::spawn(async move { running.0.run(running.1).await });
    World { controller, server, stop, run }
}

#[tokio::test(start_paused = true)]
async fn changes_are_processed_in_order_and_has_synced_follows_the_first_list() {
    let log = Log::default();
    let seen = log.clone();
    let mut world = world(false, move |batch: &Batch<TestObject>| {
        batch.iter().for_each(|change| seen.say(format!("{change:?}")));
        Ok(())
    });
    assert!(!world.controller.has_synced());
    let watch = world.server.expect_sync([object("a", "1")], "5").await;
    world.controller.synced().await.unwrap();
    watch.send(modified(object("a", "6"))).send(deleted(object("a", "7")));
    quiet().await;
    let told = log.take();
    assert!(told[0].starts_with("Replaced("), "{told:?}");
    assert_eq!(told[1], "Updated(a @6)");
    assert!(told[2].starts_with("Deleted("), "{told:?}");
    assert_eq!(world.controller.last_sync_resource_version(), "7");
    world.stop.cancel();
    world.run.await.unwrap();
    assert!(watch.is_dropped() && world.controller.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_failed_item_is_counted_and_the_next_one_follows() {
    let mut calls = 0;
    let mut world = world(false, move |_: &Batch<TestObject>| {
        calls += 1;
        if calls == 1 { Err("on purpose".into()) } else { Ok(()) }
    });
    let watch = world.server.expect_sync([object("a", "1")], "5").await;
    watch.send(modified(object("a", "6")));
    quiet().await;
    let counts = world.controller.counts();
    assert_eq!((counts.failed, counts.processed, counts.panicked), (1, 1, 0));
    assert!(world.controller.has_synced(), "a failed item counts as processed");
}

#[tokio::test(start_paused = true)]
async fn retry_on_error_processes_the_same_item_again_before_later_ones() {
    let log = Log::default();
    let (seen, mut failures) = (log.clone(), 3);
    let mut world = world(true, move |batch: &Batch<TestObject>| {
        batch.iter().for_each(|change| seen.say(format!("{change:?}")));
        failures -= 1;
        if failures >= 0 { Err("not yet".into()) } else { Ok(()) }
    });
    let begin = tokio::time::Instant::now();
    let watch = world.server.expect_sync([object("a", "1")], "5").await;
    watch.send(added(object("b", "6")));
    world.controller.synced().await.unwrap();
    assert_eq!(begin.elapsed(), MIN_RETRY_DELAY * (1 + 2 + 4), "the pause doubles");
    quiet().await;
    let told = log.take();
    assert!(told[..4].iter().all(|line| line.starts_with("Replaced(")), "{told:?}");
    assert_eq!((&told[4..], world.controller.counts().failed), (&["Added(b @6)".to_owned()][..], 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_process_function_is_contained_counted_and_never_retried() {
    let log = Log::default();
    let seen = log.clone();
    let mut world = world(true, move |batch: &Batch<TestObject>| {
        assert!(!matches!(batch[0], Change::Updated(_)), "on purpose");
        seen.say(format!("{:?}", batch[0]));
        Ok(())
    });
    let watch = world.server.expect_sync([object("a", "1")], "5").await;
    world.controller.synced().await.unwrap();
    watch.send(modified(object("a", "6")));
    quiet().await;
    watch.send(added(object("b", "7")));
    quiet().await;
    assert_eq!(world.controller.counts().panicked, 1);
    assert_eq!(log.take()[1..], ["Added(b @7)"]);
    assert!(!world.run.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_is_drained_and_ends_the_run() {
    let (source, _server) = ScriptedSource::<TestObject>::new();
    let queue = InOrderQueue::new();
    queue.push(vec![change("a", "1")]).unwrap();
    queue.close();
    let controller =
        InformerController::new(ControllerConfig::new(source, queue), |_: &Batch<TestObject>| Ok(()));
    // The reflector notices that the queue is closed only when it writes to the queue. In this test the
    // source does not respond to its first list, so the run ends only because `stop` is cancelled.
    let stop = CancellationToken::new();
    let run = controller.run(stop.clone());
    tokio::join!(run, async {
        quiet().await;
        stop.cancel();
    });
    assert_eq!(controller.counts().processed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_controller_keeps_its_queue_and_runs_again() {
    let mut world = world(false, |_: &Batch<TestObject>| Ok(()));
    let watch = world.server.expect_sync([object("a", "1")], "5").await;
    world.controller.synced().await.unwrap();
    world.stop.cancel();
    world.run.await.unwrap();
    assert!(watch.is_dropped() && !world.controller.queue().is_closed());
    let stop = CancellationToken::new();
    tokio::join!(world.controller.run(stop.clone()), async {
        let _watch = world.server.expect_sync([object("a", "1")], "6").await;
        quiet().await;
        stop.cancel();
    });
    assert_eq!(world.controller.counts().processed, 2);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_source_reach_the_hook_of_a_controller() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let log = Log::default();
    let seen = log.clone();
    let mut config = crate::reflector::ReflectorConfig::named("errors");
    config.on_error = Some(Arc::new(move |error: &SourceError| seen.say(error.kind())));
    let config = ControllerConfig::new(source, InOrderQueue::new()).reflector(config);
    let controller = InformerController::new(config, |_: &Batch<TestObject>| Ok(()));
    let stop = CancellationToken::new();
    tokio::join!(controller.run(stop.clone()), async {
        server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
        quiet().await;
        stop.cancel();
    });
    assert_eq!(log.take(), ["forbidden"]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_pumps_a_delta_fifo_into_a_custom_store() {
    let (source, mut server) = ScriptedSource::new();
    let store = informer_store::StoreBuilder::new().build();
    let known = Arc::new(store.indexer().clone());
    let queue = DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(known));
    let (log, cache) = (Log::default(), store.indexer().clone());
    let seen = log.clone();
    let process = move |deltas: &Popped<Deltas<TestObject>>| {
        for delta in deltas.iter() {
            seen.say(format!("{delta:?}"));
            match delta {
                Delta::Deleted(tombstone) => {
                    if let Some(last) = tombstone.last() {
                        store.delete(Arc::clone(last))?;
                    }
                }
                Delta::Added(o) | Delta::Updated(o) | Delta::Replaced(o) | Delta::Sync(o) => {
                    store.update(Arc::clone(o))?;
                }
            }
        }
        Ok(())
    };
    let controller = InformerController::new(ControllerConfig::new(source, queue), process);
    let stop = CancellationToken::new();
    tokio::join!(controller.run(stop.clone()), async {
        let watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
        controller.synced().await.unwrap();
        watch.send(modified(object("a", "6"))).gone();
        quiet().await;
        server.expect_list().await.reply_page([object("a", "6")], "9");
        let _watch = server.expect_watch().await.accept();
        quiet().await;
        stop.cancel();
    });
    assert_eq!((cache.len(), cache.get("a").unwrap().text()), (1, ""));
    let told = log.take();
    assert_eq!(told[..3], ["Replaced(a @1)", "Replaced(b @2)", "Updated(a @6)"]);
    assert!(told[3..].iter().any(|line| line.starts_with("Deleted(") && line.contains("stale: true")));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_deletes_each_added_object_receives_exactly_these_deletions() {
    let (source, mut server) = ScriptedSource::new();
    let (log, feed) = (Log::default(), Arc::new(Mutex::new(None::<WatchPeer<TestObject>>)));
    let (seen, deleting, version) = (log.clone(), Arc::clone(&feed), std::sync::atomic::AtomicU64::new(10));
    let handler = on_event(move |event: Event<TestObject>| match event {
        Event::Added { object: added, .. } => {
            let version = version.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let gone = object(added.key().as_str(), version);
            deleting.lock().as_ref().unwrap().send(deleted(gone));
        }
        Event::Deleted { last, .. } => seen.say(last.key()),
        Event::Updated { .. } => unreachable!("no object is updated"),
    });
    let informer = new_informer(source, handler);
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        *feed.lock() = Some(server.expect_sync([], "5").await);
        for (key, version) in [("a-hello", "6"), ("b-controller", "7"), ("c-framework", "8")] {
            feed.lock().as_ref().unwrap().send(added(object(key, version)));
        }
        quiet().await;
        stop.cancel();
    });
    assert_eq!(log.take(), ["a-hello", "b-controller", "c-framework"]);
    assert!(informer.indexer().is_empty());
}

/// The test runs on two threads, so that the reflector writes changes while the controller reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_concurrent_writes_the_cache_equals_the_source() {
    let (source, mut server) = ScriptedSource::new();
    let informer = Arc::new(new_informer(source, on_event(|_: Event<TestObject>| {})));
    let (stop, running) = (CancellationToken::new(), Arc::clone(&informer));
    let ended = stop.clone();
    assert!(!informer.has_synced());
    let run = tokio::spawn(async move { running.run(ended).await });
    let watch = Arc::new(server.expect_sync([], "5").await);
    let truth = Arc::new(Mutex::new((std::collections::BTreeMap::<String, u64>::new(), 10_u64)));
    let writers = (0..3_u64).map(|writer| {
        let (watch, truth) = (Arc::clone(&watch), Arc::clone(&truth));
        tokio::spawn(async move {
            for step in 0..100_u64 {
                {
                    let mut truth = truth.lock();
                    truth.1 += 1;
                    let (key, version) = (format!("k{}", (step * 7 + writer * 3) % 10), truth.1);
                    let state = object(&key, version);
                    match (truth.0.contains_key(&key), step % 3) {
                        (true, 0) => {
                            truth.0.remove(&key);
                            watch.send(deleted(state));
                        }
                        (true, _) => {
                            truth.0.insert(key, version);
                            watch.send(modified(state));
                        }
                        (false, _) => {
                            truth.0.insert(key, version);
                            watch.send(added(state));
                        }
                    }
                }
                tokio::task::yield_now().await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let last = truth.lock().1;
    while informer.indexer().resource_version() != last.to_string().as_str() {
        tokio::task::yield_now().await;
    }
    let held = informer.indexer().list();
    let held = held.iter().map(|o| (o.key().to_string(), o.resource_version().as_u64().unwrap()));
    assert_eq!(held.collect::<std::collections::BTreeMap<_, _>>(), truth.lock().0);
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_closure_can_be_spawned() {
    let (source, mut server) = ScriptedSource::new();
    let (sender, mut processed) = tokio::sync::mpsc::unbounded_channel();
    // The type of the controller is inferred and contains a closure, as in the code of a user. If the future
    // of `run` were not `Send` for such a controller, `spawn` would not compile.
    let controller = InformerController::new(
        ControllerConfig::new(source, InOrderQueue::new()),
        move |batch: &Batch<TestObject>| Ok(sender.send(batch.len())?),
    );
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let run = tokio::spawn(async move { controller.run(stopped).await });
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    assert_eq!(processed.recv().await, Some(1));
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controllers_of_other_queues_and_simple_informers_can_be_spawned_with_closures() {
    let stop = CancellationToken::new();
    stop.cancel();
    let (source, _server) = ScriptedSource::<TestObject>::new();
    let config = ControllerConfig::new(source.clone(), DeltaFifo::new(DeltaFifoConfig::default()));
    let controller = InformerController::new(config, |_: &Popped<Deltas<TestObject>>| Ok(()));
    let informer = new_informer(source, on_event(|_: Event<TestObject>| {}));
    let (first, second) = (stop.clone(), stop);
    tokio::spawn(async move { controller.run(first).await }).await.unwrap();
    tokio::spawn(async move { informer.run(second).await }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_item_of_a_delta_fifo_counts_for_has_synced_although_it_is_requeued() {
    let (source, mut server) = ScriptedSource::new();
    let failing = std::sync::atomic::AtomicBool::new(true);
    let failing = Arc::new(failing);
    let fails = Arc::clone(&failing);
    let config = ControllerConfig::new(source, DeltaFifo::new(DeltaFifoConfig::default()));
    let controller =
        InformerController::new(config.retry_on_error(true), move |_: &Popped<Deltas<TestObject>>| {
            if fails.load(std::sync::atomic::Ordering::Relaxed) { Err("not yet".into()) } else { Ok(()) }
        });
    let (controller, stop) = (Arc::new(controller), CancellationToken::new());
    let (running, stopped) = (Arc::clone(&controller), stop.clone());
    let run = tokio::spawn(async move { running.run(stopped).await });
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    controller.synced().await.unwrap();
    assert_eq!((controller.counts().processed, controller.queue().depth()), (0, 1));
    failing.store(false, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(MIN_RETRY_DELAY * 2).await;
    assert_eq!((controller.counts().processed, controller.queue().depth()), (1, 0));
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_any_hook_is_counted_and_causes_no_request() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let mut config = crate::reflector::ReflectorConfig::named("panics");
    config.on_error = Some(Arc::new(|_: &SourceError| panic!("on purpose")));
    config.on_version = Some(Arc::new(|version| assert_ne!(*version, "6", "on purpose")));
    config.resync_period = Some(Duration::from_secs(10));
    config.should_resync = Some(Arc::new(|| panic!("on purpose")));
    let config = ControllerConfig::new(source, InOrderQueue::new()).reflector(config);
    let controller = InformerController::new(config, |_: &Batch<TestObject>| Ok(()));
    let stop = CancellationToken::new();
    tokio::join!(controller.run(stop.clone()), async {
        server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
        let watch = server.expect_sync([object("a", "1")], "5").await;
        watch.send(modified(object("a", "6")));
        server.expect_silence(Duration::from_secs(15)).await;
        stop.cancel();
    });
    // Three hooks panicked: `on_error` for the failed list, `on_version` at version 6, and `should_resync`.
    // Two items were processed: the successful list and the changed object. The resync was skipped, because
    // its hook panicked.
    assert_eq!((controller.counts().panicked, controller.counts().processed), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_simple_informer_is_synced_only_when_its_handler_has_handled_the_first_list() {
    let (source, mut server) = ScriptedSource::new();
    let log = Log::default();
    let seen = log.clone();
    let informer = new_informer(
        source,
        on_event_async(move |event: Event<TestObject>| {
            let seen = seen.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                seen.say(event);
            }
        }),
    );
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(informer.indexer().len() == 2 && !informer.has_synced());
        informer.wait_for_sync(SOON).await.unwrap();
        assert_eq!(log.take(), ["added a @1 (initial)", "added b @2 (initial)"]);
        watch.send(modified(object("a", "6"))).send(deleted(object("b", "7")));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(log.take(), ["updated a @1 -> @6", "deleted b @7"]);
        stop.cancel();
    });
    assert_eq!(informer.last_sync_resource_version(), "7");
}

#[tokio::test(start_paused = true)]
async fn a_simple_informer_contains_the_panics_of_its_handler_per_event() {
    let (source, mut server) = ScriptedSource::new();
    let informer = new_informer(source, on_event(|_: Event<TestObject>| panic!("on purpose")));
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
        informer.wait_for_sync(SOON).await.unwrap();
        stop.cancel();
    });
    assert_eq!((informer.handler().calls, informer.handler().panics, informer.indexer().len()), (2, 2, 2));
    assert_eq!(informer.counts().panicked, 0);
}

#[tokio::test(start_paused = true)]
async fn a_simple_informer_with_indexes_serves_them() {
    let (source, mut server) = ScriptedSource::new();
    let indexers = informer_store::Indexers::new().index("text", informer_store::field("text"));
    let informer = new_indexer_informer(source, indexers, on_event(|_: Event<TestObject>| {}));
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let objects = [object("a", "1").with_text("x"), object("b", "2").with_text("y")];
        let _watch = server.expect_sync(objects, "5").await;
        informer.wait_for_sync(SOON).await.unwrap();
        stop.cancel();
    });
    assert_eq!(informer.indexer().by_index("text", "y").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_simple_informer_with_a_transform_stores_and_announces_only_transformed_objects() {
    let (source, mut server) = ScriptedSource::new();
    let log = Log::default();
    let seen = log.clone();
    let handler = on_event(move |event: Event<TestObject>| match event {
        Event::Updated { old, new, .. } => seen.say(format!("{} -> {}", old.text(), new.text())),
        Event::Added { object, .. } => seen.say(object.text()),
        Event::Deleted { last, .. } => seen.say(format!("- {}", last.text())),
    });
    let upper = |object: Arc<TestObject>| {
        let text = object.text().to_uppercase();
        Ok(Arc::new((*object).clone().with_text(text)))
    };
    let informer =
        new_informer_with(source, SimpleInformerOptions::new().transform(Arc::new(upper)), handler);
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let watch = server.expect_sync([object("a", "1").with_text("one")], "5").await;
        watch.send(modified(object("a", "6").with_text("two")));
        quiet().await;
        assert_eq!(informer.indexer().get("a").unwrap().text(), "TWO");
        watch.send(deleted(object("a", "7").with_text("three")));
        quiet().await;
        stop.cancel();
    });
    assert_eq!(log.take(), ["ONE", "ONE -> TWO", "- THREE"]);
}

#[tokio::test(start_paused = true)]
async fn a_simple_informer_replays_its_store_at_each_resync() {
    let (source, mut server) = ScriptedSource::new();
    let log = Log::default();
    let options = SimpleInformerOptions::new().resync(Duration::from_secs(10));
    let informer = new_informer_with(source, options, log.handler());
    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let _watch = server.expect_sync([object("a", "1")], "5").await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        stop.cancel();
    });
    assert_eq!(log.take(), ["added a @1 (initial)", "resync a @1", "resync a @1"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_dropped_during_a_call_does_not_prevent_the_sync_of_the_next_run() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let log = Log::default();
    let seen = log.clone();
    let informer = new_informer(
        source,
        on_event_async(move |event: Event<TestObject>| {
            let stuck = event.key().as_str() == "a";
            seen.say(event);
            async move {
                if stuck {
                    std::future::pending::<()>().await;
                }
            }
        }),
    );
    let dropped = tokio::time::timeout(SOON, informer.run(CancellationToken::new()));
    let (dropped, _) = tokio::join!(dropped, server.expect_sync([object("a", "1"), object("b", "2")], "5"));
    dropped.unwrap_err();
    assert!(!informer.has_synced());

    let stop = CancellationToken::new();
    tokio::join!(informer.run(stop.clone()), async {
        let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "6").await;
        informer.wait_for_sync(SOON).await.unwrap();
        stop.cancel();
    });
    assert_eq!(log.take(), ["added a @1 (initial)", "added b @2 (initial)"]);
}
