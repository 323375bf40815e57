//! Whether the server still has the last version: a watch from one that it has not reached is silent.

use std::time::Duration;

use super::world::World;
use crate::reflector::{MAX_WATCH_SILENCE, ReflectorConfig, ReflectorPhase, RelistReason};
use crate::source::{SourceErrorKind, VersionMatch};
use crate::testing::{ExpectedList, TestObject, added, bookmark, object};

/// The question, and nothing else.
fn assert_check(check: &ExpectedList<TestObject>) {
    let request = check.request();
    assert_eq!((request.limit, request.version_match), (Some(1), VersionMatch::NotOlderThan));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_is_noticed_when_a_watch_from_a_version_that_it_has_not_reached_was_silent() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 9)], 10).await;
    watch.dropped().await;
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    assert_eq!(world.status().phase, ReflectorPhase::Checking);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("10").fail_with(SourceErrorKind::VersionTooLarge);
    // The first one may rely on what is held, and is no proof.
    world.server.expect_list().await.assert_version("").reply_page([], 5);
    world.server.expect_list().await.assert_version("").reply_page([], 5);
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
    world.server.expect_list().await.assert_version("").reply_page([], 10);
    world.server.expect_list().await.assert_version("").reply_page([], 10);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await.last().map(String::as_str), Some("Replaced[] @10 rewound"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_started_again_with_an_older_state_is_noticed_before_it_is_watched() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 9)], 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_watch().await.assert_version("10").fail_with(SourceErrorKind::ConnectionRefused);
    // No server answers yet.
    world.server.expect_list().await.assert_version("10").fail_with(SourceErrorKind::ConnectionRefused);
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.fail_with(SourceErrorKind::VersionTooLarge);
    world.server.expect_list().await.assert_version("10").gone();
    world.server.expect_list().await.assert_version("").reply_page([], 5);
    world.server.expect_list().await.assert_version("").reply_page([], 5);
    let _open = world.server.expect_watch().await.assert_version("5").accept();
    assert_eq!(world.told().await[1..], ["Replaced[] @5 rewound"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_started_again_with_its_state_is_watched_from_the_last_version() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_watch().await.fail_with(SourceErrorKind::ConnectionRefused);
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([], 10);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    // It is asked once for each time that nobody listened.
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_the_version_after_a_long_silence_is_watched_from_there() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    watch.close();
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([object("default/a", 9)], 12);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await, ["Replaced[] @10"], "what the answer holds is not taken for a list");
    // It has just said so: it is not asked again.
    tokio::time::sleep(MAX_WATCH_SILENCE / 2).await;
    watch.close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_with_an_older_version_than_it_was_asked_for_went_back() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.dropped().await;
    world.server.expect_list().await.assert_limit(Some(1)).reply_page([], 7);
    world.server.expect_list().await.assert_version("10").gone();
    world.server.expect_list().await.assert_version("").reply_page([], 7);
    world.server.expect_list().await.assert_version("").reply_page([], 7);
    let _open = world.server.expect_watch().await.assert_version("7").accept();
    assert_eq!(world.told().await[1..], ["Replaced[] @7 rewound"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_tells_of_older_versions_alone_is_doubted_now_and_then() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.send(bookmark(4));
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    assert!(!watch.is_dropped(), "the list was not long ago");
    watch.send(bookmark(4));
    let check = world.server.expect_list().await.assert_version("10");
    assert_check(&check);
    check.reply_page([], 10);
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    watch.send(bookmark(4)).send(added(object("default/a", 11)));
    tokio::time::sleep(MAX_WATCH_SILENCE).await;
    // Behind what the same watch has told, an older one is only late.
    watch.send(bookmark(4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!watch.is_dropped());
    assert_eq!(world.status().version_checks, 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_in_another_way_does_not_keep_the_watch_from_being_asked_for() {
    for kind in [SourceErrorKind::Forbidden, SourceErrorKind::Unavailable, SourceErrorKind::Rejected] {
        let mut world = World::start(ReflectorConfig::default());
        let watch = world.server.expect_sync([], 10).await;
        watch.dropped().await;
        world.server.expect_list().await.assert_limit(Some(1)).fail_with(kind);
        let _open = world.server.expect_watch().await.assert_version("10").accept();
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubt_whose_question_failed_stays_and_is_asked_again() {
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
