//! Tests of the predicate that objects must pass before they are cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informer_core::Object;
use proptest::prelude::*;

use super::{Log, SOON, quiet};
use crate::reflector::ReflectorConfig;
use crate::source::{ListPart, Listed};
use crate::testing::{
    ScriptedServer, ScriptedSource, TestObject, added, bookmark, deleted, initial_events_end, modified,
    object,
};
use crate::{SharedInformer, SharedInformerBuilder};

fn kept(key: &str, version: &str) -> TestObject {
    object(key, version).with_text("keep")
}

fn builder() -> (SharedInformerBuilder<TestObject>, ScriptedServer<TestObject>) {
    let (source, server) = ScriptedSource::new();
    let builder = SharedInformer::builder(source).name("things");
    (builder.filter(|object: &TestObject| object.text() == "keep"), server)
}

fn keys(informer: &SharedInformer<TestObject>) -> Vec<String> {
    let mut keys: Vec<String> = informer.indexer().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn objects_that_fail_the_filter_are_neither_cached_nor_announced() {
    let (builder, mut server) = builder();
    let informer = builder.build();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([kept("a", "1"), object("b", "2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    watch.send(added(object("c", "6"))).send(added(kept("d", "7"))).send(modified(object("c", "8")));
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "added d @7"]);
    assert_eq!(keys(&informer), ["a", "d"]);
    assert_eq!(informer.last_sync_resource_version(), "8", "rejected events move the version forward");
}

#[tokio::test(start_paused = true)]
async fn object_is_deleted_when_it_fails_the_filter_and_added_when_it_passes_again() {
    let (builder, mut server) = builder();
    let informer = builder.build();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([kept("a", "1")], "5").await;
    watch.send(modified(object("a", "6")));
    quiet().await;
    assert!(!informer.indexer().contains("a"));
    watch.send(modified(object("a", "7"))).send(modified(kept("a", "8"))).send(deleted(object("a", "9")));
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "deleted a @6", "added a @8", "deleted a @9"]);
}

#[tokio::test(start_paused = true)]
async fn relist_deletes_objects_that_fail_the_filter_meanwhile() {
    let (builder, mut server) = builder();
    let informer = builder.build();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([kept("a", "1"), kept("b", "2")], "5").await;
    watch.gone();
    server.expect_list().await.reply_page([object("a", "7"), kept("b", "2")], "9");
    let watch = server.expect_watch().await.assert_version("9").accept();
    watch.send(bookmark("10"));
    quiet().await;
    assert_eq!(log.take()[2..], ["deleted a @1 (last known)"]);
    assert_eq!(keys(&informer), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_source_without_versions_is_not_resumed_from_a_rejected_object() {
    let (builder, mut server) = builder();
    let informer = builder.build();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    server.expect_list().await.reply_page([kept("a", "1"), kept("b", "2")], "");
    let watch = server.expect_watch().await.assert_version("").accept();
    // The watch begins with the current state. `b` was changed since the list, and `c` was never cached.
    watch.send(added(kept("a", "1"))).send(added(object("c", "3")));
    tokio::time::sleep(SOON).await;
    watch.close();
    let watch = server.expect_watch().await.assert_version("").accept();
    watch.send(added(object("b", "4"))).send(modified(object("c", "6"))).send(modified(kept("a", "7")));
    tokio::time::sleep(SOON).await;
    watch.close();
    let _watch = server.expect_watch().await.assert_version("7").accept();
    assert_eq!(keys(&informer), ["a"]);
    let seen = log.take();
    assert!(seen.iter().any(|event| event.starts_with("deleted b")), "{seen:?}");
    assert!(!seen.iter().any(|event| event.contains(" c ")), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn streaming_list_contains_only_objects_that_pass() {
    let (source, mut server) = ScriptedSource::streaming();
    let informer =
        SharedInformer::builder(source).filter(|object: &TestObject| object.text() == "keep").build();
    let _run = informer.start();
    let watch = server.expect_watch().await.assert_streaming_list().accept();
    watch.send(added(kept("a", "3"))).send(added(object("b", "2"))).send(added(kept("c", "1")));
    watch.send(modified(object("c", "4"))).send(initial_events_end("5"));
    informer.wait_for_sync(SOON).await.unwrap();
    assert_eq!(keys(&informer), ["a"], "`c` was changed before the end of the list");
}

#[tokio::test(start_paused = true)]
async fn streaming_list_of_objects_that_fail_the_filter_makes_progress() {
    let (source, mut server) = ScriptedSource::streaming();
    let informer =
        SharedInformer::builder(source).filter(|object: &TestObject| object.text() == "keep").build();
    let _run = informer.start();
    let watch = server.expect_watch().await.assert_streaming_list().accept();
    let deadline = ReflectorConfig::default().initial_events_deadline;
    for version in ["1", "2", "3"] {
        tokio::time::sleep(deadline * 2 / 3).await;
        watch.send(added(object(version, version)));
    }
    watch.send(initial_events_end("5"));
    informer.wait_for_sync(SOON).await.unwrap();
    assert_eq!(informer.reflector_status().streaming_fallbacks, 0);
    watch.send(modified(object("1", "6")));
    quiet().await;
    assert_eq!(informer.reflector_status().events.deleted, 1, "a later rejected object is a deletion");
}

#[tokio::test(start_paused = true)]
async fn list_is_complete_although_the_filter_rejects_whole_pages() {
    let (builder, mut server) = builder();
    let informer = builder.build();
    let _run = informer.start();
    // More pages than `MAX_EMPTY_PAGES`, after which a list without objects fails.
    for page in 0..20 {
        let rejected = [object(&format!("b{page}"), "1")];
        server.expect_list().await.reply_page_of_many(rejected, "5", &format!("page {page}"));
    }
    server.expect_list().await.reply_page([kept("a", "2")], "5");
    informer.wait_for_sync(SOON).await.unwrap();
    assert_eq!(keys(&informer), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn filter_sees_objects_before_the_transform_and_unchanged_ones_only_once() {
    let (builder, mut server) = builder();
    // The transform removes the text of an object, which the predicate reads. An object would therefore be
    // dropped if the predicate were called after the transform, or again for the cached object.
    let informer = builder
        .transform(|object| {
            let version = object.resource_version().clone();
            Ok(Arc::new(super::object(object.key().as_str(), version)))
        })
        .build();
    let _run = informer.start();
    let watch = server.expect_sync([kept("a", "1")], "5").await;
    watch.gone();
    let list = server.expect_list().await;
    let cached =
        list.request().context.unchanged("a", "uid of a", &"1".into()).expect("the object is cached");
    let list = list.accept();
    list.part(ListPart::Items(vec![Listed::Known(cached)])).end("9");
    let _watch = server.expect_watch().await.accept();
    quiet().await;
    assert_eq!(keys(&informer), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn object_whose_filter_panics_is_quarantined_and_others_are_cached() {
    let (source, mut server) = ScriptedSource::new();
    let informer = SharedInformer::builder(source)
        .name("things")
        .filter(|object: &TestObject| if object.text() == "panic" { panic!("on purpose") } else { true })
        .build();
    let _run = informer.start();
    let broken = |version| object("b", version).with_text("panic");
    let watch = server.expect_sync([object("a", "1"), broken("2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    assert_eq!(keys(&informer), ["a"]);
    let entries = informer.undecodable();
    assert!(entries[0].to_string().contains("the predicate panicked: on purpose"), "{entries:?}");
    watch.send(modified(object("b", "6"))).send(modified(broken("7")));
    quiet().await;
    assert_eq!(keys(&informer), ["a", "b"], "the last decoded state stays in the cache");
    assert_eq!(informer.state().undecodable, 1);
}

/// Random changes that the server sends: the number of the object's key, and whether the new state passes the
/// filter; `None` for a deletion.
fn changes() -> impl Strategy<Value = Vec<(u8, Option<bool>)>> {
    prop::collection::vec((0..4_u8, prop::option::weighted(0.8, any::<bool>())), 0..40)
}

proptest! {
    #[test]
    fn cache_with_a_filter_has_the_objects_that_pass_and_events_follow_it(changes in changes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (builder, mut server) = builder();
            let informer = builder.build();
            let log = Log::default();
            informer.add_handler(log.handler()).unwrap();
            let _run = informer.start();
            let watch = server.expect_sync([], "5").await;
            let (mut stored, mut version) = (BTreeMap::new(), 5);
            for (key, passes) in changes {
                version += 1;
                let state = |passes| {
                    let object = object(&format!("k{key}"), version.to_string());
                    if passes { object.with_text("keep") } else { object }
                };
                match passes {
                    Some(passes) => {
                        let is_new = stored.insert(key, passes).is_none();
                        watch.send(if is_new { added(state(passes)) } else { modified(state(passes)) });
                    }
                    None => {
                        if let Some(passes) = stored.remove(&key) {
                            watch.send(deleted(state(passes)));
                        }
                    }
                }
            }
            quiet().await;
            let passing = stored.iter().filter(|(_, passes)| **passes).map(|(key, _)| format!("k{key}"));
            assert_eq!(keys(&informer), passing.collect::<Vec<_>>());
            // The events of the handler are applied to a set of keys, in the order of their delivery. The
            // resulting set must be equal to the keys in the cache.
            let mut announced = BTreeSet::new();
            for line in log.take() {
                let mut words = line.split(' ');
                let (event, key) = (words.next().unwrap(), words.next().unwrap().to_owned());
                match event {
                    "added" => assert!(announced.insert(key), "{line}"),
                    "updated" => assert!(announced.contains(&key), "{line}"),
                    _ => assert!(announced.remove(&key), "{line}"),
                }
            }
            assert_eq!(keys(&informer), Vec::from_iter(announced));
        });
    }
}
