//! Example of a store under concurrent use: no reader observes a partial transaction. See `README.md` in this
//! folder.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use informer_core::{Header, ObjectKey};
use informer_store::{StoreBuilder, StoreChange, ThreadSafeStore, label};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const TRANSACTIONS: u32 = 2000;

/// Runs concurrent readers and a writer on one store.
pub fn main() -> Result {
    let store: ThreadSafeStore<Header> = StoreBuilder::new().index("side", label("side")).thread_safe();
    let sides = [("left", ObjectKey::new("scales", "left")?), ("right", ObjectKey::new("scales", "right")?)];

    let snapshots = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&store, &sides));
        let mut snapshots = 0;
        while !writer.is_finished() {
            read(&store)?;
            snapshots += 1;
            thread::yield_now();
        }
        Ok::<u32, Box<dyn Error + Send + Sync>>(snapshots)
    })?;
    println!("{TRANSACTIONS} transactions, {snapshots} snapshots, all of them consistent");
    println!("finally: {:?} at version {}", store.keys(), store.resource_version());
    assert_eq!(store.keys(), ["scales/right"]);
    Ok(())
}

/// Moves one object back and forth between two keys. Each transaction deletes the object under its current
/// key and adds it under the other key.
fn write(store: &ThreadSafeStore<Header>, sides: &[(&str, ObjectKey); 2]) {
    let mut moves = sides.iter().cycle();
    let mut from = &sides[1].1;
    for version in 0..TRANSACTIONS {
        let Some((side, to)) = moves.next() else { return };
        let object = Header::new(to.clone()).with_version(version.to_string()).with_labels([("side", *side)]);
        store.transaction([StoreChange::delete_key(from.clone()), StoreChange::upsert(Arc::new(object))]);
        from = to;
    }
}

/// Takes a snapshot of the store, and returns an error if its objects and its index show a partial
/// transaction.
fn read(store: &ThreadSafeStore<Header>) -> Result {
    let snapshot = store.snapshot();
    let (left, right) = (snapshot.by_index("side", "left")?.len(), snapshot.by_index("side", "right")?.len());
    match snapshot.len() {
        0 if snapshot.resource_version().is_empty() => Ok(()),
        1 if left + right == 1 => Ok(()),
        len => Err(format!("a partial transaction: {left} left and {right} right of {len}").into()),
    }
}
