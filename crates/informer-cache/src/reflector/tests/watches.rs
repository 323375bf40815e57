use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::world::{World, wait_bounds};
use crate::Undecodable;
use crate::reflector::{MAX_SHORT_WATCHES, ReflectorConfig, ReflectorPhase, RelistReason};
use crate::source::{ServerStatus, SourceErrorKind, WatchEvent};
use crate::testing::{added, bookmark, deleted, error_event, modified, object};

#[tokio::test(start_paused = true)]
async fn every_new_version_is_reported_in_order() {
    let versions: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut config = ReflectorConfig::named("test");
    let sink = Arc::clone(&versions);
    config.on_version = Some(Arc::new(move |version| sink.lock().push(version.to_string())));
    let mut world = World::start(config);
    let watch = world.server.expect_sync([], 5).await;
    watch.send(added(object("default/a", 10))).send(modified(object("default/a", 20)));
    watch.send(bookmark(30)).send(bookmark(30)).send(deleted(object("default/a", 40)));
    let told = world.told().await;
    let expected = [
        "Replaced[] @5",
        "Added(default/a @10)",
        "Updated(default/a @20)",
        "Bookmark(@30)",
        "Bookmark(@30)",
        "Deleted(default/a)",
    ];
    assert_eq!(told, expected);
    assert_eq!(*versions.lock(), ["5", "10", "20", "30", "40"]);
    let events = world.status().events;
    assert_eq!((events.added, events.modified, events.deleted, events.bookmarks), (1, 1, 1, 2));
    assert_eq!(events.total(), 5);
}

#[tokio::test(start_paused = true)]
async fn older_events_are_delivered_but_never_move_the_version_back() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/foo", 1)], 10).await;
    watch.send(deleted(object("default/foo", 50))).send(added(object("default/bar", 55)));
    watch.send(added(object("default/baz", 32))).send(bookmark(20)).close();
    let _open = world.server.expect_watch().await.assert_version("55").accept();
    let told = world.told().await;
    assert_eq!(told[1..], ["Deleted(default/foo)", "Added(default/bar @55)", "Added(default/baz @32)"]);
    assert_eq!(world.status().older_versions, 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_keeps_the_last_version() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.send(added(object("default/a", ""))).send(bookmark("")).close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await[1..], ["Added(default/a @)"]);
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_not_numbers_follow_the_last_event() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], "zz").await;
    watch.send(added(object("default/a", "aa"))).close();
    let _open = world.server.expect_watch().await.assert_version("aa").accept();
}

#[tokio::test(start_paused = true)]
async fn a_watch_closed_in_time_is_reopened_at_once_without_a_relist() {
    let mut world = World::start(ReflectorConfig::default());
    let mut watch = world.server.expect_sync([], 10).await;
    for version in 11..31_u64 {
        tokio::time::sleep(Duration::from_secs(300)).await;
        watch.send(bookmark(version)).close();
        world.lap();
        watch = world.server.expect_watch().await.assert_version(version).accept();
        assert_eq!(world.lap(), Duration::ZERO);
    }
    // A watch that sent no event is also resumed, but after a version check, because the server has not
    // confirmed the last version for a long time.
    tokio::time::sleep(Duration::from_secs(300)).await;
    watch.close();
    world.server.expect_list().await.assert_version("30").assert_limit(Some(1)).reply_page([], 30);
    let _open = world.server.expect_watch().await.assert_version("30").accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    assert_eq!(world.status().last_error.map(|error| error.kind()), None);
}

#[tokio::test(start_paused = true)]
async fn short_watches_with_events_are_reopened_at_once_up_to_a_limit() {
    for broken in [None, Some(SourceErrorKind::Connection), Some(SourceErrorKind::Timeout)] {
        let mut world = World::start(ReflectorConfig::default());
        let mut watch = world.server.expect_sync([], 10).await;
        for nth in 0..10_u64 {
            watch.send(bookmark(11 + nth));
            match broken {
                Some(kind) => watch.fail_with(kind),
                None => watch.close(),
            }
            world.lap();
            watch = world.server.expect_watch().await.assert_version(11 + nth).accept();
            let at_once = nth < u64::from(MAX_SHORT_WATCHES);
            assert_eq!(world.lap() == Duration::ZERO, at_once, "watch {nth}, {broken:?}");
        }
        assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_that_worked_is_resumed_at_once_without_backoff() {
    let kinds: Arc<Mutex<Vec<SourceErrorKind>>> = Arc::default();
    let mut config = ReflectorConfig::named("test");
    let sink = Arc::clone(&kinds);
    config.on_error = Some(Arc::new(move |error| sink.lock().push(error.kind())));
    let mut world = World::start(config);
    let mut watch = world.server.expect_sync([], 10).await;
    let cut = [SourceErrorKind::Connection, SourceErrorKind::Timeout];
    for nth in 0..20_usize {
        // In each round, the watch is open for 2 s, so it is not a short watch, and then breaks. In every
        // second round it has sent an event before.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let version = 10 + u64::try_from(nth / 2).unwrap();
        if nth % 2 == 0 {
            watch.send(bookmark(version));
        }
        watch.fail_with(cut[nth / 2 % 2]);
        world.lap();
        let again = world.server.expect_watch().await.assert_version(version);
        assert_eq!(world.lap(), Duration::ZERO, "cut {nth}");
        assert_eq!(world.status().failures, 1, "the failure is visible until the next response");
        watch = again.accept();
        world.told().await;
        assert_eq!(world.status().failures, 0);
    }
    assert_eq!(kinds.lock().len(), 20, "the error hook is called for each failure");
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    // The request after the next break is refused. The wait is then the first step of the backoff, because
    // the earlier breaks did not increase the backoff.
    tokio::time::sleep(Duration::from_secs(2)).await;
    watch.fail_with(SourceErrorKind::Connection);
    let refused = world.server.expect_watch().await;
    world.lap();
    refused.fail_with(SourceErrorKind::ConnectionRefused);
    world.server.expect_list().await.assert_limit(Some(1)).reply_page([], 19);
    let _open = world.server.expect_watch().await.accept();
    assert!(wait_bounds(0).contains(&world.lap()));
}

#[tokio::test(start_paused = true)]
async fn short_watches_back_off_and_lead_to_a_relist_only_after_several() {
    let mut world = World::start(ReflectorConfig::default());
    let mut watch = world.server.expect_sync([], 10).await;
    for nth in 0..MAX_SHORT_WATCHES {
        // The short watches end in different ways: the server closes one after 10 ms, one breaks, and the
        // server closes the others immediately.
        match nth {
            1 => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                watch.close();
            }
            2 => watch.fail_with(SourceErrorKind::Connection),
            _ => watch.close(),
        }
        world.lap();
        let again = world.server.expect_watch().await.assert_version("10");
        assert!(wait_bounds(nth).contains(&world.lap()));
        watch = again.accept();
    }
    watch.fail_with(SourceErrorKind::Connection);
    world.server.expect_list().await.assert_version("10").reply_page([], 11);
    let _open = world.server.expect_watch().await.accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::ShortWatches, 1)]);
    assert_eq!(world.status().short_watches, u64::from(MAX_SHORT_WATCHES) + 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_watch_resets_the_count_of_short_watches() {
    let mut world = World::start(ReflectorConfig::default());
    let mut watch = world.server.expect_sync([], 10).await;
    for _ in 0..4 {
        for _ in 0..MAX_SHORT_WATCHES {
            watch.close();
            watch = world.server.expect_watch().await.accept();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        watch.send(bookmark(10)).close();
        watch = world.server.expect_watch().await.accept();
    }
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
}

#[tokio::test(start_paused = true)]
async fn rejected_watches_back_off_and_never_relist() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    for nth in 0..40 {
        if nth % 2 == 1 {
            // After refused connections, the next server that accepts a connection first receives a version
            // check.
            world.server.expect_list().await.assert_limit(Some(1)).assert_version("10").reply_page([], 10);
        }
        let watch = world.server.expect_watch().await.assert_version("10");
        let lap = world.lap();
        assert!(nth == 0 || wait_bounds(nth - 1).contains(&lap), "wait {nth}: {lap:?}");
        match nth % 2 {
            0 => watch.fail_with(SourceErrorKind::ConnectionRefused),
            _ => watch.too_many_requests(None),
        }
    }
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
    assert_eq!(world.asked().1, 40);
}

#[tokio::test(start_paused = true)]
async fn a_custom_backoff_is_used() {
    let mut config = ReflectorConfig::named("test");
    config.backoff.initial = Duration::from_millis(10);
    config.backoff.cap = Duration::from_millis(100);
    config.backoff.jitter = 0.0;
    let mut world = World::start(config);
    world.server.expect_list().await.reply_page([], 10);
    for _ in 0..5 {
        world.server.expect_watch().await.too_many_requests(None);
    }
    let _open = world.server.expect_watch().await.accept();
    let lap = world.lap().as_millis();
    assert!((250..=256).contains(&lap), "10+20+40+80+100, got {lap}");
}

#[tokio::test(start_paused = true)]
async fn the_backoff_is_reset_only_after_two_minutes_without_a_failure() {
    let mut world = World::start(ReflectorConfig::default());
    let mut watch = world.server.expect_sync([], 10).await;
    // Each watch works for less than two minutes, after which the backoff would be reset. The backoff
    // therefore grows from one wait to the next.
    for nth in 0..6 {
        tokio::time::sleep(Duration::from_secs(119)).await;
        watch.send(error_event(429, "TooManyRequests"));
        world.lap();
        watch = world.server.expect_watch().await.accept();
        assert!(wait_bounds(nth).contains(&world.lap()));
    }
    tokio::time::sleep(Duration::from_secs(121)).await;
    watch.send(error_event(429, "TooManyRequests"));
    world.lap();
    let _open = world.server.expect_watch().await.accept();
    assert!(wait_bounds(0).contains(&world.lap()));
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_as_status_or_event_delay_the_next_watch_once() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    world.server.expect_watch().await.too_many_requests(Some(Duration::from_secs(7)));
    world.lap();
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.lap().as_secs(), 7);
    let status =
        ServerStatus { code: 429, retry_after: Some(Duration::from_secs(9)), ..ServerStatus::default() };
    watch.send(WatchEvent::Error(status)).close();
    let watch = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.lap().as_secs(), 9);
    watch.send(error_event(429, "TooManyRequests")).close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.asked(), (vec!["0".into()], 4));
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_list_and_a_broken_connection_does_not() {
    use SourceErrorKind::{
        Connection, Expired, Forbidden, Other, Protocol, Timeout, Unavailable, VersionTooLarge,
    };
    // Each case consists of the failure, whether the server accepted the watch before it, and the reason of
    // the expected relist.
    let cases = [
        (Expired, false, Some(RelistReason::WatchExpired)),
        (Expired, true, Some(RelistReason::WatchExpired)),
        (VersionTooLarge, false, Some(RelistReason::WatchExpired)),
        (Forbidden, false, Some(RelistReason::WatchFailed)),
        (Unavailable, false, Some(RelistReason::WatchFailed)),
        (Unavailable, true, Some(RelistReason::WatchFailed)),
        (Protocol, true, Some(RelistReason::WatchFailed)),
        (Other, true, Some(RelistReason::WatchFailed)),
        (Connection, true, None),
        (Timeout, true, None),
    ];
    for (kind, accepted, relist) in cases {
        let mut world = World::start(ReflectorConfig::default());
        world.server.expect_list().await.reply_page([], 10);
        let watch = world.server.expect_watch().await;
        world.lap();
        if accepted {
            watch.send(bookmark(11)).fail_with(kind);
        } else {
            watch.fail_with(kind);
        }
        let version = if accepted { "11" } else { "10" };
        match relist {
            Some(reason) => {
                let list = world.server.expect_list().await.assert_version(version).assert_limit(None);
                assert!(wait_bounds(0).contains(&world.lap()), "{kind}");
                list.reply_page([], 12);
                assert_eq!(world.relists(), [(RelistReason::First, 1), (reason, 1)]);
            }
            None => {
                let _open = world.server.expect_watch().await.assert_version(version).accept();
                assert_eq!(world.lap(), Duration::ZERO, "{kind}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_event_ends_the_watch_and_its_kind_decides_what_follows() {
    for (code, reason, relist) in [
        (410, "Expired", RelistReason::WatchExpired),
        (410, "Gone", RelistReason::WatchExpired),
        (500, "InternalError", RelistReason::WatchFailed),
        (403, "Forbidden", RelistReason::WatchFailed),
    ] {
        let mut world = World::start(ReflectorConfig::default());
        let watch = world.server.expect_sync([], 10).await;
        watch
            .send(added(object("default/a", 11)))
            .send(error_event(code, reason))
            .send(added(object("default/b", 12)));
        watch.dropped().await;
        assert_eq!(
            world.told().await[1..],
            ["Added(default/a @11)"],
            "events after an error are not delivered"
        );
        assert_eq!(world.status().phase, ReflectorPhase::BackingOff);
        world.server.expect_list().await.assert_version("11").reply_page([], 13);
        let _open = world.server.expect_watch().await.assert_version("13").accept();
        assert_eq!(world.relists(), [(RelistReason::First, 1), (relist, 1)], "{code} {reason}");
        assert_eq!(world.status().events.errors, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn internal_error_events_resume_the_watch_for_the_configured_time() {
    let max_internal_error_retry = Duration::from_secs(10);
    let config = ReflectorConfig { max_internal_error_retry, ..ReflectorConfig::default() };
    let mut world = World::start(config);
    let mut watch = world.server.expect_sync([], 10).await;
    let begin = tokio::time::Instant::now();
    let mut resumed = 0;
    while begin.elapsed() <= Duration::from_secs(10) {
        watch.send(error_event(500, "InternalError"));
        watch.dropped().await;
        watch = world.server.expect_watch().await.assert_version("10").accept();
        resumed += 1;
    }
    assert!(resumed > 1, "the watch is resumed several times");
    watch.send(error_event(500, "InternalError"));
    watch.dropped().await;
    world.server.expect_list().await.assert_version("10").reply_page([], 11);
    let watch = world.server.expect_watch().await.assert_version("11").accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::WatchFailed, 1)]);
    watch.send(error_event(403, "Forbidden"));
    watch.dropped().await;
    world.server.expect_list().await.assert_version("11").reply_page([], 12);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_closed_after_its_timeout_and_resumed_from_the_last_version() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    let expected = world.server.expect_watch().await;
    let timeout = expected.request().timeout;
    let watch = expected.send(bookmark(11));
    world.lap();
    watch.dropped().await;
    assert_eq!(world.lap().as_secs(), (timeout + ReflectorConfig::default().watch_grace).as_secs());
    let check = world.server.expect_list().await.assert_version("11").assert_limit(Some(1));
    check.reply_page([], 11);
    let _open = world.server.expect_watch().await.assert_version("11").accept();
    assert_eq!(world.lap(), Duration::ZERO);
    assert_eq!(world.status().silent_watches, 1);
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_outlasts_its_timeout_with_events_is_not_closed() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    for version in 11..100_u64 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        watch.send(bookmark(version));
    }
    assert!(!watch.is_dropped());
    watch.dropped().await;
    assert_eq!(world.status().silent_watches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_accepted_times_out() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], 10);
    let watch = world.server.expect_watch().await;
    world.lap();
    watch.given_up().await;
    assert_eq!(world.lap(), ReflectorConfig::default().progress_timeout);
    world.server.expect_list().await.assert_version("10").gone();
    let error = world.status().last_error.unwrap();
    assert!(error.to_string().contains("not accepted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn watch_timeouts_are_random_between_one_and_two_minima_of_at_least_five_minutes() {
    for (min, range) in [(1, 300..600), (300, 300..600), (1800, 1800..3600)] {
        let mut drawn = Vec::new();
        for _ in 0..20 {
            let mut config = ReflectorConfig::named("test");
            config.min_watch_timeout = Duration::from_secs(min);
            let mut world = World::start(config);
            world.server.expect_list().await.reply_page([], 10);
            let timeout = world.server.expect_watch().await.request().timeout;
            assert!(range.contains(&timeout.as_secs()), "{timeout:?} of {min}");
            drawn.push(timeout);
        }
        drawn.dedup();
        assert!(drawn.len() > 1, "not all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_event_is_replaced_by_a_bookmark() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.send(WatchEvent::Unknown { event_type: "MOVED".to_owned(), version: 15.into() });
    watch.send(added(object("default/a", 16))).close();
    let _open = world.server.expect_watch().await.assert_version("16").accept();
    assert_eq!(world.told().await, ["Replaced[] @10", "Bookmark(@15)", "Added(default/a @16)"]);
    assert_eq!((world.status().events.unknown, world.relists().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_delivered_and_a_bookmark_moves_the_version_past_it() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    let broken = |key: Option<&str>, version: u64| {
        Undecodable::new(key.map(|key| key.parse().unwrap()), "spec.x: wrong")
            .with_version("u", version.into())
    };
    watch.send(WatchEvent::Undecodable(broken(Some("default/a"), 11)));
    watch.send(WatchEvent::DeletedUndecodable(broken(Some("default/b"), 12)));
    watch.send(WatchEvent::DeletedUndecodable(broken(None, 13))).close();
    let _open = world.server.expect_watch().await.assert_version("13").accept();
    let told = [
        "Replaced[] @10",
        "Undecodable(default/a at version 11: spec.x: wrong)",
        "Bookmark(@11)",
        "Deleted(default/b missed)",
        "Bookmark(@12)",
        "Undecodable(an object without a readable name: spec.x: wrong)",
        "Bookmark(@13)",
    ];
    assert_eq!(world.told().await, told);
    assert_eq!(world.status().undecodable, 3);
}

#[tokio::test(start_paused = true)]
async fn rejected_event_deletes_object_and_advances_resource_version() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 1)], 10).await;
    watch.send(WatchEvent::Rejected { key: "default/a".parse().unwrap(), version: 11.into() }).close();
    let _open = world.server.expect_watch().await.assert_version("11").accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1] @10", "Deleted(default/a missed)"]);
    let events = world.status().events;
    assert_eq!((events.rejected, events.deleted), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_or_unknown_event_without_a_newer_version_causes_no_bookmark() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    let gone = |version: &str| {
        let undecodable = Undecodable::new(Some("default/a".parse().unwrap()), "spec.x: wrong");
        WatchEvent::DeletedUndecodable(undecodable.with_version("u", version.into()))
    };
    watch.send(gone("")).send(gone("9"));
    watch.send(WatchEvent::Unknown { event_type: "MOVED".to_owned(), version: "".into() });
    assert_eq!(world.told().await[1..], ["Deleted(default/a missed)", "Deleted(default/a missed)"]);
    watch.close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
}

#[tokio::test(start_paused = true)]
async fn failures_are_reported_to_the_error_hook_with_their_kind() {
    let kinds: Arc<Mutex<Vec<SourceErrorKind>>> = Arc::default();
    let mut config = ReflectorConfig::named("test");
    let sink = Arc::clone(&kinds);
    config.on_error = Some(Arc::new(move |error| sink.lock().push(error.kind())));
    let mut world = World::start(config);
    world.server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
    world.server.expect_list().await.gone();
    let watch = world.server.expect_sync([], 10).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    watch.close();
    let watch = world.server.expect_watch().await.accept();
    watch.send(error_event(500, "InternalError"));
    world.server.expect_list().await.reply_page([], 11);
    let expected = [SourceErrorKind::Forbidden, SourceErrorKind::Expired, SourceErrorKind::Unavailable];
    assert_eq!(*kinds.lock(), expected, "a watch closed in time is not a failure");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_encoding_causes_one_list_without_a_wait_and_later_ones_with_backoff() {
    for accepted in [true, false] {
        let mut world = World::start(ReflectorConfig::default());
        world.server.expect_list().await.reply_page([], 10);
        let watch = world.server.expect_watch().await;
        world.lap();
        if accepted {
            watch.accept().fail_with(SourceErrorKind::EncodingChanged);
        } else {
            watch.fail_with(SourceErrorKind::EncodingChanged);
        }
        world.server.expect_list().await.assert_version("10").reply_page([], 11);
        assert_eq!(world.lap(), Duration::ZERO, "accepted: {accepted}");
        world.server.expect_watch().await.assert_version("11").fail_with(SourceErrorKind::EncodingChanged);
        let _list = world.server.expect_list().await.assert_version("11");
        assert!(wait_bounds(0).contains(&world.lap()), "accepted: {accepted}");
        assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::EncodingChanged, 2)]);
    }
}
