use informer_core::{Header, Labels};

use super::*;

fn gvk() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn written(name: &str, version: u64) -> Ended {
    Ended::Written { key: key(name), version: version.into(), labels: Labels::default() }
}

fn object(version: u64, uid: &str) -> Header {
    Header::new(key("ns/a")).with_version(version).with_uid(uid)
}

/// Whether a store at a version, holding this, shows what is expected of `ns/a`.
fn shows(state: &State, store: u64, held: Option<Header>) -> bool {
    let (keys, floor) = state.expected(&gvk(), &Scope::Key(key("ns/a")));
    let everything = Selects::default();
    keys.iter()
        .map(|(_, expected)| expected)
        .chain(&floor)
        .all(|expected| expected.is_shown(held.as_ref(), &store.into(), &everything))
}

fn after(endings: impl IntoIterator<Item = Ended>) -> State {
    let mut state = State::default();
    for ended in endings {
        let ticket = state.begin(&gvk(), Some(key("ns/a")));
        state.end(&gvk(), ticket, ended);
    }
    state
}

#[test]
fn a_write_is_shown_by_the_object_in_its_version_or_by_a_store_that_is_past_it() {
    let state = after([written("ns/a", 10)]);
    assert!(!shows(&state, 9, Some(object(8, "u"))));
    assert!(!shows(&state, 9, None));
    assert!(shows(&state, 10, Some(object(10, "u"))));
    assert!(shows(&state, 12, None), "somebody deleted it since");
}

#[test]
fn answers_that_come_in_another_order_leave_the_newest() {
    let state = after([written("ns/a", 11), written("ns/a", 10)]);
    assert!(!shows(&state, 10, Some(object(10, "u"))));
    assert!(shows(&state, 11, Some(object(11, "u"))));
}

#[test]
fn a_deletion_is_shown_when_that_uid_is_gone() {
    let state = after([written("ns/a", 10), Ended::Gone { key: key("ns/a"), uid: "u".to_owned() }]);
    assert!(!shows(&state, 10, Some(object(10, "u"))));
    assert!(!shows(&state, 9, None), "it has not seen the creation yet");
    assert!(shows(&state, 10, None));
    assert!(shows(&state, 12, Some(object(12, "another"))));
}

#[test]
fn a_read_waits_for_the_writes_under_way_and_not_for_later_ones() {
    let mut state = State::default();
    let first = state.begin(&gvk(), Some(key("ns/a")));
    let other = state.begin(&gvk(), Some(key("ns/b")));
    let unnamed = state.begin(&gvk(), None);
    let of_key = state.under_way(&gvk(), &Scope::Key(key("ns/a")));
    assert_eq!(of_key, [first, unnamed]);
    assert_eq!(state.under_way(&gvk(), &Scope::Kind), [first, other, unnamed]);
    let _later = state.begin(&gvk(), Some(key("ns/a")));
    for ticket in [first, unnamed] {
        assert!(!state.have_ended(&gvk(), &of_key));
        state.end(&gvk(), ticket, Ended::Unknown);
    }
    assert!(state.have_ended(&gvk(), &of_key));
}

#[test]
fn what_a_cache_does_not_select_is_not_waited_for() {
    let state = after([written("ns/a", 10)]);
    let (keys, _) = state.expected(&gvk(), &Scope::Kind);
    let web = Selects { labels: "app=web".parse().unwrap(), by_more: false };
    assert!(keys[0].1.is_shown::<Header>(None, &9.into(), &web), "it has no such label");
    assert!(!keys[0].1.is_shown(Some(&object(8, "u")), &9.into(), &web), "it had the label, and must go");
}

#[test]
fn too_many_keys_become_one_version() {
    let mut state = State::default();
    for number in 0..=KEYS_MAX as u64 {
        let ticket = state.begin(&gvk(), None);
        state.end(&gvk(), ticket, written(&format!("ns/{number}"), number + 1));
    }
    let (keys, floor) = state.expected(&gvk(), &Scope::Kind);
    assert!(keys.is_empty() && floor.is_some());
    assert!(!shows(&state, KEYS_MAX as u64, None));
    assert!(shows(&state, KEYS_MAX as u64 + 1, None));
}

#[test]
fn versions_that_are_no_numbers_are_not_waited_for() {
    let state = after([Ended::Written { key: key("ns/a"), version: "x".into(), labels: Labels::default() }]);
    assert!(shows(&state, 1, None));
}
