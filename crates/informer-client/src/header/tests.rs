use informer_core::{Header, Object, ObjectKey, OwnerReference};
use proptest::prelude::*;
use serde_json::Value;

use super::RawHeader;
use crate::arbitrary;
use crate::scan::Cursor;

/// Returns the header that the scan of `text` should find, computed from a `serde_json` tree; `None` if the
/// header is invalid.
fn plain(text: &str) -> Option<Header> {
    let object: Value = serde_json::from_str(text).ok()?;
    let metadata = object.as_object()?.get("metadata")?.as_object()?;
    for name in ["apiVersion", "kind"] {
        optional(object.get(name), Value::as_str)?;
    }
    let string =
        |name: &str| Some(optional(metadata.get(name), Value::as_str)?.unwrap_or_default().to_owned());
    let key = ObjectKey::new(&string("namespace")?, &string("name")?).ok()?;
    let deletion = optional(metadata.get("deletionTimestamp"), Value::as_str)?;
    string("creationTimestamp")?;
    optional(metadata.get("annotations"), Value::as_object)?;
    optional(metadata.get("finalizers"), Value::as_array)?;
    let mut labels = Vec::new();
    for (name, value) in optional(metadata.get("labels"), Value::as_object)?.into_iter().flatten() {
        labels.push((name.as_str(), value.as_str()?));
    }
    let mut owners = Vec::new();
    for owner in optional(metadata.get("ownerReferences"), Value::as_array)?.into_iter().flatten() {
        let owner = owner.as_object()?;
        let text = |name: &str| Some(optional(owner.get(name), Value::as_str)?.unwrap_or_default());
        let [api_version, kind] = [text("apiVersion")?, text("kind")?];
        let controller = optional(owner.get("controller"), Value::as_bool)?.unwrap_or_default();
        owners.push(OwnerReference::new(api_version, kind, text("name")?, text("uid")?, controller));
    }
    let header = Header::new(key)
        .with_uid(string("uid")?)
        .with_version(string("resourceVersion")?)
        .with_generation(optional(metadata.get("generation"), Value::as_i64)?)
        .with_deletion_timestamp(deletion.map(Box::from))
        .with_labels(labels)
        .with_owners(owners);
    Some(header)
}

/// Reads a member of `metadata` that may be absent or null. The outer `Option` is `None` if the member has
/// the wrong type.
fn optional<'a, T>(value: Option<&'a Value>, read: impl Fn(&'a Value) -> Option<T>) -> Option<Option<T>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn scanned(text: &str) -> Result<(Header, Box<str>), String> {
    let mut raw = RawHeader::default();
    raw.scan(Cursor::new(text)).map_err(|error| error.to_string())?;
    let header = raw.build(text).map_err(|error| error.to_string())?;
    let cuts = if raw.layout.is_regular() {
        raw.layout.cuts([false; 3])
    } else {
        crate::Pruning::default().cuts(text).map_err(|error| error.to_string())?
    };
    Ok((header, cuts.apply(text)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn scan_and_serde_read_the_same_header(object in arbitrary::object(), choices in arbitrary::choices()) {
        let text = arbitrary::write(&object, &mut choices.into_iter().cycle());
        match (plain(&text), scanned(&text)) {
            (Some(plain), Ok((header, pruned))) => {
                prop_assert_eq!(plain, header);
                let mut expected: Value = serde_json::from_str(&text).unwrap();
                expected["metadata"].as_object_mut().unwrap().remove("managedFields");
                prop_assert_eq!(serde_json::from_str::<Value>(&pruned).unwrap(), expected);
            }
            (None, Err(_)) => {}
            (Some(_), Err(error)) => prop_assert!(false, "{} in {}", error, text),
            (None, Ok(_)) => prop_assert!(false, "the scan accepts {}", text),
        }
    }

    #[test]
    fn invalid_json_is_rejected_without_panic(
        object in arbitrary::object(),
        choices in arbitrary::choices(),
        at: prop::sample::Index,
        byte in prop_oneof![Just(b'"'), Just(b'{'), Just(b'}'), Just(b','), Just(b'\\'), any::<u8>()],
    ) {
        let mut bytes = arbitrary::write(&object, &mut choices.into_iter().cycle()).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = scanned(text);
            if plain(text).is_some() {
                prop_assert!(scanned(text).is_ok(), "{}", text);
            }
        }
    }
}

#[test]
fn errors_name_the_field_and_never_the_value() {
    let cases = [
        (
            r#"{"metadata":{"name":"a","resourceVersion":17}}"#,
            "metadata.resourceVersion: is not a string but a number",
        ),
        (r#"{"metadata":{}}"#, "metadata.name: missing"),
        (r#"{"spec":{"secret":"x"}}"#, "metadata: missing"),
        (r#"{"metadata":["secret"]}"#, "metadata: is not an object"),
        (r#"{"metadata":{"name":"a","labels":{"x":1}}}"#, "metadata.labels: is not a string but a number"),
        (r#"{"metadata":{"name":"a","labels":{"x":null}}}"#, "metadata.labels: is not an object of strings"),
        (r#"["secret"]"#, "is not an object"),
        (r#"{"metadata":{"name":"a"}"#, "not JSON: expected ',' or '}' at byte 24"),
        (
            r#"{"metadata":{"name":"\ud800"}}"#,
            "metadata.name: a string with a broken escape or a control character",
        ),
        (
            r#"{"metadata":{"name":"a","generation":1.5}}"#,
            "metadata.generation: is not an integer of 64 bits",
        ),
    ];
    for (text, error) in cases {
        assert_eq!(scanned(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn escaped_keys_are_recognized() {
    let text = r#"{"metad\u0061ta":{"n\u0061me":"w\u0065b","managedF\u0069elds":[{}],"uid":"u"}}"#;
    let (header, pruned) = scanned(text).unwrap();
    assert_eq!((header.key().as_str(), header.uid()), ("web", "u"));
    assert!(!pruned.contains("managed"), "{pruned}");
}
