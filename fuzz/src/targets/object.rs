use bytes::Bytes;
use informer_client::{Lazy, Limits, Pruning, ReadOptions};
use informer_core::{FieldPath, Object};
use serde_json::Value;

use super::{Target, WORDS};
use crate::probe::{objects_of, read_list};

pub(super) const TARGET: Target = Target { name: "object", run, words: WORDS };

/// Reads one object, pruned by a user-defined path and with small limits, and reads a field of it from its
/// bytes.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (path, object) = text.split_once('\n').unwrap_or(("spec.nodeName", text));
    let Ok(path) = path.parse::<FieldPath>() else { return };
    let limits = Limits { object_bytes: 1 << 12, page_bytes: 1 << 13, depth: 40 };
    let whole = ReadOptions { limits, pruning: Pruning::nothing(), ..ReadOptions::default() };
    let cut = ReadOptions { pruning: Pruning::nothing().cut(path.clone()), ..whole.clone() };
    let body: Bytes =
        format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{object}]}}"#).into();
    let (read, lazy) = (read_list(vec![body.clone()], cut), objects_of::<Lazy<Value>>(vec![body], whole));
    let Ok(before) = serde_json::from_str::<Value>(object) else { return };
    if let [lazy] = &*lazy {
        check_field(lazy, &path, &before);
    }
    if let [probe] = &*read.objects {
        check_cut(&path, before, &serde_json::from_str(&probe.json).expect("pruned JSON is JSON"));
    }
}

/// Checks that the field of the path was removed and everything else was kept.
fn check_cut(path: &FieldPath, mut before: Value, kept: &Value) {
    remove(&mut before, &path.segments().collect::<Vec<_>>());
    assert_eq!(&before, kept, "cut {path:?}");
}

fn check_field(lazy: &Lazy<Value>, path: &FieldPath, object: &Value) {
    let by_tree = path.segments().try_fold(object, |value, name| value.as_object()?.get(name));
    let by_bytes = lazy.field(path);
    match by_tree {
        Some(Value::String(text)) => assert_eq!(by_bytes.as_deref(), Some(&**text), "{path:?}"),
        Some(Value::Bool(value)) => assert_eq!(by_bytes.as_deref(), Some(&*value.to_string()), "{path:?}"),
        // A number keeps its original text, which can differ from the formatting of the parsed value.
        Some(Value::Number(_)) => assert!(by_bytes.is_some(), "{path:?}"),
        _ => assert_eq!(by_bytes, None, "{path:?}"),
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let (Some(members), [first, rest @ ..]) = (value.as_object_mut(), path) else { return };
    match (rest, members.get_mut(*first)) {
        ([], _) => {
            members.remove(*first);
        }
        (_, Some(member)) => remove(member, rest),
        _ => {}
    }
}
