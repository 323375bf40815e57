use std::collections::HashSet;

use informer_schema::Schema;

use super::{DESCRIPTORS, built_in};

#[test]
fn each_descriptor_belongs_to_one_served_kind() {
    let schema = Schema::builtin();
    let served: HashSet<(String, String, String)> =
        built_in(&schema).map(|kind| (kind.gvr.group, kind.gvr.version, kind.kind)).collect();
    let mut seen = HashSet::new();
    for descriptor in DESCRIPTORS {
        let name = (descriptor.group.to_owned(), descriptor.version.to_owned(), descriptor.kind.to_owned());
        assert!(served.contains(&name), "{descriptor:?} is not served");
        assert!(seen.insert(name), "{descriptor:?} is listed more than once");
    }
}

#[test]
fn initial_statuses_are_json_objects() {
    for kind in built_in(&Schema::builtin()) {
        let mut object = serde_json::Map::new();
        kind.fill_status(&mut object);
        assert!(object.get("status").is_none_or(serde_json::Value::is_object), "{}", kind.kind);
    }
}
