use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Header, Object};
use informer_workqueue::LOW_PRIORITY;

use super::Trigger;

fn object(version: &str) -> Arc<Header> {
    Arc::new(Header::new("ns/a".parse().expect("a key")).with_version(version))
}

fn updated(resync: bool) -> Trigger<Header> {
    Event::Updated { old: object("1"), new: object("2"), resync }.into()
}

#[test]
fn initial_list_and_resync_have_low_priority_and_changes_have_none() {
    for (trigger, priority) in [
        (Event::Added { object: object("1"), initial: true }.into(), LOW_PRIORITY),
        (Event::Added { object: object("1"), initial: false }.into(), 0),
        (updated(true), LOW_PRIORITY),
        (updated(false), 0),
        (Event::Deleted { last: object("1"), stale: false }.into(), 0),
        (Trigger::Generic(object("1")), 0),
    ] {
        let trigger: Trigger<Header> = trigger;
        assert_eq!(trigger.priority(), priority, "{trigger:?}");
    }
}

#[test]
fn only_an_update_has_an_old_state() {
    let versions = |trigger: &Trigger<Header>| -> Vec<String> {
        trigger.states().map(|object| object.resource_version().to_string()).collect()
    };
    assert_eq!(versions(&updated(false)), ["1", "2"]);
    let deleted = Trigger::from(Event::Deleted { last: object("3"), stale: true });
    assert_eq!((versions(&deleted), deleted.old()), (vec!["3".to_owned()], None));
    assert_eq!(
        (deleted.key().name(), deleted.object().resource_version().to_string()),
        ("a", "3".to_owned())
    );
    assert_eq!(versions(&Trigger::Generic(object("4"))), ["4"]);
}
