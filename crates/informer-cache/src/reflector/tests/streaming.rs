use std::time::Duration;

use super::world::{World, wait_bounds};
use crate::Undecodable;
use crate::reflector::{
    MAX_INITIAL_EVENTS_TIME, MAX_STREAMING_RETRIES, ReflectorConfig, ReflectorPhase, RelistReason,
    StreamingList,
};
use crate::source::{SourceErrorKind, WatchEvent};
use crate::testing::{added, bookmark, deleted, error_event, initial_events_end, modified, object};

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_one_request_that_continues_as_the_watch() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.assert_version("").assert_streaming_list().accept();
    watch.send(added(object("default/foo", 1))).send(added(object("default/foo", 2)));
    watch.send(added(object("default/bar", 3))).send(initial_events_end(4));
    watch.send(added(object("default/baz", 5)));
    let told = world.told().await;
    assert_eq!(told, ["Replaced[default/foo @2, default/bar @3] @4", "Added(default/baz @5)"]);
    watch.send(modified(object("default/qux", 6)));
    assert_eq!(world.told().await, ["Updated(default/qux @6)"]);
    assert_eq!(world.asked(), (vec![], 1));
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
}

#[tokio::test(start_paused = true)]
async fn events_before_the_end_mark_are_part_of_the_list() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.accept();
    watch.send(added(object("default/p1", 1))).send(added(object("default/p2", 2)));
    watch.send(added(object("default/p3", 3))).send(modified(object("default/p1", 4)));
    watch.send(deleted(object("default/p2", 5)));
    let broken = |key: &str| Undecodable::new(Some(key.parse().unwrap()), "no");
    watch
        .send(WatchEvent::Undecodable(broken("default/p4")))
        .send(WatchEvent::Undecodable(broken("default/p5")));
    watch.send(WatchEvent::DeletedUndecodable(broken("default/p5")));
    assert_eq!(world.told().await, Vec::<String>::new());
    watch.send(initial_events_end(6));
    let replaced = "Replaced[default/p1 @4, default/p3 @3] @6 undecodable default/p4 at version : no";
    assert_eq!(world.told().await, [replaced]);
}

#[tokio::test(start_paused = true)]
async fn streaming_list_of_rejected_objects_makes_progress() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.accept();
    watch.send(added(object("default/a", 1)));
    let deadline = ReflectorConfig::default().initial_events_deadline;
    for version in 2..5 {
        tokio::time::sleep(deadline * 2 / 3).await;
        watch.send(WatchEvent::Rejected { key: "default/a".parse().unwrap(), version: version.into() });
    }
    watch.send(initial_events_end(6));
    assert_eq!(world.told().await, ["Replaced[] @6"]);
    assert_eq!(world.status().streaming_fallbacks, 0);
}

#[tokio::test(start_paused = true)]
async fn initial_events_and_other_bookmarks_do_not_move_the_version() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.accept();
    // The bookmark of version 50 has no annotation, so it does not mark the end of the initial events.
    watch.send(added(object("default/a", 100))).send(bookmark(50));
    assert_eq!(world.told().await, Vec::<String>::new());
    assert!(world.status().last_version.is_empty() && !world.status().synced);
    watch.send(initial_events_end(2));
    assert_eq!(world.told().await, ["Replaced[default/a @100] @2"]);
    assert_eq!(world.status().last_version, "2");
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_are_used_if_the_source_supports_them_unless_configured_otherwise() {
    use StreamingList::{Auto, Off, On};
    for (mode, supported, streams) in
        [(Auto, true, true), (Auto, false, false), (On, false, true), (On, true, true), (Off, true, false)]
    {
        let mut config = ReflectorConfig::named("test");
        config.streaming_list = mode;
        let mut world = if supported { World::streaming(config) } else { World::start(config) };
        if streams {
            let _open = world.server.expect_watch().await.assert_streaming_list();
        } else {
            let _open = world.server.expect_list().await.assert_version("0");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_streaming_list_is_replaced_by_a_list() {
    let cases =
        [(SourceErrorKind::Rejected, 1), (SourceErrorKind::Other, 0), (SourceErrorKind::Forbidden, 0)];
    for (kind, remembered) in cases {
        let mut world = World::streaming(ReflectorConfig::default());
        world.server.expect_watch().await.assert_streaming_list().fail_with(kind);
        let list = world.server.expect_list().await.assert_version("0").assert_limit(Some(500));
        assert_eq!(world.lap(), Duration::ZERO);
        list.reply_page([object("default/p1", 1)], 1);
        let watch = world.server.expect_watch().await.assert_version("1").assert_plain().accept();
        assert_eq!(world.told().await, ["Replaced[default/p1 @1] @1"]);
        assert_eq!(
            (world.server.streaming_list_failures(), world.status().streaming_fallbacks),
            (remembered, 1)
        );

        // Only the failure `Rejected` of a request means that the server has no streaming lists. After that
        // the source no longer supports them, so an ordinary list follows the expired watch.
        watch.gone();
        if remembered == 1 {
            world.server.expect_list().await.assert_version("1").reply_page([], 2);
        } else {
            let _open = world.server.expect_watch().await.assert_streaming_list().assert_version("1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_rejected_with_too_many_requests_is_retried() {
    let mut world = World::streaming(ReflectorConfig::default());
    for nth in 0..2 {
        world.server.expect_watch().await.assert_streaming_list().assert_version("").too_many_requests(None);
        world.lap();
        world.told().await;
        assert!(world.status().is_failing(), "attempt {nth}");
    }
    world.server.expect_watch().await.fail_with(SourceErrorKind::ConnectionRefused);
    let watch = world.server.expect_watch().await.assert_streaming_list().accept();
    watch.send(error_event(429, "TooManyRequests"));
    let watch = world.server.expect_watch().await.assert_streaming_list().accept();
    watch.send(initial_events_end(1));
    assert_eq!(world.told().await, ["Replaced[] @1"]);
    assert_eq!(world.asked(), (vec![], 5));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_relist_requests_the_last_version_and_after_an_expiry_none() {
    let mut world = World::streaming(ReflectorConfig::default());
    world.server.expect_watch().await.send(initial_events_end(10)).gone();
    let watch = world.server.expect_watch().await.assert_streaming_list().assert_version("10");
    world.lap();
    watch.send(added(object("default/a", 1))).gone();
    let watch = world.server.expect_watch().await.assert_streaming_list().assert_version("");
    assert_eq!(world.lap(), Duration::ZERO);
    let watch = watch.send(initial_events_end(12));
    assert_eq!(world.told().await, ["Replaced[] @10", "Replaced[] @12"]);
    watch.send(bookmark(13)).close();
    let _open = world.server.expect_watch().await.assert_plain().assert_version("13");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_cut_before_its_end_mark_is_restarted_without_its_objects() {
    let mut world = World::streaming(ReflectorConfig::default());
    world.server.expect_watch().await.send(added(object("default/a", 1))).close();
    let watch = world.server.expect_watch().await.assert_streaming_list().assert_version("");
    assert_eq!(world.lap(), Duration::ZERO);
    let watch = watch.send(added(object("default/b", 2)));
    watch.send(initial_events_end(3));
    assert_eq!(world.told().await, ["Replaced[default/b @2] @3"]);
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::StreamingCut, 1)]);
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_that_are_cut_repeatedly_are_replaced_by_a_list() {
    let mut world = World::streaming(ReflectorConfig::default());
    for nth in 0..MAX_STREAMING_RETRIES {
        let watch = world.server.expect_watch().await.assert_streaming_list();
        let lap = world.lap();
        assert!(nth < 2 || wait_bounds(nth - 2).contains(&lap), "attempt {nth}: {lap:?}");
        watch.send(added(object("default/a", 1))).close();
    }
    world
        .server
        .expect_watch()
        .await
        .send(added(object("default/a", 1)))
        .fail_with(SourceErrorKind::Connection);
    world.server.expect_list().await.assert_version("0").reply_page([], 1);
    assert_eq!(world.server.streaming_list_failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_streaming_list_that_is_closed_is_replaced_by_a_list() {
    let mut world = World::streaming(ReflectorConfig::default());
    world.server.expect_watch().await.accept().close();
    world.server.expect_list().await.assert_version("0").reply_page([], 1);
    let _open = world.server.expect_watch().await.assert_plain().accept();
    assert_eq!(world.server.streaming_list_failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_an_end_mark_is_replaced_by_a_list_and_disabled() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.send(added(object("default/a", 1)));
    // New objects count as progress of a streaming list; known objects and bookmarks do not.
    tokio::time::sleep(Duration::from_secs(20)).await;
    watch.send(added(object("default/b", 2)));
    world.told().await;
    assert_eq!(world.status().phase, ReflectorPhase::StreamingList);
    world.lap();
    for version in 0..20_u64 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        watch.send(modified(object("default/b", version))).send(bookmark(version));
        if watch.is_dropped() {
            break;
        }
    }
    assert!((28..=32).contains(&world.lap().as_secs()));
    world.server.expect_list().await.assert_version("0").reply_page([object("default/a", 1)], 5);
    let watch = world.server.expect_watch().await.assert_plain().accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1] @5"]);
    assert_eq!((world.server.streaming_list_failures(), world.status().streaming_fallbacks), (1, 1));
    watch.gone();
    let _open = world.server.expect_list().await.assert_version("5");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_with_endless_objects_times_out() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.accept();
    world.lap();
    for index in 0..1000_u64 {
        watch.send(added(object(&format!("default/o{index}"), index)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        if watch.is_dropped() {
            break;
        }
    }
    let lap = world.lap();
    assert!(
        lap >= MAX_INITIAL_EVENTS_TIME && lap < MAX_INITIAL_EVENTS_TIME + Duration::from_secs(3),
        "{lap:?}"
    );
    let _open = world.server.expect_list().await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_not_accepted_is_replaced_by_a_list_and_not_disabled() {
    let mut world = World::streaming(ReflectorConfig::default());
    world.server.expect_watch().await.given_up().await;
    world.server.expect_list().await.reply_page([], 1);
    assert_eq!(world.server.streaming_list_failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_closed_right_after_the_end_mark_is_resumed() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.send(added(object("default/a", 1)));
    watch.send(initial_events_end(3)).close();
    let _open = world.server.expect_watch().await.assert_plain().assert_version("3").accept();
    assert_eq!(world.lap(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_after_a_streaming_list_keeps_the_listed_objects() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.send(added(object("default/p1", 1)));
    watch.send(initial_events_end(2)).close();
    world.server.expect_watch().await.assert_plain().gone();
    assert_eq!(world.told().await, ["Replaced[default/p1 @1] @2"]);
    let watch = world.server.expect_watch().await.assert_streaming_list().assert_version("2").accept();
    watch.send(added(object("default/p3", 3))).send(initial_events_end(4));
    assert_eq!(world.told().await, ["Replaced[default/p3 @3] @4"]);
    let error = world.status().last_error.map(|error| error.kind());
    assert_eq!(error, Some(SourceErrorKind::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_has_the_object_limit_of_a_list() {
    let mut config = ReflectorConfig::named("test");
    config.max_objects = 2;
    let mut world = World::streaming(config);
    let watch = world.server.expect_watch().await.accept();
    for index in 0..3 {
        watch.send(added(object(&format!("default/o{index}"), 1)));
    }
    watch.dropped().await;
    let _list = world.server.expect_list().await;
    let error = world.status().last_error.unwrap();
    assert!(error.to_string().contains("more than 2 objects (max_objects)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_whose_encoding_changed_is_followed_by_another_one_without_a_wait() {
    let mut world = World::streaming(ReflectorConfig::default());
    let watch = world.server.expect_watch().await.send(added(object("default/a", 1)));
    world.lap();
    watch.fail_with(SourceErrorKind::EncodingChanged);
    let watch = world.server.expect_watch().await.assert_streaming_list();
    assert_eq!(world.lap(), Duration::ZERO);
    watch.send(added(object("default/a", 1))).send(initial_events_end(2));
    assert_eq!(world.told().await, ["Replaced[default/a @1] @2"]);
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::EncodingChanged, 1)]);
}
