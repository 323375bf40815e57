//! `ThreadSafeStore`: a store and its indexes under concurrent use, with keys that the caller supplies.
//!
//! Writers are serialized; readers never wait for a write, and see each transaction completely or not at all.
//!
//! ```sh
//! cargo run -p informer-examples --example thread_safe_store
//! ```

use std::sync::Arc;

use informer::cache::store::{StoreBuilder, StoreChange, ThreadSafeStore, label};
use informer::{Header, ObjectKey};
use informer_examples::Result;

const TRANSACTIONS: u32 = 2000;

/// Demonstrates the store under concurrent use.
#[tokio::main]
pub async fn main() -> Result {
    let store: ThreadSafeStore<Header> = StoreBuilder::new().index("side", label("side")).thread_safe();
    let (left, right) = (ObjectKey::new("scales", "left")?, ObjectKey::new("scales", "right")?);

    // Each transaction moves one object from one key to the other.
    let writer = tokio::spawn({
        let (store, left, right) = (store.clone(), left.clone(), right.clone());
        async move {
            for number in 0..TRANSACTIONS {
                let (from, to, side) =
                    if number % 2 == 0 { (&right, &left, "l") } else { (&left, &right, "r") };
                let object =
                    Header::new(to.clone()).with_version(number.to_string()).with_labels([("side", side)]);
                store.transaction([
                    StoreChange::delete_key(from.clone()),
                    StoreChange::upsert(Arc::new(object)),
                ]);
                if number % 100 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });

    // Meanwhile a reader takes snapshots: the objects and indexes of each have the same version.
    let (mut snapshots, mut versions) = (0_u32, 0_u32);
    let mut last = store.version();
    while !writer.is_finished() {
        let snapshot = store.snapshot();
        let (l, r) = (snapshot.by_index("side", "l")?.len(), snapshot.by_index("side", "r")?.len());
        if snapshot.len() > 1 || l + r != snapshot.len() {
            return Err(format!("half of a transaction: {l} left and {r} right of {}", snapshot.len()).into());
        }
        versions += u32::from(snapshot.version() != last);
        last = snapshot.version();
        snapshots += 1;
        tokio::task::yield_now().await;
    }
    writer.await?;
    println!(
        "{TRANSACTIONS} transactions, {snapshots} snapshots of {versions} versions, all of them consistent"
    );
    println!("finally: {:?} at version {}", store.keys(), store.resource_version());
    assert_eq!(store.keys(), [right]);
    Ok(())
}
