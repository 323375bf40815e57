use std::sync::Arc;

use informer_core::{Object, ObjectKey, Tombstone};
use informer_store::StoreBuilder;

use super::{Applied, Pump};
use crate::source::Listed;
use crate::testing::{TestObject, object};
use crate::{Change, Replacement, Undecodable, UndecodableLog};

struct World {
    pump: Pump<TestObject>,
}

impl World {
    fn with(objects: impl IntoIterator<Item = TestObject>) -> Self {
        let mut world = Self::new();
        world.apply([list(objects, "10")]);
        world
    }

    fn new() -> Self {
        let writer = StoreBuilder::new().writer();
        Self { pump: Pump::new(writer, UndecodableLog::default()) }
    }

    fn apply(&mut self, changes: impl IntoIterator<Item = Change<TestObject>>) -> Applied<TestObject> {
        let applied = self.pump.apply(changes);
        for event in &applied.events {
            let held = self.pump.indexer().get(event.key());
            assert!(
                held.is_some() || event.is_deleted() || applied.events.len() > 1,
                "announced before stored: {event}"
            );
        }
        applied
    }

    fn says(&mut self, changes: impl IntoIterator<Item = Change<TestObject>>) -> Vec<String> {
        self.apply(changes).events.iter().map(ToString::to_string).collect()
    }

    fn holds(&self) -> Vec<String> {
        let mut held: Vec<_> = self
            .pump
            .indexer()
            .list()
            .iter()
            .map(|o| format!("{}@{}", o.key(), o.resource_version()))
            .collect();
        held.sort();
        held
    }
}

fn list(objects: impl IntoIterator<Item = TestObject>, version: &str) -> Change<TestObject> {
    let items = objects.into_iter().map(|object| Listed::Fresh(Arc::new(object))).collect();
    Change::Replaced(Replacement::new(items, version))
}

fn added(key: &str, version: &str) -> Change<TestObject> {
    Change::Added(Arc::new(object(key, version)))
}

fn updated(key: &str, version: &str) -> Change<TestObject> {
    Change::Updated(Arc::new(object(key, version)))
}

fn deleted(key: &str, version: &str) -> Change<TestObject> {
    let last = Arc::new(object(key, version));
    Change::Deleted(Tombstone::observed(last.key().clone(), last))
}

#[test]
fn the_store_decides_whether_a_change_is_an_add_or_an_update() {
    let mut world = World::with([object("a", "1")]);
    assert_eq!(world.says([added("a", "12"), updated("b", "13")]), ["updated a @1 -> @12", "added b @13"]);
}

#[test]
fn objects_of_the_first_list_are_initial_and_those_of_later_lists_are_not() {
    let mut world = World::new();
    assert_eq!(world.says([list([object("a", "1")], "5")]), ["added a @1 (initial)"]);
    assert_eq!(world.says([list([object("a", "1"), object("b", "6")], "7")]), ["added b @6"]);
}

#[test]
fn a_list_announces_deletes_first_and_then_its_objects_in_order() {
    let mut world = World::with([object("1", "1"), object("2", "2"), object("3", "3")]);
    let said = world.says([list([object("1", "11"), object("2", "12"), object("4", "13")], "20")]);
    assert_eq!(
        said,
        ["deleted 3 @3 (last known)", "updated 1 @1 -> @11", "updated 2 @2 -> @12", "added 4 @13"]
    );
    assert_eq!(world.holds(), ["1@11", "2@12", "4@13"]);
}

#[test]
fn an_empty_list_deletes_all_objects() {
    let mut world = World::with([object("1", "1"), object("3", "3")]);
    assert_eq!(world.says([list([], "20")]).len(), 2);
    assert!(world.holds().is_empty());
}

#[test]
fn a_relist_with_nothing_changed_announces_nothing() {
    let mut world = World::with([object("a", "1"), object("b", "2")]);
    let held = world.pump.indexer().get("a").unwrap();
    assert!(world.says([list([object("a", "1"), object("b", "2")], "30")]).is_empty());
    assert!(Arc::ptr_eq(&held, &world.pump.indexer().get("a").unwrap()), "the cached object is not replaced");
    assert_eq!(world.pump.indexer().resource_version(), "30");
}

#[test]
fn a_repeated_event_does_not_restore_a_deleted_object() {
    let mut world = World::with([]);
    world.apply([added("a", "11"), deleted("a", "12")]);
    let applied = world.apply([added("a", "11")]);
    assert!(applied.events.is_empty() && applied.suspect, "only a consistent list can decide");
    // A repeated add does not restore a deleted object either if all three changes are in one batch. The two
    // returned events are the first add and the delete.
    let applied = world.apply([added("b", "13"), deleted("b", "14"), added("b", "13")]);
    assert_eq!(applied.events.len(), 2);
    assert!(world.holds().is_empty());
}

#[test]
fn no_event_is_late_if_lists_have_no_version() {
    let mut world = World::new();
    world.apply([list([], "")]);
    assert_eq!(world.says([added("a", "12"), added("b", "11")]), ["added a @12", "added b @11"]);
}

#[test]
fn states_without_a_version_are_never_taken_as_unchanged() {
    let mut world = World::with([object("a", "")]);
    assert_eq!(world.says([updated("a", "")]).len(), 1);
}

#[test]
fn several_changes_of_one_key_in_a_batch_keep_old_and_new_contiguous() {
    let mut world = World::with([object("a", "1")]);
    let said = world.says([updated("a", "12"), updated("a", "13"), deleted("a", "14"), added("a", "15")]);
    assert_eq!(said, ["updated a @1 -> @12", "updated a @12 -> @13", "deleted a @14", "added a @15"]);
    assert_eq!(world.holds(), ["a@15"]);
}

#[test]
fn a_new_uid_under_a_known_key_is_a_delete_and_an_add() {
    let mut world = World::with([object("a", "1").with_uid("first")]);
    let second = Change::Updated(Arc::new(object("a", "2").with_uid("second")));
    assert_eq!(world.says([second]), ["deleted a @1 (last known)", "added a @2"]);
}

#[test]
fn an_event_older_than_the_cached_state_is_counted_and_not_applied() {
    let mut world = World::with([object("a", "9")]);
    let applied = world.apply([updated("a", "10"), updated("a", "9"), deleted("a", "8")]);
    assert_eq!((applied.events.len(), applied.suspect), (1, true));
    assert_eq!((world.holds(), world.pump.counters().stale), (vec!["a@10".to_owned()], 2));
}

#[test]
fn versions_that_are_not_numbers_are_compared_for_equality_only() {
    let mut world = World::with([object("a", "zebra")]);
    assert!(world.says([updated("a", "zebra")]).is_empty());
    assert_eq!(world.says([updated("a", "ape")]), ["updated a @zebra -> @ape"]);
}

#[test]
fn a_late_delete_of_an_earlier_object_does_not_delete_its_successor() {
    let mut world = World::with([object("a", "9").with_uid("second")]);
    let last = Arc::new(object("a", "5").with_uid("first"));
    let applied = world.apply([Change::Deleted(Tombstone::observed(last.key().clone(), last))]);
    assert!(applied.events.is_empty() && !applied.suspect);
    assert_eq!(world.holds(), ["a@9"]);
}

#[test]
fn a_delete_of_an_unknown_object_is_not_announced() {
    let mut world = World::with([object("a", "1")]);
    assert!(world.says([deleted("b", "2"), deleted("b", "3")]).is_empty());
    assert_eq!(world.pump.counters().unknown_deletes, 2);
}

#[test]
fn a_missed_delete_carries_the_cached_object() {
    let mut world = World::with([object("a", "1")]);
    let key: ObjectKey = "a".parse().unwrap();
    assert_eq!(world.says([Change::Deleted(Tombstone::missed(key, None))]), ["deleted a @1 (last known)"]);
}

fn rejected(key: &str, version: &str) -> Change<TestObject> {
    Change::Deleted(Tombstone::missed(key.parse().unwrap(), None).with_version(version.into()))
}

#[test]
fn rejected_state_deletes_the_cached_object_and_moves_the_version() {
    let mut world = World::with([object("a", "9")]);
    assert_eq!(world.says([rejected("a", "12"), rejected("b", "13")]), ["deleted a @9 (last known)"]);
    assert_eq!(world.says([rejected("b", "")]), Vec::<String>::new());
    assert_eq!(world.pump.indexer().resource_version(), "13");
    assert_eq!(world.pump.counters().unknown_deletes, 0);
}

#[test]
fn rejected_state_older_than_the_cached_one_is_not_applied() {
    let mut world = World::with([object("a", "9")]);
    let applied = world.apply([rejected("a", "3")]);
    assert!(applied.events.is_empty() && applied.suspect, "a list decides whether the object exists");
    assert_eq!((world.holds(), world.pump.counters().stale), (vec!["a@9".to_owned()], 1));
}

#[test]
fn a_rewound_list_is_applied_completely_although_it_is_older() {
    let mut world = World::with([object("a", "9"), object("b", "8")]);
    let items = vec![Listed::Fresh(Arc::new(object("a", "3"))), Listed::Fresh(Arc::new(object("b", "8")))];
    let rewound = Replacement { rewound: true, ..Replacement::new(items, "4") };
    let said = world.says([Change::Replaced(rewound)]);
    assert_eq!(
        said,
        ["updated a @9 -> @3", "updated b @8 -> @8"],
        "no object is skipped as too old or unchanged"
    );
    assert_eq!((world.holds(), world.pump.counters().rewound), (vec!["a@3".to_owned(), "b@8".to_owned()], 1));
}

#[test]
fn an_undecodable_object_of_a_list_counts_as_present_and_its_last_decoded_state_stays() {
    let mut world = World::with([object("a", "1"), object("b", "2")]);
    let broken = Undecodable::new(Some("b".parse().unwrap()), "no body").with_version("", "7".into());
    let replacement = Replacement { undecodable: vec![broken], ..Replacement::new(Vec::new(), "18") };
    assert_eq!(world.says([Change::Replaced(replacement)]), ["deleted a @1 (last known)"]);
    assert_eq!(world.holds(), ["b@2"]);
    assert_eq!(world.pump.undecodable.len(), 1);
    world.says([updated("b", "9")]);
    assert!(world.pump.undecodable.is_empty(), "a decodable state removes it from the log");
}

#[test]
fn the_version_of_the_store_follows_events_deletes_and_bookmarks() {
    let mut world = World::with([object("a", "1")]);
    let version = |world: &World| world.pump.indexer().resource_version().to_string();
    assert_eq!(version(&world), "10");
    world.says([updated("a", "12")]);
    assert_eq!(version(&world), "12");
    world.says([deleted("a", "15")]);
    assert_eq!(version(&world), "15");
    world.says([Change::Bookmark("20".into())]);
    assert_eq!(version(&world), "20");
}

#[test]
fn counted_bytes_rise_and_fall_with_the_cached_objects() {
    let mut world = World::with([object("a", "1"), object("b", "1")]);
    let two = world.pump.counters().bytes;
    assert!(two > 0);
    world.says([deleted("a", "2")]);
    assert_eq!(world.pump.counters().bytes, two / 2);
    world.says([deleted("b", "3")]);
    assert_eq!(world.pump.counters().bytes, 0);
}

#[test]
fn a_list_older_than_the_store_is_rejected_until_it_was_repeated() {
    let mut world = World::with([object("a", "9")]);
    world.pump.begin_run();
    for refusal in 1..=3 {
        let applied = world.apply([list([object("b", "3")], "4")]);
        assert!(applied.suspect && !applied.first_list && applied.events.is_empty());
        assert_eq!((world.holds(), world.pump.counters().stale_lists), (vec!["a@9".to_owned()], refusal));
        assert!(
            world.says([added("c", "5")]).is_empty(),
            "events after a rejected list are not applied either"
        );
    }
    let applied = world.apply([list([object("b", "3")], "5")]);
    assert!(applied.first_list && !applied.suspect, "after repeated requests the list is authoritative");
    assert_eq!((world.holds(), world.pump.counters().rewound), (vec!["b@3".to_owned()], 1));
}

#[test]
fn a_newer_list_after_a_rejected_one_is_applied() {
    let mut world = World::with([object("a", "9")]);
    world.apply([list([], "4")]);
    assert_eq!(world.says([list([object("a", "9"), object("b", "11")], "12")]), ["added b @11"]);
    assert_eq!(world.pump.counters().rewound, 0);
}

#[test]
fn late_events_do_not_move_the_version_of_the_store_back() {
    let mut world = World::with([object("a", "9")]);
    world.says([updated("b", "15"), updated("a", "3"), deleted("zz", "4"), Change::Bookmark("12".into())]);
    assert_eq!(world.pump.indexer().resource_version(), "15");
}

#[test]
fn an_undecodable_object_leaves_the_log_when_it_is_deleted() {
    let mut world = World::with([]);
    let broken = |key: &str| Undecodable::new(Some(key.parse().unwrap()), "no body");
    world.says([Change::Undecodable(broken("x")), Change::Undecodable(broken("y"))]);
    let key: ObjectKey = "x".parse().unwrap();
    world.says([Change::Deleted(Tombstone::missed(key, None))]);
    assert_eq!(world.pump.undecodable.len(), 1, "a delete removes it");
    world.says([list([], "20")]);
    assert!(world.pump.undecodable.is_empty(), "a list without it removes it");
}

#[test]
fn a_newer_list_of_a_restored_server_replaces_newer_cached_states() {
    let mut world = World::with([object("a", "9"), object("b", "8")]);
    let said = world.says([list([object("a", "3"), object("b", "8")], "1010")]);
    assert_eq!(said, ["updated a @9 -> @3"]);
    assert_eq!((world.pump.counters().rewound, world.pump.counters().stale), (1, 0));
}

#[test]
fn an_object_that_becomes_undecodable_in_the_batch_that_added_it_stays_in_the_log() {
    let mut world = World::with([]);
    let broken = Undecodable::new(Some("a".parse().unwrap()), "no body").with_version("", "12".into());
    world.says([added("a", "11"), Change::Undecodable(broken)]);
    assert_eq!((world.holds(), world.pump.undecodable.len()), (vec!["a@11".to_owned()], 1));
}

#[test]
fn an_object_made_undecodable_by_a_restore_is_compared_by_its_undecodable_version() {
    let mut world = World::with([object("a", "9").with_uid("later")]);
    let broken = Undecodable::new(Some("a".parse().unwrap()), "no body").with_version("earlier", "3".into());
    let list = Replacement { rewound: true, undecodable: vec![broken], ..Replacement::new(Vec::new(), "4") };
    assert!(world.says([Change::Replaced(list)]).is_empty(), "the last decoded state stays");
    let last = Arc::new(object("a", "6").with_uid("earlier"));
    let gone = Change::Deleted(Tombstone::observed(last.key().clone(), last));
    assert_eq!(world.says([gone]), ["deleted a @9 (last known)"]);
    assert!(world.pump.undecodable.is_empty());
}

fn rewound_list_with_undecodable_a() -> Change<TestObject> {
    let broken = Undecodable::new(Some("a".parse().unwrap()), "no body").with_version("uid of a", "3".into());
    Change::Replaced(Replacement {
        rewound: true,
        undecodable: vec![broken],
        ..Replacement::new(Vec::new(), "4")
    })
}

#[test]
fn a_restored_server_that_reuses_the_version_of_a_kept_object_replaces_it() {
    let mut world = World::with([object("a", "9")]);
    world.says([rewound_list_with_undecodable_a()]);
    assert_eq!(world.says([updated("a", "9")]), ["updated a @9 -> @9"], "other content at the same version");
    assert!(world.pump.undecodable.is_empty());
    assert!(world.says([updated("a", "9")]).is_empty(), "now the version identifies the cached state");
}

#[test]
fn a_list_of_a_restored_server_that_reuses_the_version_of_a_kept_object_replaces_it() {
    let mut world = World::with([object("a", "9")]);
    world.says([rewound_list_with_undecodable_a()]);
    assert_eq!(world.says([list([object("a", "9")], "11")]), ["updated a @9 -> @9"]);
}

#[test]
fn an_object_kept_as_undecodable_is_not_identified_by_its_version_in_a_list() {
    let mut world = World::with([object("a", "9"), object("b", "9")]);
    world.says([rewound_list_with_undecodable_a()]);
    let held = world.pump.indexer().get("a").unwrap();
    let known = Change::Replaced(Replacement::new(vec![Listed::Known(held)], "11"));
    let applied = world.apply([known]);
    assert!(applied.suspect && applied.events.is_empty(), "a list without reused objects is requested");
    assert_eq!(world.pump.undecodable.len(), 1);
}

#[test]
fn an_object_kept_because_of_its_uid_is_not_identified_by_its_version() {
    let mut world = World::with([object("a", "9")]);
    let nameless = Undecodable::new(None, "no name").with_version("uid of a", "3".into());
    let list =
        Replacement { rewound: true, undecodable: vec![nameless], ..Replacement::new(Vec::new(), "4") };
    assert!(world.says([Change::Replaced(list)]).is_empty(), "the last decoded state stays");
    assert_eq!(world.says([updated("a", "9")]), ["updated a @9 -> @9"]);
}

#[test]
fn an_undecodable_state_undone_by_a_restore_leaves_the_log() {
    let mut world = World::with([object("a", "1")]);
    let key: ObjectKey = "a".parse().unwrap();
    let unread = Undecodable::new(Some(key), "odd").with_version("uid of a", "12".into());
    world.apply([Change::Undecodable(unread)]);
    assert_eq!(world.pump.undecodable.len(), 1);
    world.apply([list([object("a", "1")], "1000")]);
    assert!(world.pump.undecodable.is_empty(), "the cached state is current");
}

#[test]
fn an_event_delivered_after_a_later_one_does_not_move_the_version_of_the_store_back() {
    let mut world = World::with([object("a", "1"), object("b", "2")]);
    world.apply([updated("a", "14")]);
    assert_eq!(world.says([updated("b", "13")]), ["updated b @2 -> @13"]);
    assert_eq!(world.pump.indexer().resource_version(), "14");
}

#[test]
fn an_undecodable_state_delivered_after_a_later_one_is_ignored() {
    let mut world = World::with([]);
    let unread = |key: &str| {
        let parsed: ObjectKey = key.parse().unwrap();
        Change::Undecodable(
            Undecodable::new(Some(parsed), "odd").with_version(&format!("uid of {key}"), "12".into()),
        )
    };
    assert!(world.apply([added("a", "13"), unread("a")]).suspect, "only a consistent list can decide");
    assert!(world.apply([unread("b")]).suspect);
    assert_eq!((world.pump.undecodable.is_empty(), world.pump.counters().stale), (true, 2));
}
