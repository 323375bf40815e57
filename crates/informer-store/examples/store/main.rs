//! Example of a `Store`: keyed objects behind one handle, and the functions that compute their keys. See
//! `README.md` in this folder.

use std::error::Error;
use std::sync::Arc;

use informer_core::{Header, Object, ObjectKey};
use informer_store::{Store, StoreBuilder, StoreChange, key_by, label};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

struct Machine {
    header: Header,
    cores: u32,
}

impl Object for Machine {
    fn header(&self) -> &Header {
        &self.header
    }
}

fn machine(room: &str, name: &str, version: &str, cores: u32) -> Result<Arc<Machine>> {
    let header =
        Header::new(ObjectKey::new(room, name)?).with_version(version).with_labels([("vendor", "acme")]);
    Ok(Arc::new(Machine { header, cores }))
}

/// Demonstrates the store.
pub fn main() -> Result {
    // The default key is namespace and name, as in Kubernetes.
    let machines: Store<Machine> = StoreBuilder::new().resource("machines").build();
    machines.add(machine("room-1", "a", "1", 16)?)?;
    let before = machines.update(machine("room-1", "a", "2", 32)?)?;
    println!("room-1/a had {:?} cores", before.map(|machine| machine.cores));

    // A transaction: readers see all of these changes or none. Each change returns the previous object.
    machines.transaction([
        StoreChange::upsert(machine("room-1", "b", "3", 64)?),
        StoreChange::upsert(machine("room-2", "c", "4", 64)?),
        StoreChange::delete_key(ObjectKey::new("room-1", "a")?),
    ])?;
    println!("keys: {:?}", machines.keys());

    // `replace` replaces the whole content of the store, like a list.
    machines.replace([machine("room-2", "c", "4", 64)?, machine("room-2", "d", "5", 8)?], "5")?;
    println!("after replace: {:?} at version {}", machines.keys(), machines.resource_version());
    assert!(!machines.contains("room-1/b") && machines.contains("room-2/d"));

    // A store with a custom key function, which `key_by` creates from an index function.
    let by_vendor: Store<Machine> = StoreBuilder::new().key(key_by(label("vendor"))).build();
    by_vendor.add(machine("room-1", "a", "1", 16)?)?;
    println!("by vendor: {:?}", by_vendor.keys());

    // An object without a key is rejected with an error that describes the object; the store is unchanged.
    let nameless = Machine { header: Header::new("room-9/x".parse()?), cores: 1 };
    let Err(error) = by_vendor.add(Arc::new(nameless)) else { return Err("a key without a vendor".into()) };
    println!("rejected: {error}, object {:?}", error.object());
    Ok(())
}
