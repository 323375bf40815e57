use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::world::{Recorder, World};
use crate::queue::{QueueClosed, ReflectorStore};
use crate::reflector::state::{Input, ReflectorNotice, ReflectorState};
use crate::reflector::{Reflector, ReflectorConfig, ReflectorHandle, ReflectorPhase};
use crate::source::{
    DynListWatch, ListEnd, ListPart, ListRequest, ListStream, SourceError, SourceErrorKind, WatchRequest,
    WatchStream,
};
use crate::testing::{
    ScriptedServer, ScriptedSource, TestObject, added, bookmark, initial_events_end, object,
};

fn assert_thread_safe<T: Send + Sync + 'static>() {}

#[test]
fn reflectors_and_handles_can_be_shared() {
    assert_thread_safe::<Reflector<TestObject>>();
    assert_thread_safe::<ReflectorHandle>();
}

fn reflector(source: ScriptedSource<TestObject>, queue: &Arc<Recorder>) -> Reflector<TestObject> {
    let store: Arc<dyn ReflectorStore<TestObject>> = queue.clone();
    Reflector::new(DynListWatch::new(source), store, ReflectorConfig::default())
}

#[tokio::test(start_paused = true)]
async fn a_reflector_stopped_before_it_runs_sends_no_request() {
    let (source, server) = ScriptedSource::new();
    let queue = Recorder::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(reflector(source, &queue).run(cancel).await, Ok(()));
    assert_eq!(server.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_any_request_immediately() {
    // The test stops the reflector in five situations: before the response to a list request, while a list is
    // read, before the response to a watch request, while a watch is read, and during a backoff.
    for place in 0..5 {
        let mut world = World::start(ReflectorConfig::default());
        let list = world.server.expect_list().await;
        let (mut held_list, mut held_peer, mut held_watch, mut held_stream) = (None, None, None, None);
        match place {
            0 => held_list = Some(list),
            1 => held_peer = Some(list.accept()),
            4 => list.fail_with(SourceErrorKind::Forbidden),
            _ => {
                list.reply_page([], 1);
                let watch = world.server.expect_watch().await;
                match place {
                    2 => held_watch = Some(watch),
                    _ => held_stream = Some(watch.accept()),
                }
            }
        }
        world.told().await;
        let before = world.server.requests().len();
        world.lap();
        world.cancel.cancel();
        assert_eq!((&mut world.task).await.unwrap(), Ok(()));
        assert_eq!(world.lap(), Duration::ZERO, "place {place}");
        assert_eq!(world.status().phase, ReflectorPhase::Stopped);
        assert_eq!(world.server.requests().len(), before);
        if let Some(list) = held_list {
            list.given_up().await;
        }
        if let Some(peer) = held_peer {
            peer.dropped().await;
        }
        if let Some(watch) = held_watch {
            watch.given_up().await;
        }
        if let Some(stream) = held_stream {
            assert!(stream.is_dropped());
        }
        world.server.expect_silence(Duration::from_secs(1000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_closes_the_watch_and_reports_stopped() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 1).await;
    world.task.abort();
    watch.dropped().await;
    let status = world.handle.status_when(|status| status.phase == ReflectorPhase::Stopped).await;
    assert!(status.synced);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_ends_the_run() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 1).await;
    world.queue.close();
    watch.send(added(object("default/a", 2)));
    watch.dropped().await;
    assert_eq!((&mut world.task).await.unwrap(), Err(QueueClosed));
    assert_eq!(world.status().phase, ReflectorPhase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_runs_once_at_a_time_and_each_run_lists_at_the_last_version() {
    let (source, mut server) = ScriptedSource::new();
    let queue = Recorder::new();
    let reflector = Arc::new(reflector(source, &queue));
    let spawn = || {
        let (reflector, cancel) = (Arc::clone(&reflector), CancellationToken::new());
        let token = cancel.clone();
        (cancel, tokio::spawn(async move { reflector.run(token).await }))
    };
    let (first, _) = spawn();
    let watch = server.expect_sync([], 10).await;
    let (second, waiting) = spawn();
    server.expect_silence(Duration::from_secs(60)).await;
    second.cancel();
    assert_eq!(waiting.await.unwrap(), Ok(()));
    first.cancel();
    watch.dropped().await;
    let (_third, _) = spawn();
    server.expect_list().await.assert_version("10").assert_limit(None).reply_page([], 11);
    let _open = server.expect_watch().await.accept();
    let status = reflector.handle().status_when(|status| status.phase == ReflectorPhase::Watching).await;
    assert_eq!(status.relists.total(), 0, "the list of a new run is not a relist");
}

async fn stopped_at_10(reflector: &Reflector<TestObject>, server: &mut ScriptedServer<TestObject>) {
    let stop = CancellationToken::new();
    let (ended, ()) = tokio::join!(reflector.run(stop.clone()), async {
        let watch = if reflector.source.supports_streaming_list() {
            server.expect_watch().await.assert_version("").send(initial_events_end(9))
        } else {
            server.expect_sync([], 9).await
        };
        watch.send(bookmark(10));
        tokio::time::sleep(Duration::from_millis(1)).await;
        stop.cancel();
    });
    assert_eq!(ended, Ok(()));
    let status = reflector.handle().status();
    assert_eq!((status.phase, status.last_version), (ReflectorPhase::Stopped, "10".into()));
}

#[tokio::test(start_paused = true)]
async fn a_later_run_does_not_apply_a_list_of_a_lagging_server() {
    let (source, mut server) = ScriptedSource::new();
    let queue = Recorder::new();
    let reflector = reflector(source, &queue);
    stopped_at_10(&reflector, &mut server).await;
    let mut world = World::run(reflector, server, queue);
    world.server.expect_list().await.assert_version("10").reply_page([object("default/a", 2)], 3);
    world.server.expect_list().await.assert_version("").reply_page([object("default/a", 11)], 12);
    let _open = world.server.expect_watch().await.assert_version("12").accept();
    let told = world.told().await;
    assert_eq!(told, ["Replaced[] @9", "Bookmark(@10)", "Replaced[default/a @11] @12"]);
    assert_eq!((world.status().stale_lists, world.status().rewound), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_version_expired_or_is_too_large_lists_consistently_at_once() {
    for kind in [SourceErrorKind::Expired, SourceErrorKind::VersionTooLarge] {
        let (source, mut server) = ScriptedSource::new();
        let queue = Recorder::new();
        let reflector = reflector(source, &queue);
        stopped_at_10(&reflector, &mut server).await;
        let mut world = World::run(reflector, server, queue);
        world.server.expect_list().await.assert_version("10").fail_with(kind);
        world.server.expect_list().await.assert_version("").reply_page([], 20);
        assert_eq!(world.lap(), Duration::ZERO, "{kind}");
        let _open = world.server.expect_watch().await.assert_version("20").accept();
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_run_requests_a_streaming_list_at_the_last_version() {
    let (source, mut server) = ScriptedSource::streaming();
    let queue = Recorder::new();
    let reflector = reflector(source, &queue);
    stopped_at_10(&reflector, &mut server).await;
    let mut world = World::run(reflector, server, queue);
    let watch = world.server.expect_watch().await.assert_version("10").assert_streaming_list();
    watch.fail_with(SourceErrorKind::Expired);
    let watch = world.server.expect_watch().await.assert_version("").assert_streaming_list().accept();
    watch.send(initial_events_end(20));
    world.told().await;
    assert_eq!(world.status().last_version, "20");
}

#[tokio::test(start_paused = true)]
async fn available_events_are_pushed_in_batches_of_up_to_a_thousand() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 1).await;
    world.told().await;
    for version in 2..2502_u64 {
        watch.send(added(object("default/a", version)));
    }
    watch.close();
    let told = world.told().await;
    assert_eq!((told.len(), told.last().map(String::as_str)), (2500, Some("Added(default/a @2501)")));
    let pushes = world.queue.pushes();
    assert!(pushes.iter().all(|&size| size <= 1000), "{pushes:?}");
    assert!(pushes.len() < 100, "available events are not pushed one by one: {}", pushes.len());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_pauses_the_source_and_keeps_the_connection() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 1).await;
    watch.send(bookmark(2));
    world.told().await;
    world.queue.set_room(false);
    // An event that the reflector had begun to read is still delivered; later events wait for room in the
    // queue.
    watch.send(bookmark(3));
    world.told().await;
    watch.send(bookmark(4));
    assert_eq!(world.told().await, Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!watch.is_dropped(), "a queue that is full for an hour is not a silent watch");
    assert_eq!(world.told().await, Vec::<String>::new());
    world.queue.set_room(true);
    assert_eq!(world.told().await, ["Bookmark(@4)"]);

    // The queue is full for an hour again. This time no event is waiting when the queue has room again, and
    // the watch must also stay open.
    world.queue.set_room(false);
    watch.send(bookmark(5));
    world.told().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.queue.set_room(true);
    world.told().await;
    assert!(!watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn a_resync_is_local_and_needs_an_open_watch() {
    let mut config = ReflectorConfig::named("test");
    config.resync_period = Some(Duration::from_secs(10));
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    // The hook `should_resync` returns false, and so skips the resync, at every third call.
    config.should_resync = Some(Arc::new(move || counter.fetch_add(1, Ordering::Relaxed) % 3 != 2));
    let mut world = World::start(config);
    let watch = world.server.expect_sync([], 1).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(world.told().await, ["Replaced[] @1", "Resync", "Resync", "Resync", "Resync"]);
    assert_eq!((asked.load(Ordering::Relaxed), world.status().resyncs), (6, 6));
    assert_eq!(world.server.requests().len(), 2, "a resync sends no request");

    watch.fail_with(SourceErrorKind::Connection);
    for _ in 0..8 {
        world.server.expect_watch().await.too_many_requests(None);
    }
    let last = world.server.expect_watch().await;
    assert_eq!(world.told().await, Vec::<String>::new());
    let _open = last.accept();
    // Several resyncs that became due during the backoff are merged into one.
    world.told().await;
    assert_eq!(world.status().resyncs, 7);
}

#[test]
fn a_watch_with_events_always_available_does_not_delay_a_resync() {
    let mut config = ReflectorConfig::named("test");
    config.resync_period = Some(Duration::from_secs(10));
    let mut now = tokio::time::Instant::now().into_std();
    let mut state = ReflectorState::<TestObject>::new(Arc::new(config), now);
    let mut rng = StdRng::seed_from_u64(1);
    let end = ListEnd { version: 1.into(), ..ListEnd::default() };
    for input in [Input::Timer, Input::Opened, Input::Part(ListPart::End(end)), Input::Opened] {
        state.handle(input, now, &mut rng);
    }
    // The state machine receives only events and no timer input. It must detect due resyncs when it handles
    // the events.
    let mut resyncs = 0;
    for version in 2..302_u64 {
        now += Duration::from_millis(100);
        let effects = state.handle(Input::Events(vec![bookmark(version)]), now, &mut rng);
        resyncs +=
            effects.notices.iter().filter(|notice| matches!(notice, ReflectorNotice::ResyncDue)).count();
    }
    assert_eq!(resyncs, 3);
}

#[tokio::test(start_paused = true)]
async fn the_status_describes_each_step() {
    let (source, mut server) = ScriptedSource::new();
    let queue = Recorder::new();
    let reflector = reflector(source, &queue);
    let handle = reflector.handle();
    assert_eq!(handle.status().to_string(), "not started");
    let world_task = tokio::spawn(async move { reflector.run(CancellationToken::new()).await });
    let list = server.expect_list().await;
    assert_eq!(handle.status().to_string(), "listing");
    assert!(!handle.status().synced && handle.status().last_version_at.is_none());
    list.fail_with(SourceErrorKind::Forbidden);
    let status = handle.status_when(|status| status.phase == ReflectorPhase::BackingOff).await;
    assert_eq!(status.to_string(), "backing off after 1 failure, the last: scripted failure: forbidden");
    server.expect_list().await.reply_page([], 10);
    let watch = server.expect_watch().await;
    let status = handle.status_when(|status| status.phase == ReflectorPhase::OpeningWatch).await;
    assert!(status.synced);
    assert_eq!((status.last_version.to_string(), status.list_requests), ("10".to_owned(), 2));
    let watch = watch.accept();
    let status = handle.status_when(|status| status.phase == ReflectorPhase::Watching).await;
    assert_eq!(status.watches_opened, 1);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let now = tokio::time::Instant::now().into_std();
    assert_eq!(handle.status().version_age(now).map(|age| age.as_secs()), Some(30));
    drop(watch);
    world_task.abort();
}

/// A source with an endless watch that always has another bookmark ready.
struct Endless;

impl crate::source::ListSource<TestObject> for Endless {
    async fn list(&self, _: ListRequest<TestObject>) -> Result<ListStream<TestObject>, SourceError> {
        Ok(ListStream::complete([], 1))
    }
}

impl crate::source::WatchSource<TestObject> for Endless {
    async fn watch(&self, _: WatchRequest<TestObject>) -> Result<WatchStream<TestObject>, SourceError> {
        Ok(WatchStream::new(futures_util::stream::iter((2_u64..).map(|version| Ok(bookmark(version))))))
    }
}

impl crate::source::ListWatch<TestObject> for Endless {
    fn describe(&self) -> String {
        "bookmarks without end".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_with_endless_events_blocks_neither_other_tasks_nor_stopping() {
    let queue = Recorder::new();
    let store: Arc<dyn ReflectorStore<TestObject>> = queue.clone();
    let reflector = Reflector::new(DynListWatch::new(Endless), store, ReflectorConfig::default());
    let cancel = CancellationToken::new();
    let running = reflector.run(cancel.clone());
    let other = async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    assert_eq!(tokio::join!(running, other).0, Ok(()));
    // The reflector pushes full batches of 1000 bookmarks and yields after each of them, so the other task
    // can run and stop it after a few pushes.
    let pushes = queue.pushes();
    assert!(pushes.contains(&1000) && pushes.len() < 30, "{} pushes", pushes.len());
}

/// A source that behaves like an HTTP connection: it delivers an event only after the previous one was taken.
struct OneAtATime(Mutex<Option<mpsc::Receiver<u64>>>);

impl crate::source::ListSource<TestObject> for OneAtATime {
    async fn list(&self, _: ListRequest<TestObject>) -> Result<ListStream<TestObject>, SourceError> {
        Ok(ListStream::complete([], 1))
    }
}

impl crate::source::WatchSource<TestObject> for OneAtATime {
    async fn watch(&self, _: WatchRequest<TestObject>) -> Result<WatchStream<TestObject>, SourceError> {
        let mut versions = self.0.lock().take().unwrap();
        Ok(WatchStream::new(futures_util::stream::poll_fn(move |context| {
            let version = versions.poll_recv(context);
            version.map(|version| version.map(|version| Ok(added(object("default/a", version)))))
        })))
    }
}

impl crate::source::ListWatch<TestObject> for OneAtATime {
    fn describe(&self) -> String {
        "one event at a time".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_single_events_is_batched_and_the_first_event_after_a_lull_is_not_delayed() {
    let (sender, versions) = mpsc::channel(1);
    let queue = Recorder::new();
    let store: Arc<dyn ReflectorStore<TestObject>> = queue.clone();
    let source = DynListWatch::new(OneAtATime(Mutex::new(Some(versions))));
    let reflector = Reflector::new(source, store, ReflectorConfig::default());
    let stop = CancellationToken::new();
    let done = stop.clone();
    // The sender runs in its own task, like the connection task of an HTTP client, so the reflector must
    // yield to receive the next event.
    tokio::spawn(async move {
        for round in 0..3_u64 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for at in 0..100 {
                sender.send(2 + round * 100 + at).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        done.cancel();
        std::future::pending::<()>().await;
    });
    assert_eq!(reflector.run(stop).await, Ok(()));
    let pushes = queue.pushes();
    assert_eq!(pushes.iter().sum::<usize>(), 301, "{pushes:?}");
    // `pushes` has the number of changes in each push of the reflector. The first push is the list. In each
    // round, the first event is pushed alone, and the remaining ones are pushed in one or a few batches.
    assert_eq!(pushes[..2], [1, 1], "{pushes:?}");
    assert!(pushes.len() < 20, "consecutive events are pushed together: {pushes:?}");
}
