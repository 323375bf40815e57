//! Tests of panics in the tasks of an informer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informer_core::{Header, Object};
use parking_lot::Mutex;

use super::{HANGS, SOON, quiet};
use crate::handler::on_event;
use crate::testing::{ScriptedSource, StaticSource, added, modified, object};
use crate::{Event, SharedInformer};

/// An object with methods that panic while its `armed` flag is set. The task that writes the cache calls
/// these methods, so the flag makes that task panic.
struct Fragile {
    header: Header,
    armed: Arc<AtomicBool>,
}

impl Object for Fragile {
    fn header(&self) -> &Header {
        &self.header
    }

    fn held_bytes(&self) -> usize {
        assert!(!self.armed.load(Ordering::Relaxed), "on purpose");
        10
    }
}

fn fragile(key: &str, version: &str, armed: &Arc<AtomicBool>) -> Fragile {
    let header = Header::new(key.parse().unwrap()).with_uid("u").with_version(version);
    Fragile { header, armed: Arc::clone(armed) }
}

#[tokio::test(start_paused = true)]
async fn an_informer_whose_task_panics_is_not_synced_reports_the_panic_and_restarts() {
    let (source, mut server) = ScriptedSource::new();
    let informer = SharedInformer::<Fragile>::builder(source).name("things").build();
    let log = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&log);
    let handler = on_event(move |event: Event<Fragile>| told.lock().push(event.to_string()));
    let registration = informer.add_handler(handler).unwrap();
    let run = informer.start();
    let armed = Arc::<AtomicBool>::default();
    let watch = server.expect_sync([fragile("a", "1", &armed)], "5").await;
    registration.wait_for_sync(SOON).await.unwrap();
    armed.store(true, Ordering::Relaxed);
    watch.send(modified(fragile("a", "6", &armed))).send(added(fragile("b", "7", &armed)));
    quiet().await;
    let state = informer.state();
    assert!(state.running && !state.synced && !informer.has_synced() && !registration.has_synced());
    let crash = state.crash.unwrap();
    assert_eq!((crash.panic.as_str(), state.crashes, state.objects), ("on purpose", 1, 1));
    assert!(crash.restart_at - crash.at >= Duration::from_millis(800));
    let error = informer.wait_for_sync(Duration::from_millis(1)).await.unwrap_err().to_string();
    let text = "informer things (objects of a script) is restarting after a panic of its own tasks: panic: on purpose";
    assert!(error.ends_with(text), "{error}");
    armed.store(false, Ordering::Relaxed);
    watch.dropped().await;
    let list = [fragile("a", "6", &armed), fragile("b", "7", &armed)];
    server.expect_list().await.assert_version("7").reply_page(list, "8");
    let _watch = server.expect_watch().await.assert_version("8").accept();
    registration.wait_for_sync(SOON).await.unwrap();
    let state = informer.state();
    assert!(state.synced && state.crash.is_none() && state.crashes == 1, "{state:?}");
    assert_eq!((state.objects, state.counters.bytes), (2, 20));
    assert_eq!(*log.lock(), ["added a @1 (initial)", "updated a @1 -> @6", "added b @7 (initial)"]);
    run.stop().await;
    assert!(informer.is_stopped() && informer.has_synced(), "a stopped informer keeps its cache");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_first_list_loses_no_object() {
    let armed = Arc::new(AtomicBool::new(true));
    let informer = SharedInformer::new(StaticSource::new([fragile("a", "1", &armed)], "1"));
    let mut events = informer.events();
    let _run = informer.start();
    quiet().await;
    assert_eq!((informer.state().crashes, informer.state().objects), (1, 0));
    armed.store(false, Ordering::Relaxed);
    assert_eq!(events.next().await.unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_always_panics_restarts_at_growing_intervals() {
    let armed = Arc::new(AtomicBool::new(true));
    let informer = SharedInformer::new(StaticSource::new([fragile("a", "1", &armed)], "1"));
    let run = informer.start();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let state = informer.state();
    assert!((10..=30).contains(&state.crashes), "{state:?}");
    assert!(state.running && !state.synced && state.crash.is_some());
    run.stop().await;
    assert!(informer.is_stopped() && !informer.has_synced());
}

#[test]
fn an_informer_whose_runtime_was_dropped_is_neither_running_nor_synced() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let informer = SharedInformer::new(StaticSource::new([object("a", "1")], "1"));
    let run = runtime.block_on(async {
        let run = informer.start();
        informer.wait_for_sync(HANGS).await.unwrap();
        run
    });
    assert!(informer.has_synced());
    drop(runtime);
    assert!(!informer.has_synced() && !informer.state().running && run.is_stopping());
}
