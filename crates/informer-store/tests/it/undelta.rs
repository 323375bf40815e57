use std::sync::mpsc::{Receiver, channel};

use informer_core::{KeyError, ObjectKey};
use informer_store::{StoreBuilder, UndeltaStore};

use crate::{Pod, bare, names};

fn pushing(builder: StoreBuilder<Pod>) -> (UndeltaStore<Pod>, Receiver<Vec<String>>) {
    let (sender, pushed) = channel();
    let store = UndeltaStore::new(builder, move |pods| sender.send(names(pods)).unwrap());
    (store, pushed)
}

#[test]
fn an_addition_and_an_update_push_the_whole_state() {
    let (mut store, pushed) = pushing(StoreBuilder::new());
    store.add(bare("a")).unwrap();
    store.update(bare("b")).unwrap();
    assert_eq!(pushed.try_iter().collect::<Vec<_>>(), [vec!["a"], vec!["a", "b"]]);
}

#[test]
fn a_deletion_pushes_what_is_left() {
    let (mut store, pushed) = pushing(StoreBuilder::new());
    store.add(bare("a")).unwrap();
    store.delete(bare("a")).unwrap();
    assert_eq!(pushed.try_iter().collect::<Vec<_>>(), [vec!["a"], vec![]]);
}

#[test]
fn a_replacement_pushes_once() {
    let (mut store, pushed) = pushing(StoreBuilder::new());
    store.replace([bare("a"), bare("b")], "1").unwrap();
    assert_eq!(pushed.try_iter().collect::<Vec<_>>(), [vec!["a", "b"]]);
}

#[test]
fn reads_and_resyncs_push_nothing() {
    let (store, pushed) = pushing(StoreBuilder::new());
    assert!(store.list().is_empty() && store.keys().is_empty() && store.get("a").is_none());
    assert!(store.is_empty() && store.snapshot().list().is_empty());
    store.resync();
    assert_eq!(pushed.try_iter().count(), 0);
}

#[test]
fn what_has_no_key_pushes_nothing() {
    let no_key = |_: &Pod| -> Result<ObjectKey, KeyError> { Err(KeyError::new("pod x", "no key")) };
    let (mut store, pushed) = pushing(StoreBuilder::new().key(no_key));
    assert!(store.add(bare("a")).is_err() && store.delete(bare("a")).is_err());
    assert!(store.replace([bare("a")], "1").is_err());
    assert_eq!(pushed.try_iter().count(), 0);
}
