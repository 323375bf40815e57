//! Tests of the version check: a list with limit 1 that verifies that the server has reached the last
//! version. A watch from a version that the server has not reached sends nothing.

use std::time::Duration;

use super::world::World;
use crate::reflector::{MAX_WATCH_SILENCE, ReflectorConfig, ReflectorPhase, RelistReason};
use crate::source::{SourceErrorKind, VersionMatch};
use crate::testing::{ExpectedList, TestObject, added, bookmark, object};

fn assert_check(check: &ExpectedList<TestObject>) {
    let request = check.request();
    assert_eq!((request.limit, request.version_match), (Some(1), VersionMatch::NotOlderThan));
}

/// Responds to two consistent lists with an older version. The source may reuse cached objects in the first
/// list, so the reflector applies only the second one.
async fn reply_restored_list(world: &mut World, version: u64) {
    for _ in 0..2 {
        world.server.expect_list().await.assert_version("").reply_page([], version);
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_regression_is_detected_after_a_silent_watch() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 9)], 10).await;
    watch.dropped().await;
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    assert_eq!(world.status().phase, ReflectorPhase::Checking);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("10").fail_with(SourceErrorKind::VersionTooLarge);
    reply_restored_list(&mut world, 5).await;
    let _open = world.server.expect_watch().await.assert_version("5").accept();
    assert_eq!(world.told().await[1..], ["Replaced[] @5 rewound"]);
    let reasons = [
        (RelistReason::First, 1),
        (RelistReason::WatchExpired, 1),
        (RelistReason::ListExpired, 1),
        (RelistReason::StaleList, 1),
    ];
    assert_eq!(world.relists(), reasons);
}

#[tokio::test(start_paused = true)]
async fn the_version_is_checked_after_a_watch_that_had_events_and_then_was_silent() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.send(added(object("default/a", 11)));
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    watch.close();
    let check = world.server.expect_list().await.assert_version("11");
    assert_check(&check);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("11").gone();
    reply_restored_list(&mut world, 10).await;
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await.last().map(String::as_str), Some("Replaced[] @10 rewound"));
}

#[tokio::test(start_paused = true)]
async fn a_server_restarted_with_an_older_state_is_detected_before_it_is_watched() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 9)], 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_watch().await.assert_version("10").fail_with(SourceErrorKind::ConnectionRefused);
    // The server still accepts no connection, so the version check fails like the watch before it, and is
    // repeated.
    world.server.expect_list().await.assert_version("10").fail_with(SourceErrorKind::ConnectionRefused);
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("10").gone();
    reply_restored_list(&mut world, 5).await;
    let _open = world.server.expect_watch().await.assert_version("5").accept();
    assert_eq!(world.told().await[1..], ["Replaced[] @5 rewound"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_restarted_with_its_state_is_watched_from_the_last_version() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_watch().await.fail_with(SourceErrorKind::ConnectionRefused);
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([], 10);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    // This watch breaks after the server has accepted it, so no refused connection precedes the next watch.
    // That watch therefore needs no second version check.
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_the_version_after_a_long_silence_is_watched_from_it() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    watch.close();
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([object("default/a", 9)], 12);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await, ["Replaced[] @10"], "the objects of the check are not a list");
    // The last version check is recent, so the reflector does not check the version again before the next
    // watch.
    tokio::time::sleep(MAX_WATCH_SILENCE / 2).await;
    watch.close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_response_older_than_the_requested_version_is_a_regression() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.dropped().await;
    world.server.expect_list().await.assert_limit(Some(1)).reply_page([], 7);
    world.server.expect_list().await.assert_version("10").gone();
    reply_restored_list(&mut world, 7).await;
    let _open = world.server.expect_watch().await.assert_version("7").accept();
    assert_eq!(world.told().await[1..], ["Replaced[] @7 rewound"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_reports_only_older_versions_is_checked_now_and_then() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.send(bookmark(4));
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    assert!(!watch.is_dropped(), "the list was recent");
    watch.send(bookmark(4));
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([], 10);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    watch.send(bookmark(4)).send(added(object("default/a", 11)));
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    // The watch has sent a version newer than its start version, so a bookmark with an older version is only
    // late and causes no version check.
    watch.send(bookmark(4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!watch.is_dropped());
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_a_version_check_that_fails_for_other_reasons() {
    for kind in [SourceErrorKind::Forbidden, SourceErrorKind::Unavailable, SourceErrorKind::Rejected] {
        let mut world = World::start(ReflectorConfig::default());
        let watch = world.server.expect_sync([], 10).await;
        watch.dropped().await;
        world.server.expect_list().await.assert_limit(Some(1)).fail_with(kind);
        let _open = world.server.expect_watch().await.assert_version("10").accept();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_version_check_is_retried() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    watch.send(bookmark(4));
    world.server.expect_list().await.assert_limit(Some(1)).fail_with(SourceErrorKind::Connection);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    watch.send(bookmark(4));
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("10").gone();
}
