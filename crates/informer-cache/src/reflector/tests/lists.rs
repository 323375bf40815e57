use std::time::Duration;

use super::world::{World, wait_bounds};
use crate::Undecodable;
use crate::reflector::{MAX_RETRY_AFTER, Paging, ReflectorConfig, ReflectorPhase, RelistReason};
use crate::source::{ListEnd, ListPart, ServerStatus, SourceErrorKind};
use crate::testing::{TestObject, added, error_event, failure, object};

fn ten_objects() -> Vec<TestObject> {
    (0..10).map(|index| object(&format!("default/o{index}"), 3)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_paged_at_any_version_and_the_watch_continues_it() {
    let mut world = World::start(ReflectorConfig::named("pods"));
    let list =
        world.server.expect_list().await.assert_version("0").assert_limit(Some(500)).assert_continues(None);
    list.reply_page([object("default/foo", 1)], 1);
    let watch = world.server.expect_watch().await.assert_version("1").assert_plain();
    let timeout = watch.request().timeout;
    assert!((300..600).contains(&timeout.as_secs()), "{timeout:?}");
    let _open = watch.send(added(object("default/bar", 2)));
    assert_eq!(world.told().await, ["Replaced[default/foo @1] @1", "Added(default/bar @2)"]);
    assert_eq!(world.relists(), [(RelistReason::First, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_requests_the_last_version_without_pages() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    watch.gone();
    world.server.expect_list().await.assert_version("10").assert_limit(None).reply_page([], 11);
    let _open = world.server.expect_watch().await.assert_version("11").accept();
    assert_eq!(world.relists(), [(RelistReason::First, 1), (RelistReason::WatchExpired, 1)]);
}

#[tokio::test(start_paused = true)]
async fn paging_always_requests_pages_at_a_known_version_too() {
    let mut config = ReflectorConfig::named("test");
    (config.page_size, config.paging) = (4, Paging::Always);
    let mut world = World::start(config);
    world.server.expect_sync([], 10).await.gone();
    let all = ten_objects();
    let first = world.server.expect_list().await.assert_version("10").assert_limit(Some(4));
    first.reply_page_of_many(all[..4].to_vec(), 20, "c1");
    let second = world
        .server
        .expect_list()
        .await
        .assert_version("")
        .assert_limit(Some(4))
        .assert_continues(Some("c1"));
    second.reply_page_of_many(all[4..8].to_vec(), 20, "c2");
    world.server.expect_list().await.assert_continues(Some("c2")).reply_page(all[8..].to_vec(), 20);
    let _open = world.server.expect_watch().await.assert_version("20").accept();
    let told = world.told().await;
    assert_eq!(told[1].matches("default/o").count(), 10, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn paging_never_requests_no_pages() {
    let mut config = ReflectorConfig::named("test");
    config.paging = Paging::Never;
    let mut world = World::start(config);
    world.server.expect_list().await.assert_version("0").assert_limit(None).gone();
    world.server.expect_list().await.assert_version("").assert_limit(None).reply_page([], 1);
    let _open = world.server.expect_watch().await.accept();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_pages_its_cache_receives_paged_relists() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.assert_version("0").reply_page_of_many(ten_objects(), 10, "c1");
    world.server.expect_list().await.assert_continues(Some("c1")).reply_page([], 10);
    world.server.expect_watch().await.accept().gone();
    world.server.expect_list().await.assert_version("10").assert_limit(Some(500)).reply_page([], 11);
    let _open = world.server.expect_watch().await.accept();
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_paged_list_is_that_of_its_first_page() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page_of_many([object("default/a", 1)], 10, "c1");
    world.server.expect_list().await.reply_page([object("default/b", 2)], 15);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1, default/b @2] @10"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_list_is_repeated_at_once_as_a_consistent_read() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_sync([object("default/a", 1)], 10).await.gone();
    world.server.expect_list().await.assert_version("10").gone();
    world.lap();
    let again = world.server.expect_list().await.assert_version("").assert_limit(Some(500));
    assert_eq!(world.lap(), Duration::ZERO);
    again.reply_page([object("default/a", 11)], 12);
    let watch = world.server.expect_watch().await.assert_version("12").accept();
    assert_eq!(world.asked(), (vec!["0".into(), "10".into(), "".into()], 2));

    // Only the list that directly follows the expired one is a consistent read, without a version. The next
    // relist requests the last version as usual.
    watch.gone();
    world.server.expect_list().await.assert_version("12").reply_page([], 13);
    let _open = world.server.expect_watch().await.accept();
}

#[tokio::test(start_paused = true)]
async fn a_failed_consistent_read_is_retried_as_one_after_a_backoff() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.assert_version("0").gone();
    world.server.expect_list().await.assert_version("").gone();
    world.lap();
    let again = world.server.expect_list().await.assert_version("");
    assert!(wait_bounds(0).contains(&world.lap()));
    again.fail_with(SourceErrorKind::Unavailable);
    world.server.expect_list().await.assert_version("").reply_page([], 5);
    let _open = world.server.expect_watch().await.assert_version("5").accept();
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_is_replaced_by_the_whole_list_at_the_requested_version() {
    let mut config = ReflectorConfig::named("test");
    (config.page_size, config.paging) = (4, Paging::Always);
    let mut world = World::start(config);
    world.server.expect_list().await.assert_version("0").assert_limit(Some(4)).reply_page([], 10);
    world.server.expect_watch().await.accept().gone();
    let all = ten_objects();
    world.server.expect_list().await.assert_version("10").reply_page_of_many(all[..4].to_vec(), 11, "C1");
    world.lap();
    world.server.expect_list().await.assert_version("").assert_continues(Some("C1")).gone();
    let whole =
        world.server.expect_list().await.assert_version("10").assert_limit(None).assert_continues(None);
    assert_eq!(world.lap(), Duration::ZERO);
    whole.reply_page(all, 12);
    let _open = world.server.expect_watch().await.assert_version("12").accept();
    let told = world.told().await;
    assert_eq!(
        told[1].matches("default/o").count(),
        10,
        "objects received before the expiry are not duplicated: {told:?}"
    );
    assert_eq!(world.status().relists.get(RelistReason::ContinueExpired), 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_list_that_expires_too_becomes_a_paged_consistent_read() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page_of_many(ten_objects(), 10, "c1");
    world.server.expect_list().await.assert_continues(Some("c1")).gone();
    world.server.expect_list().await.assert_version("0").assert_limit(None).gone();
    let consistent = world.server.expect_list().await.assert_version("").assert_limit(Some(500));
    assert_eq!(world.lap(), Duration::ZERO);
    consistent.reply_page([], 20);
    let _open = world.server.expect_watch().await.assert_version("20").accept();
}

#[tokio::test(start_paused = true)]
async fn a_version_too_large_leads_to_a_consistent_read_in_all_forms_of_the_error() {
    let status = |message: &str, version_too_large| ServerStatus {
        code: 504,
        reason: "Timeout".to_owned(),
        message: message.to_owned(),
        version_too_large,
        retry_after: Some(Duration::from_secs(1)),
    };
    let forms = [
        status("Timeout: Too large resource version: 20, current: 10", true),
        status("Too large resource version: 30, current: 20", false),
        status("later", true),
    ];
    let mut world = World::start(ReflectorConfig::default());
    let mut watch = world.server.expect_sync([], 20).await;
    for (form, next) in forms.into_iter().zip([30_u64, 40, 50]) {
        watch.gone();
        let list = world.server.expect_list().await.assert_version(next - 10);
        world.lap();
        list.fail(form.into_error("listing"));
        let again = world.server.expect_list().await.assert_version("");
        assert_eq!(world.lap(), Duration::ZERO);
        again.reply_page([], next);
        watch = world.server.expect_watch().await.assert_version(next).accept();
    }
    let versions: Vec<String> = ["0", "20", "", "30", "", "40", ""].map(str::to_owned).into();
    assert_eq!(world.asked().0, versions);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_grows_while_lists_fail_and_the_error_stays_visible() {
    for kind in [SourceErrorKind::Unauthorized, SourceErrorKind::Forbidden, SourceErrorKind::NotFound] {
        let mut world = World::start(ReflectorConfig::default());
        for nth in 0..8 {
            let list = world.server.expect_list().await.assert_version("0");
            let lap = world.lap();
            assert!(nth == 0 || wait_bounds(nth - 1).contains(&lap), "wait {nth}: {lap:?}");
            list.fail_with(kind);
            let status = world.handle.status_when(|status| status.failures == u64::from(nth) + 1).await;
            assert_eq!(status.phase, ReflectorPhase::BackingOff);
            assert_eq!(status.last_error.as_ref().map(|error| error.kind()), Some(kind));
            assert!(status.to_string().contains(kind.as_str()), "{status}");
            assert!(status.next_attempt_at.is_some());
        }
        world.server.expect_list().await.reply_page([], 1);
        let _open = world.server.expect_watch().await.accept();
        let status = world.handle.status_when(|status| status.phase == ReflectorPhase::Watching).await;
        assert!(!status.is_failing() && status.last_error.is_some() && status.next_attempt_at.is_none());
        assert_eq!(status.to_string(), "watching");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_within_limits() {
    let mut world = World::start(ReflectorConfig::default());
    let later = |seconds| {
        failure(SourceErrorKind::TooManyRequests).with_retry_after(Some(Duration::from_secs(seconds)))
    };
    world.server.expect_list().await.fail(later(20));
    let list = world.server.expect_list().await;
    assert!((20..21).contains(&world.lap().as_secs()));
    // The `Retry-After` of one second has no effect, because the second step of the backoff, which is due
    // now, is longer.
    list.fail(later(1));
    let list = world.server.expect_list().await;
    assert!(wait_bounds(1).contains(&world.lap()));
    list.fail(later(1_000_000_000));
    let list = world.server.expect_list().await;
    assert_eq!(world.lap().as_secs(), MAX_RETRY_AFTER.as_secs());
    list.reply_page([], 1);
    let _open = world.server.expect_watch().await.accept();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_changes_nothing() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_sync([object("default/a", 1)], 10).await.gone();
    let list = world.server.expect_list().await.accept();
    list.items([object("default/b", 11)]).break_off();
    let list = world.server.expect_list().await.assert_version("10").accept();
    list.items([object("default/c", 11)]).fail_with(SourceErrorKind::Connection);
    let list = world.server.expect_list().await.assert_version("10").accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1] @10"]);
    assert_eq!(world.status().last_version, "10");
    list.items([object("default/d", 12)]).end(12);
    let _open = world.server.expect_watch().await.accept();
    assert_eq!(world.told().await, ["Replaced[default/d @12] @12"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_response_or_progress_times_out() {
    let mut world = World::start(ReflectorConfig::default());
    let silent = ReflectorConfig::default().progress_timeout;
    world.server.expect_list().await.given_up().await;
    assert_eq!(world.lap().as_secs(), silent.as_secs());
    let list = world.server.expect_list().await.accept();
    for _ in 0..3 {
        tokio::time::sleep(silent / 2).await;
        list.items([object("default/slow", 1)]);
    }
    world.lap();
    list.dropped().await;
    assert_eq!(world.lap().as_secs(), silent.as_secs());
    let status = world.status();
    assert_eq!(status.last_error.map(|error| error.kind()), Some(SourceErrorKind::Timeout));
    assert_eq!(world.told().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_key_in_a_list_is_listed_once_in_its_last_state() {
    let mut world = World::start(ReflectorConfig::default());
    let twice = [object("default/a", 1), object("default/b", 2), object("default/a", 3)];
    let _open = world.server.expect_sync(twice, 10).await;
    assert_eq!(world.told().await, ["Replaced[default/a @3, default/b @2] @10"]);
    assert_eq!(world.status().duplicates, 1);
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_part_of_the_list() {
    let mut world = World::start(ReflectorConfig::default());
    let list = world.server.expect_list().await.accept();
    let broken = |key: Option<&str>| Undecodable::new(key.map(|key| key.parse().unwrap()), "not an object");
    list.items([object("default/a", 1)]);
    list.undecodable(broken(Some("default/b"))).undecodable(broken(None));
    // A later decodable state of the same key replaces the undecodable state in the list.
    list.undecodable(broken(Some("default/c"))).items([object("default/c", 4)]);
    list.end(10);
    let _open = world.server.expect_watch().await.assert_version("10").accept();
    let told = world.told().await;
    assert!(
        told[0].starts_with("Replaced[default/a @1, default/c @4] @10 undecodable default/b at"),
        "{told:?}"
    );
    assert!(
        told[0].contains("without a readable name") && !told[0].contains("undecodable default/c"),
        "{told:?}"
    );
    assert_eq!(world.status().undecodable, 3);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_watched_without_one_and_initial_events_do_not_advance_it() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_list().await.reply_page([], "");
    let watch = world.server.expect_watch().await.assert_version("").send(added(object("default/a", 7)));
    assert_eq!(world.told().await, ["Replaced[] @", "Added(default/a @7)"]);
    assert!(world.status().last_version.is_empty());
    watch.send(crate::testing::modified(object("default/a", 9))).send(added(object("default/b", 10)));
    watch.close();
    let _open = world.server.expect_watch().await.assert_version("10").accept();
}

#[tokio::test(start_paused = true)]
async fn endless_pages_are_an_error_that_names_the_limit() {
    async fn error_of(config: ReflectorConfig, pages: impl Fn(u32) -> (Vec<TestObject>, String)) -> String {
        let mut world = World::start(config);
        for page in 0.. {
            let list = tokio::select! {
                biased;
                status = world.handle.status_when(|status| status.is_failing()) => {
                    assert!(!status.synced);
                    return status.last_error.unwrap().to_string();
                }
                list = world.server.expect_list() => list,
            };
            let (objects, token) = pages(page);
            list.reply_page_of_many(objects, 1, &token);
        }
        unreachable!("the limit ends the pages")
    }
    let config = || ReflectorConfig::named("pods");
    let small = |page: u32| vec![object(&format!("default/o{page}"), 1)];

    let error = error_of(config(), |page| (small(page), "same".to_owned())).await;
    assert!(error.contains("for pods") && error.contains("continue token of the previous page"), "{error}");
    let error = error_of(config(), |page| (Vec::new(), page.to_string())).await;
    assert!(error.contains("16 empty pages"), "{error}");
    let mut few = config();
    few.max_pages = 5;
    let error = error_of(few, |page| (small(page), page.to_string())).await;
    assert!(error.contains("more than 5 pages (max_pages)"), "{error}");
    let mut few = config();
    few.max_objects = 5;
    let error = error_of(few, |page| (small(page), page.to_string())).await;
    assert!(error.contains("more than 5 objects (max_objects)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_few_empty_pages_are_accepted() {
    let mut world = World::start(ReflectorConfig::default());
    for page in 0..10 {
        world.server.expect_list().await.reply_page_of_many([], 1, &page.to_string());
    }
    let last = world.server.expect_list().await.accept();
    let empty_token = ListEnd { version: 1.into(), continue_token: Some(String::new()), remaining: None };
    last.items([object("default/a", 1)]).part(ListPart::End(empty_token));
    let _open = world.server.expect_watch().await.accept();
    assert_eq!(world.told().await, ["Replaced[default/a @1] @1"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_removes_an_object_that_storage_cannot_read() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([object("default/a", 1), object("default/corrupt", 2)], 10).await;
    watch.send(error_event(500, "StorageReadError")).close();
    world.server.expect_list().await.assert_version("10").reply_page([object("default/a", 1)], 11);
    let _open = world.server.expect_watch().await.accept();
    let replaced = ["Replaced[default/a @1, default/corrupt @2] @10", "Replaced[default/a @1] @11"];
    assert_eq!(world.told().await, replaced);
}
