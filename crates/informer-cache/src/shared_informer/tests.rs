mod counting;
mod crashes;
mod filter;
mod generic;
mod handlers;
mod known_issues;
mod life;
mod limit;
mod logs;
mod resync;
mod unordered;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::handler::{blocking, on_event};
use crate::testing::{ScriptedServer, ScriptedSource, TestObject, added, deleted, modified, object};
use crate::{Event, HandlerOptions, SharedInformer};

const SOON: Duration = Duration::from_secs(5);

/// The timeout of tests that run in real time. It is long, because a machine under heavy load may be slow.
const HANGS: Duration = Duration::from_secs(120);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn handler(&self) -> impl crate::handler::EventHandler<TestObject> {
        let log = self.clone();
        on_event(move |event: Event<TestObject>| log.0.lock().push(event.to_string()))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

fn informer() -> (SharedInformer<TestObject>, ScriptedServer<TestObject>) {
    let (source, server) = ScriptedSource::new();
    (SharedInformer::builder(source).name("things").build(), server)
}

/// Waits until every runnable task has run. The clock is paused, so a timer fires only when all tasks are
/// idle.
async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_receives_the_first_list_and_every_later_change() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let registration = informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("ns/a", "1")], "5");
    let watch = server.expect_watch().await.assert_version("5").accept();
    registration.wait_for_sync(SOON).await.unwrap();
    watch
        .send(added(object("ns/b", "6")))
        .send(modified(object("ns/a", "7")))
        .send(deleted(object("ns/b", "8")));
    quiet().await;
    let told = ["added ns/a @1 (initial)", "added ns/b @6", "updated ns/a @1 -> @7", "deleted ns/b @8"];
    assert_eq!(log.take(), told);
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_the_cached_objects_first_and_every_later_change() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1")], "5");
    let watch = server.expect_watch().await.accept();
    informer.wait_for_sync(SOON).await.unwrap();
    let log = Log::default();
    let late = informer.add_handler(log.handler()).unwrap();
    watch.send(added(object("b", "6")));
    late.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    let mut told = log.take();
    // The new handler receives `b` either as a cached object that is replayed to it, or as a later event,
    // depending on the order of the tasks. It must receive `b` once in both cases.
    told.iter_mut().for_each(|line| *line = line.replace(" (initial)", ""));
    assert_eq!(told, ["added a @1", "added b @6"]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_receives_no_events_and_others_still_do() {
    let (informer, mut server) = informer();
    let (first, second) = (Log::default(), Log::default());
    let removed = informer.add_handler(first.handler()).unwrap();
    informer.add_handler(second.handler()).unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1")], "5");
    let watch = server.expect_watch().await.accept();
    removed.wait_for_sync(SOON).await.unwrap();
    removed.remove();
    removed.remove();
    watch.send(added(object("b", "6")));
    quiet().await;
    assert_eq!((first.take().len(), second.take().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_counted_and_receives_the_next_event() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let seen = log.clone();
    let registration = informer
        .add_handler(on_event(move |event: Event<TestObject>| {
            seen.0.lock().push(event.to_string());
            panic!("on purpose");
        }))
        .unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1"), object("b", "2")], "5");
    let begin = tokio::time::Instant::now();
    registration.wait_for_sync(SOON).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1), "the handler is not paused after a panic");
    assert_eq!((log.take().len(), registration.state().panics), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_with_its_last_run_and_a_new_run_announces_the_difference() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let (first, second) = (informer.start(), informer.start());
    server.expect_list().await.reply_page([object("a", "1"), object("b", "2")], "5");
    let watch = server.expect_watch().await.accept();
    informer.wait_for_sync(SOON).await.unwrap();
    drop(first);
    quiet().await;
    assert!(!informer.is_stopped() && !watch.is_dropped());
    second.stop().await;
    assert!(informer.is_stopped() && watch.is_dropped());
    log.take();

    let _run = informer.start();
    assert!(!informer.is_stopped());
    server.expect_list().await.reply_page([object("b", "7"), object("c", "8")], "9");
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!(log.take(), ["deleted a @1 (last known)", "updated b @2 -> @7", "added c @8 (initial)"]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_timeout_names_the_informer_and_the_reason() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    server.expect_list().await.fail_with(crate::source::SourceErrorKind::Forbidden);
    let error = informer.wait_for_sync(Duration::from_millis(100)).await.unwrap_err().to_string();
    assert!(error.contains("informer things") && error.contains("waiting to try again: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_resync_reaches_only_handlers_that_request_it_and_sends_no_request() {
    let (informer, mut server) = informer();
    let (with, without) = (Log::default(), Log::default());
    informer.add_handler_with(HandlerOptions::new().resync(Duration::from_secs(2)), with.handler()).unwrap();
    informer.add_handler(without.handler()).unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1")], "5");
    let _watch = server.expect_watch().await.accept();
    informer.wait_for_sync(SOON).await.unwrap();
    let requests = server.requests().len();
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    assert_eq!(with.take(), ["added a @1 (initial)", "resync a @1", "resync a @1"]);
    assert_eq!((without.take().len(), server.requests().len()), (1, requests));
}

#[tokio::test(start_paused = true)]
async fn a_stream_yields_the_events_of_a_handler() {
    let (informer, mut server) = informer();
    let mut events = informer.events();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1")], "5");
    let watch = server.expect_watch().await.accept();
    assert_eq!(events.next().await.unwrap().to_string(), "added a @1 (initial)");
    watch.send(deleted(object("a", "6")));
    assert_eq!(events.next().await.unwrap().to_string(), "deleted a @6");
    drop(events);
    assert!(informer.state().handlers.is_empty());
}

/// Adds three blocking handlers, which block until the end of the test, and a fourth handler. Checks that
/// neither the cache nor the fourth handler is delayed.
async fn three_blocked_handlers_and_a_fourth() {
    let (informer, mut server) = informer();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    for _ in 0..3 {
        let wait = Arc::clone(&wait);
        informer
            .add_handler(blocking(move |_: Event<TestObject>| {
                // Blocks the handler's thread until the test drops `release`, the sender of this channel.
                let _ = wait.lock().recv();
            }))
            .unwrap();
    }
    let log = Log::default();
    let fourth = informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("a", "1"), object("b", "2")], "5");
    fourth.wait_for_sync(HANGS).await.unwrap();
    assert_eq!((informer.indexer().len(), log.take().len()), (2, 2));
    drop(release);
}

#[test]
fn three_blocking_handlers_delay_neither_the_cache_nor_a_fourth_handler() {
    let current = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    current.block_on(three_blocked_handlers_and_a_fourth());
    let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    two.block_on(three_blocked_handlers_and_a_fourth());
}

#[tokio::test(start_paused = true)]
async fn objects_after_a_list_without_a_version_do_not_set_its_version() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    server.expect_list().await.reply_page([object("ns/a", "5")], "");
    let watch = server.expect_watch().await.assert_version("").accept();
    watch.send(added(object("ns/b", "6")));
    quiet().await;
    assert!(informer.indexer().contains("ns/b"));
    assert_eq!(informer.last_sync_resource_version(), "", "objects written before version 6 may be missing");
    watch.send(modified(object("ns/a", "12")));
    quiet().await;
    assert_eq!(informer.last_sync_resource_version(), "12");
}
