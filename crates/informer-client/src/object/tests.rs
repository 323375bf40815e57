//! Compares all representations of one object with a `serde_json` tree of the same object.

use std::sync::{Arc, LazyLock};

use informer_cache::UndecodableLog;
use informer_core::{FieldPath, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::stored::Stored;
use super::{Dynamic, Interner, Lazy, Metadata, Origin, Packed, RawBytes, RawObject, Representation, Typed};
use crate::header::RawHeader;
use crate::scan::Cursor;
use crate::{MemoryBudget, ResourceKind, arbitrary};

fn read<O: Representation>(text: &str, origin: &Arc<Origin>) -> Option<O> {
    let mut raw = RawHeader::default();
    raw.scan(Cursor::new(text)).ok()?;
    let header = raw.build(text).ok()?;
    let bytes = RawBytes::Json { raw: &raw, text, cut_managed_fields: raw.layout.is_regular() };
    O::decode(RawObject { header, bytes, origin }).ok()
}

/// The origin (the data that all objects of one response share) for objects in tests of the `Packed`
/// representation. Its compression dictionary was trained on objects that have nothing in common with the
/// tested objects.
static ORIGIN: LazyLock<Arc<Origin>> = LazyLock::new(|| {
    let origin = Arc::new(origin());
    let words: Vec<String> =
        (1..60_u64).map(|word| format!("{:x}", word.wrapping_mul(0x9e37_79b9_7f4a))).collect();
    let other =
        |number: u64| json!({"metadata": {"name": format!("o{number}")}, "data": [words.join(" "), number]});
    let pack = |number| read::<Packed<Value>>(&other(number).to_string(), &origin).expect("it has a name");
    let held: Vec<usize> = (0..500).map(|number| pack(number).held_bytes()).collect();
    assert!(held[499] < held[0], "no dictionary was trained");
    origin
});

/// An origin (the data that all objects of one response share) whose interner stores equal labels,
/// annotations and owner references once for several objects.
static SHARING: LazyLock<Arc<Origin>> =
    LazyLock::new(|| Arc::new(origin().with_interner(Arc::<Interner>::default())));

/// An origin whose memory budget is exhausted, so that lazy objects are compressed.
static COMPRESSED: LazyLock<Arc<Origin>> = LazyLock::new(|| {
    let memory = MemoryBudget::new(0).source("things".to_owned());
    Arc::new(origin().with_memory(Some(memory)).with_interner(Arc::<Interner>::default()))
});

fn origin() -> Origin {
    let kind = ResourceKind::new("example.com", "v1", "Thing", "things");
    Origin::new(kind, UndecodableLog::default())
}

const PATHS: [&str; 17] = [
    "kind",
    "apiVersion",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.labels",
    "metadata.labels.a",
    "metadata.annotations",
    "metadata.annotations.a",
    "metadata.ownerReferences",
    "metadata.managedFields",
    "spec",
    "spec.items",
    "spec.a",
    "nothing.at.all",
];

/// Returns true if two field values are equal. Equal numbers may be formatted differently.
fn same(one: Option<&str>, other: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
    one == other || (number(one).is_some() && number(one) == number(other))
}

fn agree(text: &str, origin: &Arc<Origin>) -> Result<(), TestCaseError> {
    let lazy = read::<Lazy<Value>>(text, origin);
    let (packed, dynamic) = (read::<Packed<Value>>(text, origin), read::<Dynamic>(text, origin));
    prop_assert_eq!((lazy.is_some(), lazy.is_some()), (packed.is_some(), dynamic.is_some()));
    let (Some(lazy), Some(packed), Some(dynamic)) = (lazy, packed, dynamic) else { return Ok(()) };
    let mut tree: Value = serde_json::from_str(text).expect("the scan has read it");
    tree["metadata"].as_object_mut().expect("the scan has read it").remove("managedFields");
    prop_assert_eq!(lazy.header(), packed.header());
    prop_assert_eq!(lazy.header(), dynamic.header());
    prop_assert_eq!(
        &serde_json::from_str::<Value>(&packed.json().expect("it is text")).expect("it is JSON"),
        &tree
    );
    prop_assert_eq!(
        &serde_json::from_str::<Value>(&lazy.json().expect("it is text")).expect("it is JSON"),
        &tree
    );
    (tree["apiVersion"], tree["kind"]) = ("example.com/v1".into(), "Thing".into());
    prop_assert_eq!(&*lazy.get().expect("it is JSON"), &tree);
    prop_assert_eq!(&*packed.get().expect("it is JSON"), &tree);
    for object in [&lazy as &dyn Object, &packed, &dynamic] {
        let typed = object.typed_json().expect("it is text");
        prop_assert_eq!(&serde_json::from_str::<Value>(&typed).expect("it is JSON"), &tree);
    }
    prop_assert_eq!(&*dynamic.value().expect("it is JSON"), &tree);
    let text = Object::json(&dynamic).expect("it is text");
    prop_assert_eq!(&serde_json::from_str::<Value>(&text).expect("it is JSON"), &tree);
    for path in PATHS {
        let path: FieldPath = path.parse().expect("it is a path");
        let (by_bytes, by_packed, by_tree) = (lazy.field(&path), packed.field(&path), dynamic.field(&path));
        prop_assert_eq!(&by_bytes, &by_packed, "{:?} of {}", path, text);
        prop_assert!(same(by_bytes.as_deref(), by_tree.as_deref()), "{:?} of {}: {:?}", path, text, by_bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_representations_agree_with_a_tree_of_values(
        object in arbitrary::object(),
        choices in arbitrary::choices(),
    ) {
        let text = arbitrary::write(&object, &mut choices.into_iter().cycle());
        // The origin `SHARING`, whose objects share equal labels and other parts, is used twice, because a
        // part is shared only from the second object on that has it.
        for origin in [&*ORIGIN, &*SHARING, &*SHARING, &*COMPRESSED, &*COMPRESSED] {
            agree(&text, origin)?;
        }
    }
}

#[test]
fn dynamic_object_with_one_of_api_version_and_kind_has_both() {
    let cases = [
        (r#"{"kind":"Thing","metadata":{"name":"a"}}"#, ["example.com/v1", "Thing"]),
        (r#"{"metadata":{"name":"a"},"apiVersion":"example.com/v2"}"#, ["example.com/v2", "Thing"]),
        (r#"{"apiVersion":"","kind":"Other","metadata":{"name":"a"}}"#, ["example.com/v1", "Other"]),
        (r#"{"kind":null,"metadata":{"name":"a"}}"#, ["example.com/v1", "Thing"]),
        (r#"{"metadata":{"name":"a"},"kind":null,"apiVersion":null}"#, ["example.com/v1", "Thing"]),
        (r#"{"metadata":{"name":"a"}}"#, ["example.com/v1", "Thing"]),
    ];
    for (text, [api_version, kind]) in cases {
        for origin in [&*ORIGIN, &*SHARING, &*COMPRESSED] {
            let object = read::<Dynamic>(text, origin).unwrap();
            let whole = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
            assert_eq!(*object.value().unwrap(), whole);
            assert_eq!(serde_json::from_str::<Value>(&object.json().unwrap()).unwrap(), whole);
            let types = object.to_dynamic_object().unwrap().types.unwrap();
            assert_eq!((&*types.api_version, &*types.kind), (api_version, kind));
        }
    }
}

#[test]
fn dynamic_object_takes_the_memory_of_its_text() {
    let text = config_map(1);
    let object = read::<Dynamic>(&text, &Arc::new(origin())).unwrap();
    assert!(object.held_bytes() < text.len() + 500, "{} for {}", object.held_bytes(), text.len());
    let value = object.value().unwrap();
    assert!(Arc::ptr_eq(&value, &object.value().unwrap()), "callers share the parsed object");
    assert_eq!(object.annotation("a").as_deref(), Some("b"));
}

#[test]
fn corrupted_compressed_body_is_reported_by_each_read() {
    type ReadObject = fn(&dyn Object) -> bool;
    let reads: [ReadObject; 3] = [
        |object| object.annotation("a").is_some(),
        |object| !object.annotations().is_empty(),
        |object| object.field(&"data.text".parse().unwrap()).is_some(),
    ];
    for read_object in reads {
        let memory = MemoryBudget::new(0).source("things".to_owned());
        let origins = [Arc::new(origin().with_memory(Some(memory))), Arc::new(origin())];
        let mut lazy = read::<Lazy<Value>>(&config_map(1), &origins[0]).unwrap();
        let mut packed = read::<Packed<Value>>(&config_map(2), &origins[1]).unwrap();
        assert!(read_object(&lazy) && read_object(&packed));
        let Stored::Packed(body) = &mut lazy.body else { panic!("the memory budget demands compression") };
        body.truncate();
        packed.body.truncate();
        for (object, origin) in [(&lazy as &dyn Object, &origins[0]), (&packed, &origins[1])] {
            assert!(!read_object(object));
            let entries = origin.undecodable().entries();
            assert_eq!(entries[0].key(), Some(object.key()));
            assert!(entries[0].error().to_string().contains("decompress"), "{}", entries[0].error());
        }
        assert!(
            lazy.get().is_err() && lazy.json().is_err() && packed.get().is_err() && packed.json().is_err()
        );
    }
}

fn config_map(number: usize) -> String {
    let data = "the same line in each object; ".repeat(40);
    format!(
        r#"{{"metadata":{{"name":"m{number}","annotations":{{"a":"b"}}}},"data":{{"text":"{number} {data}"}}}}"#
    )
}

#[test]
fn lazy_objects_are_compressed_from_half_of_the_memory_limit() {
    let one = read::<Lazy<Value>>(&config_map(0), &Arc::new(origin())).unwrap().held_bytes();
    let budget = MemoryBudget::new(100 * one);
    let origin = Arc::new(origin().with_memory(Some(budget.source("things".to_owned()))));
    let objects: Vec<_> =
        (0..100).map(|number| read::<Lazy<Value>>(&config_map(number), &origin).unwrap()).collect();
    let state = budget.state();
    assert!(state.sources[0].is_compressed);
    assert_eq!(state.used, objects.iter().map(Object::held_bytes).sum::<usize>());
    assert_eq!((state.sources[0].objects, state.sources[0].used), (100, state.used));
    assert!(objects[10].held_bytes() > 2 * objects[90].held_bytes(), "{}", objects[90].held_bytes());
    assert!(state.used < 75 * one, "{} of {}", state.used, 100 * one);
    for (number, object) in objects.iter().enumerate() {
        let json: Value = serde_json::from_str(&config_map(number)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&object.json().unwrap()).unwrap(), json);
        assert_eq!(object.raw(), config_map(number).as_bytes());
        assert_eq!(object.annotation("a").as_deref(), Some("b"));
        assert_eq!(object.annotations().get("a"), Some("b"));
        assert_eq!(object.get().unwrap()["data"], json["data"]);
    }
    drop(objects);
    assert_eq!((budget.state().used, budget.state().sources[0].objects), (0, 0));
}

#[test]
fn each_representation_is_counted_and_nothing_is_lost_over_the_limit() {
    let budget = MemoryBudget::new(1);
    let origin = Arc::new(origin().with_memory(Some(budget.source("things".to_owned()))));
    let text = config_map(1);
    let (lazy, packed) = (read::<Lazy<Value>>(&text, &origin), read::<Packed<Value>>(&text, &origin));
    let (dynamic, metadata) = (read::<Dynamic>(&text, &origin), read::<Metadata>(&text, &origin));
    let typed = read::<Typed<Value>>(&text, &origin);
    let objects: [Box<dyn Object>; 5] = [
        Box::new(lazy.unwrap()),
        Box::new(packed.unwrap()),
        Box::new(dynamic.unwrap()),
        Box::new(metadata.unwrap()),
        Box::new(typed.unwrap()),
    ];
    assert_eq!(budget.state().used, objects.iter().map(|object| object.held_bytes()).sum::<usize>());
    assert!(budget.state().used > budget.state().limit);
    drop(objects);
    assert_eq!(budget.state().used, 0);
}
