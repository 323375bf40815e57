//! Tests that a failed request is continued instead of starting again with a list. The cases come from a
//! comparison of request traces with client-go.

use std::time::Duration;

use super::world::{World, wait_bounds};
use crate::reflector::{ReflectorConfig, RelistReason};
use crate::source::{SourceError, SourceErrorKind};
use crate::testing::{added, initial_events_end, object};

const LATER: Duration = Duration::from_secs(5);

fn retry_later(kind: SourceErrorKind) -> SourceError {
    SourceError::new(kind, "try later").with_retry_after(Some(LATER))
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_before_a_watch_response_lead_to_a_list_only_after_several() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    for _ in 0..3 {
        let watch = world.server.expect_watch().await.assert_version("10");
        world.lap();
        watch.fail_with(SourceErrorKind::Connection);
        // After a refused connection, the next server that accepts a connection first receives a version
        // check: a list of one object.
        world.server.expect_list().await.assert_limit(Some(1)).assert_version("10").reply_page([], 10);
    }
    let watch = world.server.expect_watch().await.assert_version("10");
    assert!(wait_bounds(2).contains(&world.lap()));
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_list().await.assert_version("10").reply_page([], 11);
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::ShortWatches, 1)]);
}

#[tokio::test(start_paused = true)]
async fn short_watches_with_events_do_not_increase_the_backoff() {
    for broken in [None, Some(SourceErrorKind::Connection)] {
        let mut world = World::start(ReflectorConfig::default());
        let mut watch = world.server.expect_sync([], 10).await;
        for nth in 0..20_u64 {
            watch.send(added(object("default/a", 11 + nth)));
            match broken {
                Some(kind) => watch.fail_with(kind),
                None => watch.close(),
            }
            world.lap();
            watch = world.server.expect_watch().await.assert_version(11 + nth).accept();
            let lap = world.lap();
            let waits = nth >= u64::from(crate::reflector::MAX_SHORT_WATCHES);
            assert!(if waits { wait_bounds(0).contains(&lap) } else { lap.is_zero() }, "{nth}: {lap:?}");
        }
        // The waits after the short watches did not increase the backoff, so the next failure waits as long
        // as a first one.
        watch.fail_with(SourceErrorKind::Unavailable);
        world.lap();
        let _list = world.server.expect_list().await;
        assert!(wait_bounds(0).contains(&world.lap()));
    }
}

#[tokio::test(start_paused = true)]
async fn watches_delayed_by_retry_after_lead_to_a_list_only_after_several() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    for _ in 0..3 {
        let watch = world.server.expect_watch().await.assert_version("10");
        watch.fail(retry_later(SourceErrorKind::Unavailable));
        world.lap();
    }
    let watch = world.server.expect_watch().await.assert_version("10");
    assert!(world.lap() >= LATER);
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    watch.fail(retry_later(SourceErrorKind::Unavailable));
    world.server.expect_list().await.assert_version("10").reply_page([], 11);
}

#[tokio::test(start_paused = true)]
async fn a_page_delayed_by_retry_after_does_not_restart_the_list() {
    for kind in [SourceErrorKind::TooManyRequests, SourceErrorKind::Unavailable] {
        let mut world = World::start(ReflectorConfig::default());
        world.server.expect_list().await.reply_page_of_many([object("default/a", 1)], 10, "c1");
        let page = world.server.expect_list().await.assert_continues(Some("c1"));
        world.lap();
        page.fail(retry_later(kind));
        let page = world.server.expect_list().await.assert_continues(Some("c1")).assert_version("");
        let lap = world.lap();
        assert!((LATER..LATER + Duration::from_secs(1)).contains(&lap), "{lap:?}");
        page.reply_page([object("default/b", 2)], 10);
        let _open = world.server.expect_watch().await.assert_version("10").accept();
        assert_eq!(world.told().await, ["Replaced[default/a @1, default/b @2] @10"]);
        assert_eq!(world.status().list_requests, 3);
        assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_whose_connection_breaks_does_not_restart_the_list() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page_of_many([object("default/a", 1)], 10, "c1");
    let page = world.server.expect_list().await.assert_continues(Some("c1"));
    world.lap();
    page.fail_with(SourceErrorKind::Connection);
    let page = world.server.expect_list().await.assert_continues(Some("c1"));
    assert!(wait_bounds(0).contains(&world.lap()));
    page.reply_page([object("default/b", 2)], 10);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1, default/b @2] @10"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_always_rejected_ends_its_list() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page_of_many([object("default/a", 1)], 10, "c1");
    for _ in 0..=crate::reflector::MAX_PAGE_RETRIES {
        let page = world.server.expect_list().await.assert_continues(Some("c1"));
        page.fail(retry_later(SourceErrorKind::TooManyRequests));
    }
    let _list = world.server.expect_list().await.assert_continues(None).assert_version("0");
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::ListFailed, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_requested_while_a_page_waits_replaces_it_after_the_same_wait() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page_of_many([object("default/a", 1)], 10, "c1");
    let page = world.server.expect_list().await.assert_continues(Some("c1"));
    world.lap();
    page.fail(retry_later(SourceErrorKind::TooManyRequests));
    assert!(world.told().await.is_empty());
    world.handle.request_consistent_relist();
    let _list = world.server.expect_list().await.assert_continues(None).assert_version("");
    assert!(world.lap() >= LATER, "Retry-After also delays the relist");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_delayed_by_retry_after_is_not_replaced_by_a_list() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.assert_streaming_list();
    world.lap();
    watch.fail(retry_later(SourceErrorKind::Unavailable));
    let watch = world.server.expect_watch().await.assert_streaming_list();
    assert!(world.lap() >= LATER);
    let _open = watch.send(added(object("default/a", 1))).send(initial_events_end(3));
    assert_eq!(world.told().await, ["Replaced[default/a @1] @3"]);
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_without_a_response_are_replaced_by_a_list_but_not_disabled() {
    let mut world = World::streaming(ReflectorConfig::default());
    for nth in 0..=crate::reflector::MAX_STREAMING_RETRIES {
        let watch = world.server.expect_watch().await.assert_streaming_list();
        if let Some(before) = nth.checked_sub(1) {
            assert!(wait_bounds(before).contains(&world.lap()), "{nth}");
        }
        world.lap();
        watch.fail_with(SourceErrorKind::Connection);
    }
    world.server.expect_list().await.reply_page([], 1);
    assert_eq!(world.lap(), Duration::ZERO);
    assert_eq!(world.server.streaming_list_failures(), 0);
}
