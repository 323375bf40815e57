//! Tests with a source that counts the objects that it decodes. Like the client, the source reads the
//! metadata of an object first, and decodes the object only if that state is not already cached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use informer_core::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Log, SOON, quiet};
use crate::reflector::RelistReason;
use crate::source::{
    ListEnd, ListPart, ListRequest, ListSource, ListStream, ListWatch, Listed, SourceError, WatchRequest,
    WatchSource, WatchStream,
};
use crate::testing::{TestObject, error_event, object};
use crate::{HandlerOptions, SharedInformer};

/// A source of objects, each of which is decoded and counted unless it is already cached. The only event of
/// its watch is an error: the version has expired.
#[derive(Clone, Default)]
struct Counting(Arc<Inner>);

#[derive(Default)]
struct Inner {
    objects: Mutex<(BTreeMap<String, TestObject>, u64)>,
    decoded: AtomicUsize,
    expire: Notify,
}

impl Counting {
    fn set(&self, key: &str, version: u64) {
        let mut objects = self.0.objects.lock();
        objects.0.insert(key.to_owned(), object(key, version));
        objects.1 = version;
    }

    fn decoded(&self) -> usize {
        self.0.decoded.load(Ordering::Relaxed)
    }
}

impl ListSource<TestObject> for Counting {
    async fn list(&self, request: ListRequest<TestObject>) -> Result<ListStream<TestObject>, SourceError> {
        let objects = self.0.objects.lock();
        let item = |object: &TestObject| {
            let (key, uid) = (object.key().as_str(), object.uid());
            match request.context.unchanged(key, uid, object.resource_version()) {
                Some(known) => Listed::Known(known),
                None => {
                    self.0.decoded.fetch_add(1, Ordering::Relaxed);
                    Listed::Fresh(Arc::new(object.clone()))
                }
            }
        };
        let items = objects.0.values().map(item).collect();
        let end = ListEnd { version: objects.1.into(), ..ListEnd::default() };
        Ok(ListStream::new(stream::iter([Ok(ListPart::Items(items)), Ok(ListPart::End(end))])))
    }
}

impl WatchSource<TestObject> for Counting {
    async fn watch(&self, _: WatchRequest<TestObject>) -> Result<WatchStream<TestObject>, SourceError> {
        let inner = Arc::clone(&self.0);
        let expired = stream::once(async move {
            inner.expire.notified().await;
            Ok(error_event(410, "Expired"))
        });
        Ok(WatchStream::new(expired.chain(stream::pending())))
    }
}

impl ListWatch<TestObject> for Counting {
    fn describe(&self) -> String {
        "counted objects".to_owned()
    }
}

async fn relist(informer: &SharedInformer<TestObject>, source: &Counting) {
    let lists = informer.state().counters.lists;
    source.0.expire.notify_one();
    while informer.state().counters.lists == lists {
        tokio::time::sleep(SOON).await;
    }
    quiet().await;
}

fn many() -> Counting {
    let source = Counting::default();
    (1..=1000_u64).for_each(|number| source.set(&format!("o{number}"), number));
    source
}

#[tokio::test(start_paused = true)]
async fn a_relist_without_changes_decodes_and_announces_nothing() {
    let source = many();
    let informer = SharedInformer::new(source.clone());
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!((source.decoded(), log.take().len()), (1000, 1000));
    let held = informer.indexer().get("o7").unwrap();
    relist(&informer, &source).await;
    assert_eq!((source.decoded(), log.take().len()), (1000, 0));
    assert!(Arc::ptr_eq(&held, &informer.indexer().get("o7").unwrap()), "the cached object is not replaced");
    assert_eq!(informer.state().reflector.relists.get(RelistReason::WatchExpired), 1);

    source.set("o7", 2000);
    relist(&informer, &source).await;
    assert_eq!((source.decoded(), log.take()), (1001, vec!["updated o7 @7 -> @2000".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn ten_handlers_and_a_stream_share_decoded_objects() {
    let source = many();
    let informer = SharedInformer::new(source.clone());
    let seen: Arc<Mutex<Vec<Arc<TestObject>>>> = Arc::default();
    for _ in 0..10 {
        let seen = Arc::clone(&seen);
        let handler = crate::handler::on_event(move |event: crate::Event<TestObject>| {
            seen.lock().push(Arc::clone(event.object()));
        });
        informer.add_handler(handler).unwrap();
    }
    let mut events = informer.events();
    let _run = informer.start();
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!((source.decoded(), seen.lock().len()), (1000, 10_000));
    let cache = informer.snapshot();
    assert!(seen.lock().iter().all(|told| Arc::ptr_eq(told, cache.get(told.key()).unwrap())));
    for _ in 0..1000 {
        let event = events.next().await.unwrap();
        assert!(Arc::ptr_eq(event.object(), cache.get(event.key()).unwrap()));
    }
    assert_eq!(source.decoded(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_for_each_state_and_never_for_cached_ones() {
    let source = many();
    let (transformed, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&transformed);
    let informer = SharedInformer::builder(source.clone())
        .transform(move |object: Arc<TestObject>| {
            counting.fetch_add(1, Ordering::Relaxed);
            assert!(object.text().is_empty(), "the object is transformed twice");
            Ok(Arc::new((*object).clone().with_text("transformed")))
        })
        .build();
    let told = Arc::clone(&count);
    informer
        .add_handler(crate::handler::on_event(move |event: crate::Event<TestObject>| {
            assert_eq!(event.object().text(), "transformed");
            told.fetch_add(1, Ordering::Relaxed);
        }))
        .unwrap();
    let _run = informer.start();
    informer.wait_for_sync(SOON).await.unwrap();
    relist(&informer, &source).await;
    source.set("o1", 2000);
    relist(&informer, &source).await;
    assert_eq!((transformed.load(Ordering::Relaxed), count.load(Ordering::Relaxed)), (1001, 1001));
    assert!(informer.indexer().list().iter().all(|object| object.text() == "transformed"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_and_resyncs_see_transformed_objects_only() {
    const ROUNDS: u64 = 20;
    let source = many();
    let (transformed, resyncs, wrong) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&transformed);
    let informer = SharedInformer::builder(source.clone())
        .transform(move |object: Arc<TestObject>| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new((*object).clone().with_text(format!("{}transformed", object.text()))))
        })
        .build();
    let (resynced, seen) = (Arc::clone(&resyncs), Arc::clone(&wrong));
    let handler = crate::handler::on_event(move |event: crate::Event<TestObject>| {
        let resync = matches!(event, crate::Event::Updated { resync: true, .. });
        resynced.fetch_add(usize::from(resync), Ordering::Relaxed);
        seen.fetch_add(usize::from(event.object().text() != "transformed"), Ordering::Relaxed);
    });
    let every_second = HandlerOptions::default().resync(Duration::from_secs(1));
    informer.add_handler_with(every_second, handler).unwrap();
    let _run = informer.start();
    informer.wait_for_sync(SOON).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (informer, done) = (informer.clone(), Arc::clone(&done));
        move || {
            let (mut objects, mut wrong) = (0, 0);
            while !done.load(Ordering::Relaxed) || objects == 0 {
                let list = informer.indexer().list();
                objects += list.len();
                wrong += list.iter().filter(|object| object.text() != "transformed").count();
            }
            wrong
        }
    });
    for round in 0..ROUNDS {
        source.set("o1", 2000 + round);
        relist(&informer, &source).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    done.store(true, Ordering::Relaxed);
    assert_eq!((reader.join().unwrap(), wrong.load(Ordering::Relaxed)), (0, 0));
    assert!(resyncs.load(Ordering::Relaxed) >= 1000, "every object is resynced");
    assert_eq!(transformed.load(Ordering::Relaxed), 1000 + ROUNDS as usize);
}

/// A log subscriber that reads the state of an informer at the moment it logs "synced". The state must be
/// complete by then.
struct AtSynced {
    informer: SharedInformer<TestObject>,
    seen: Arc<Mutex<Option<(bool, u64)>>>,
}

#[derive(Default)]
struct Message(String);

impl tracing::field::Visit for Message {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for AtSynced {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        if message.0 == "synced" {
            let state = self.informer.state();
            *self.seen.lock() = Some((state.synced, state.counters.bytes));
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Returns whether an informer was synced and the number of bytes of its cached objects, both at the moment
/// it logged "synced"; `None` if that message was not recorded. Also returns the number of bytes afterwards.
async fn told_at_synced() -> (Option<(bool, u64)>, u64) {
    let (informer, mut server) = super::informer();
    let seen: Arc<Mutex<Option<(bool, u64)>>> = Arc::default();
    let at_synced = AtSynced { informer: informer.clone(), seen: Arc::clone(&seen) };
    let _log = tracing::subscriber::set_default(at_synced);
    // If the process has only one log subscriber, the thread that first reaches a log statement decides for
    // all threads whether it is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    let told = *seen.lock();
    (told, informer.state().counters.bytes)
}

#[tokio::test(start_paused = true)]
async fn the_counters_include_the_first_list_as_soon_as_the_informer_is_synced() {
    // If a test on another thread reaches the log statement while this test sets its subscriber, the log is
    // not recorded. A later attempt records it.
    for _ in 0..100 {
        if let (Some(told), bytes) = told_at_synced().await {
            assert!(bytes > 0);
            assert_eq!(told, (true, bytes));
            return;
        }
    }
    panic!("the log message `synced` was never recorded");
}
