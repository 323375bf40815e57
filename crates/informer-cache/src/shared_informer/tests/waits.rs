//! Tests of waiting for the sync of an informer: by several tasks, with timeouts, with cancellation.

use std::time::Duration;

use super::{Log, SOON, informer, quiet};
use crate::SharedInformer;
use crate::source::SourceErrorKind;
use crate::sync::{CacheSynced, wait_for_cache_sync};
use crate::testing::{ScriptedServer, ScriptedSource, TestObject, added, object};

fn named(name: &str) -> (SharedInformer<TestObject>, ScriptedServer<TestObject>) {
    let (source, server) = ScriptedSource::new();
    (SharedInformer::builder(source).name(name).build(), server)
}

#[tokio::test(start_paused = true)]
async fn every_waiting_task_is_woken() {
    let (informer, mut server) = informer();
    let handler = informer.add_handler(Log::default().handler()).unwrap();
    let waiters: Vec<_> = (0..64)
        .map(|number| {
            let informer = informer.clone();
            tokio::spawn(async move {
                match number % 2 {
                    0 => informer.wait_for_sync(Duration::from_secs(60)).await.is_ok(),
                    _ => informer
                        .wait_until_for(Duration::from_secs(60), |cache| cache.len() == 1)
                        .await
                        .is_ok(),
                }
            })
        })
        .collect();
    quiet().await;
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    for waiter in waiters {
        assert!(waiter.await.unwrap());
    }
    handler.wait_for_sync(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_no_caches_resolves_at_once() {
    wait_for_cache_sync([], Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sync_timeout_names_only_the_unsynced_caches_sorted_with_their_errors() {
    let (quick, mut quick_server) = named("b-quick");
    let (denied, mut denied_server) = named("c-denied");
    let (idle, _idle_server) = named("a-idle");
    let handler = denied.add_handler(Log::default().handler()).unwrap();
    let _runs = (quick.start(), denied.start());
    let _watch = quick_server.expect_sync([], "5").await;
    denied_server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
    let all: [&dyn CacheSynced; 4] = [&denied, &quick, &idle, &handler];
    let error = wait_for_cache_sync(all, Duration::from_millis(500)).await.unwrap_err();
    let names: Vec<_> = error.unsynced().iter().map(|late| late.name.clone()).collect();
    assert_eq!(names.len(), 3);
    assert!(names[0].contains("handler-1") && names[1].contains("a-idle") && names[2].contains("c-denied"));
    let text = error.to_string();
    assert!(text.contains("a-idle (objects of a script) is not started"), "{text}");
    assert!(text.contains("scripted failure: forbidden"), "{text}");
    assert!(!text.contains("b-quick"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_wait_for_sync_has_no_effect() {
    let (informer, mut server) = informer();
    {
        let wait = informer.wait_for_sync(Duration::from_secs(60));
        assert!(tokio::time::timeout(Duration::from_millis(1), wait).await.is_err());
    }
    let _run = informer.start();
    let _watch = server.expect_sync([], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_condition_on_the_cache_is_evaluated_after_each_change() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    let watch = server.expect_sync([], "5").await;
    let wait = informer.wait_until(|cache| cache.len() == 3);
    let feed = async {
        for version in 6..9_u64 {
            quiet().await;
            watch.send(added(object(&format!("o{version}"), version)));
        }
    };
    let (met, ()) = tokio::join!(wait, feed);
    met.unwrap();
    assert!(informer.wait_until_for(SOON, |cache| cache.len() == 4).await.is_err());
}
