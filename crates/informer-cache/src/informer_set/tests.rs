use super::*;
use crate::testing::{StaticSource, object};

fn things() -> SharedInformer<impl Object> {
    SharedInformer::new(StaticSource::new([object("a", "1")], "1"))
}

/// Releases the informer, whose type has no name here.
fn release<O: Object>(set: &InformerSet, _: &SharedInformer<O>) -> bool {
    set.release::<O>("things")
}

#[test]
fn lease_of_a_released_entry_does_not_count_for_its_successor() {
    let set = InformerSet::new();
    let informer = things();
    let old = set.lease("things", || informer.clone());
    assert!(release(&set, &informer), "the entry was in the set");
    let new = set.lease("things", || informer.clone());
    drop(old.clone());
    drop(old);
    assert_eq!(set.states().len(), 1, "the new lease holds the informer");
    drop(new);
    assert!(set.states().is_empty());
}

#[test]
fn generic_informer_stays_after_the_last_lease() {
    let set = InformerSet::new();
    let lease = set.lease("things", things);
    assert!(set.generic("things").unwrap().is_some());
    drop(lease);
    assert_eq!(set.states().len(), 1);
}
