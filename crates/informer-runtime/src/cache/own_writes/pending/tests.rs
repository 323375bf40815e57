mod model;

use super::*;

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn stored(name: &str, version: u64, selection: Selection) -> CompletedWrite {
    let (version, selection) = (version.into(), Some(selection));
    CompletedWrite { key: key(name), version, deleted: None, selection, began: 0, ended: 0 }
}

fn deleted(name: &str, uid: &str) -> CompletedWrite {
    let version = ResourceVersion::unset();
    CompletedWrite {
        key: key(name),
        version,
        deleted: Some(uid.to_owned()),
        selection: None,
        began: 0,
        ended: 1,
    }
}

fn after(writes: impl IntoIterator<Item = CompletedWrite>) -> PendingWrites {
    let mut pending = PendingWrites::new(MAX_PENDING);
    writes.into_iter().for_each(|write| pending.record(&write, 0));
    pending
}

/// Returns true if a store shows the pending writes of the object `ns/a`. `store` is the version of the
/// store, and `held` the uid and version of the object that it holds under this key.
fn shows(pending: &PendingWrites, store: u64, held: Option<(&str, u64)>) -> bool {
    let expectations = pending.clone().pending(&Scope::Key(key("ns/a")), 0);
    let held = held.map(|(uid, version)| (uid, ResourceVersion::from(version)));
    let held = held.as_ref().map(|(uid, version)| (*uid, version));
    expectations.iter().all(|expectation| expectation.is_shown(held, &store.into()))
}

/// Confirms the pending writes that a store of version `store` without any object shows.
fn confirm_up_to(pending: &mut PendingWrites, store: u64) {
    let expectations = pending.pending(&Scope::Kind, 0);
    let shown: Vec<_> =
        expectations.into_iter().filter(|expectation| expectation.is_shown(None, &store.into())).collect();
    pending.confirm(&shown);
}

#[test]
fn write_is_shown_by_object_at_its_version_or_by_newer_store() {
    let pending = after([stored("ns/a", 10, Selection::Selected)]);
    assert!(!shows(&pending, 9, Some(("u", 8))));
    assert!(!shows(&pending, 9, None));
    assert!(shows(&pending, 10, Some(("u", 10))));
    assert!(shows(&pending, 9, Some(("u", 10))), "the store is at an older version");
    assert!(
        shows(&pending, 10, Some(("u", 8))),
        "a store at the version suffices for any version of the object"
    );
    assert!(shows(&pending, 12, None), "another client has deleted it");
}

#[test]
fn out_of_order_responses_keep_the_newest_version() {
    let pending = after([stored("ns/a", 11, Selection::Selected), stored("ns/a", 10, Selection::Selected)]);
    assert!(!shows(&pending, 10, Some(("u", 10))));
    assert!(shows(&pending, 11, Some(("u", 11))));
}

#[test]
fn deletion_is_shown_once_creation_was_seen_and_uid_is_deleted() {
    let pending = after([stored("ns/a", 10, Selection::Selected), deleted("ns/a", "u")]);
    assert!(!shows(&pending, 10, Some(("u", 10))));
    assert!(!shows(&pending, 9, None), "the store has not seen the creation yet");
    assert!(shows(&pending, 10, None));
    assert!(shows(&pending, 12, Some(("another", 12))));
}

#[test]
fn deletion_of_foreign_object_waits_for_no_version() {
    let pending = after([deleted("ns/a", "u")]);
    assert!(!shows(&pending, 9, Some(("u", 8))));
    assert!(shows(&pending, 9, None));
}

#[test]
fn read_does_not_wait_for_unselected_object_once_earlier_selected_versions_were_seen() {
    let pending = after([stored("ns/a", 10, Selection::Unselected)]);
    assert!(shows(&pending, 5, None));
    assert!(!shows(&pending, 5, Some(("u", 5))), "it was selected before, and must be removed");
    let pending = after([stored("ns/a", 8, Selection::Selected), stored("ns/a", 10, Selection::Unselected)]);
    assert!(!shows(&pending, 5, None), "version 8 arrives before it is removed");
    assert!(shows(&pending, 8, None));
}

#[test]
fn read_waits_for_version_of_object_with_unknown_selection() {
    let pending = after([stored("ns/a", 10, Selection::Unknown)]);
    assert!(!shows(&pending, 9, None));
    assert!(shows(&pending, 10, None));
}

#[test]
fn response_without_selection_keeps_the_previous_one() {
    let scaled = |version| CompletedWrite { selection: None, ..stored("ns/a", version, Selection::Unknown) };
    assert!(shows(&after([scaled(10)]), 5, None), "the informer never cached it");
    let pending = after([stored("ns/a", 8, Selection::Selected), scaled(10)]);
    assert!(!shows(&pending, 8, None));
}

#[test]
fn confirmed_writes_are_forgotten_and_do_not_slow_down_lists() {
    let mut pending = PendingWrites::new(MAX_PENDING);
    for number in 1..=100_000 {
        pending.record(&stored(&format!("ns/{number}"), number, Selection::Selected), 0);
        if pending.is_check_due() {
            confirm_up_to(&mut pending, number);
            pending.checked();
        }
    }
    assert!(pending.size <= FIRST_CHECK, "{}", pending.size);
    confirm_up_to(&mut pending, 100_000);
    assert!(pending.pending(&Scope::Kind, 0).is_empty());
    assert!(pending.namespaces.is_empty());
}

#[test]
fn write_between_store_check_and_confirmation_stays_pending() {
    let mut pending = after([stored("ns/a", 10, Selection::Selected)]);
    let seen = pending.pending(&Scope::Kind, 0);
    pending.record(&stored("ns/a", 11, Selection::Selected), 0);
    pending.confirm(&seen);
    assert!(!shows(&pending, 10, None));
}

#[test]
fn too_many_keys_are_replaced_by_a_floor_per_namespace() {
    let mut pending = after([stored("quiet/a", 1, Selection::Selected)]);
    for number in 2..=MAX_PENDING as u64 + 1 {
        pending.record(&stored(&format!("ns/{number}"), number, Selection::Unselected), 0);
    }
    assert_eq!(pending.size, 0);
    assert_eq!(pending.pending(&Scope::Kind, 0).len(), 2, "a floor for each namespace");
    assert!(!shows(&pending, MAX_PENDING as u64, None), "floors ignore labels");
    assert!(shows(&pending, MAX_PENDING as u64 + 1, None));
    let quiet = pending.pending(&Scope::Namespace("quiet".to_owned()), 0);
    assert!(quiet.iter().all(|floor| floor.is_shown(None, &1.into())));
}

#[test]
fn too_many_namespaces_are_replaced_by_one_floor() {
    let mut pending = PendingWrites::new(1);
    for number in 1..=2 * MAX_FLOORS as u64 + 4 {
        pending.record(&stored(&format!("ns-{number}/a"), number, Selection::Selected), 0);
    }
    assert!(pending.namespaces.len() <= MAX_FLOORS + 1, "{}", pending.namespaces.len());
    let elsewhere = pending.pending(&Scope::Key(key("elsewhere/a")), 0);
    assert!(elsewhere.iter().any(|floor| !floor.is_shown(None, &(MAX_FLOORS as u64).into())));
    confirm_up_to(&mut pending, u64::MAX);
    assert!(pending.pending(&Scope::Kind, 0).is_empty());
}

#[test]
fn deletions_of_one_key_are_bounded() {
    let mut pending = PendingWrites::new(8);
    for number in 0..100 {
        pending.record(&deleted("ns/a", &format!("u{number}")), 0);
        assert!(pending.pending(&Scope::Kind, 0).iter().all(|expectation| expectation.deleted.len() < 8));
    }
}

#[test]
fn write_after_completed_deletion_supersedes_it() {
    let late = |began| CompletedWrite { began, ..stored("ns/a", 12, Selection::Selected) };
    let concurrent = after([deleted("ns/a", "u"), late(0)]);
    assert!(!shows(&concurrent, 12, Some(("u", 12))));
    let later = after([deleted("ns/a", "u"), late(1)]);
    assert_eq!(later.size, 1);
    assert!(shows(&later, 12, Some(("another", 12))));
}

#[test]
fn many_writes_of_one_key_count_once() {
    let pending = after((1..=10).map(|version| stored("ns/a", version, Selection::Selected)));
    assert_eq!(pending.size, 1);
}

#[test]
fn rewind_forgets_earlier_writes_and_keeps_later_ones() {
    let mut pending =
        after([stored("ns/a", 600, Selection::Selected), stored("ns/b", 601, Selection::Selected)]);
    pending.record(&stored("ns/a", 301, Selection::Selected), 1);
    let expectations = pending.pending(&Scope::Kind, 1);
    assert_eq!(expectations.len(), 1);
    assert!(!expectations[0].is_shown(Some(("u", &290.into())), &300.into()));
    assert!(expectations[0].is_shown(Some(("u", &301.into())), &301.into()));
    assert!(pending.pending(&Scope::Kind, 2).is_empty());
}

#[test]
fn reads_do_not_wait_for_non_numeric_versions() {
    let text = CompletedWrite { version: "x".into(), ..stored("ns/a", 1, Selection::Selected) };
    assert!(shows(&after([text.clone()]), 1, None));
    let pending = after([stored("ns/a", 10, Selection::Selected), text]);
    assert!(!shows(&pending, 9, None), "numeric versions are still awaited");
}

#[test]
fn lost_writes_are_replaced_by_the_version_of_the_server() {
    // The test simulates a restore of the server to resourceVersion 227: the server has kept the write at 223
    // and has lost the one at 240.
    let mut pending =
        after([stored("ns/a", 240, Selection::Selected), stored("ns/a", 223, Selection::Selected)]);
    let missing = pending.pending(&Scope::Kind, 0);
    assert!(!pending.lower(&missing, &240.into()), "a server at this version has lost no write");
    assert!(pending.lower(&missing, &227.into()));
    assert!(!shows(&pending, 12, Some(("u", 12))), "the write at 223 is not shown");
    assert!(shows(&pending, 227, Some(("u", 223))));
    assert!(!pending.lower(&missing, &100.into()), "the expectation has already changed");
}

#[test]
fn lost_deletion_is_replaced_by_the_version_of_the_server() {
    let mut pending = after([deleted("ns/a", "u")]);
    let missing = pending.pending(&Scope::Kind, 0);
    assert!(pending.lower(&missing, &100.into()));
    assert_eq!(pending.size, 1);
    assert!(!shows(&pending, 99, Some(("u", 12))));
    assert!(shows(&pending, 100, Some(("u", 12))), "the restored server has the object again");
    assert!(shows(&pending, 99, None));
}

#[test]
fn lost_writes_below_a_floor_are_replaced_by_the_version_of_the_server() {
    let mut pending = PendingWrites::new(2);
    (1..=3).for_each(|n| pending.record(&stored(&format!("ns/{n}"), 200 + n, Selection::Selected), 0));
    let missing = pending.pending(&Scope::Key(key("ns/a")), 0);
    assert!(!shows(&pending, 100, None));
    assert!(pending.lower(&missing, &100.into()));
    assert!(shows(&pending, 100, None));
}
