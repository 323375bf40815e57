//! Compares strategic merge patches with those of Go, which computed the patches and applied them. See
//! `golden.rs` for the corpus of objects.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::Read;
use std::path::PathBuf;

use informer_core::Gvk;
use informer_schema::{KindSchema, Schema, strategic_merge};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    kind: String,
    original: Value,
    patch: Value,
    result: Option<Value>,
    #[serde(default)]
    refused: bool,
}

fn cases() -> Vec<Case> {
    let folder = std::env::var_os("INFORMER_SCHEMA_CORPUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus"), PathBuf::from);
    let packed = std::fs::read(folder.join("patches.jsonl.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind<'s>(schema: &'s Schema, name: &str) -> KindSchema<'s> {
    let [group, version, kind] = name.split('/').collect::<Vec<_>>().try_into().unwrap();
    schema.kind(&Gvk::new(group, version, kind)).unwrap()
}

/// Converts all numbers to floating point, because Go writes an integral floating point number as `1` and
/// serde_json as `1.0`.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), plain(member))).collect()
        }
        Value::Array(entries) => entries.iter().map(plain).collect(),
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

#[test]
fn strategic_merge_matches_go() {
    let (schema, mut failures, mut refused) = (Schema::builtin(), Vec::new(), 0);
    let cases = cases();
    for case in &cases {
        let ours = strategic_merge(kind(&schema, &case.kind), case.original.clone(), case.patch.clone());
        refused += usize::from(ours.is_err());
        match (&ours, &case.result, case.refused) {
            (Ok(ours), Some(theirs), false) if plain(ours) == plain(theirs) => {}
            (Err(_), None, true) => {}
            _ => failures.push(format!(
                "{} patch {}\n  ours   {ours:?}\n  theirs {:?}",
                case.kind, case.patch, case.result
            )),
        }
    }
    assert!(cases.len() > 600 && refused > 10, "{} cases, {refused} rejected", cases.len());
    assert!(
        failures.is_empty(),
        "{} of {} differ\n{}",
        failures.len(),
        cases.len(),
        failures[..failures.len().min(3)].join("\n")
    );
}

#[track_caller]
fn merged(original: Value, patch: Value) -> Value {
    let schema = Schema::builtin();
    strategic_merge(kind(&schema, "/v1/Pod"), original, patch).unwrap()
}

#[test]
fn set_element_order_keeps_entries_of_the_server() {
    let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "s"}, {"name": "b"}]}});
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "i"}]}});
    let expected =
        json!({"spec": {"containers": [{"name": "s"}, {"name": "b", "image": "i"}, {"name": "a"}]}});
    assert_eq!(merged(pod, patch), expected);
}

#[test]
fn delete_from_primitive_list_removes_values() {
    let pod = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}});
    assert_eq!(merged(pod, patch), json!({"metadata": {"finalizers": ["d", "a", "c"]}}));
}

#[test]
fn retain_keys_clears_a_union() {
    let pod = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let patch = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}});
    let expected = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}});
    assert_eq!(merged(pod, patch), expected);
}

#[test]
fn merging_large_lists_is_not_quadratic() {
    let entries = |image: &str| -> Value {
        (0..20_000).map(|at| json!({"name": format!("n{at}"), "image": image})).collect()
    };
    let patched =
        merged(json!({"spec": {"containers": entries("a")}}), json!({"spec": {"containers": entries("b")}}));
    assert_eq!(patched["spec"]["containers"], entries("b"));
}
