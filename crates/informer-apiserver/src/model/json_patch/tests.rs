use serde_json::{Value, json};

use super::{JsonPatch, MAX_DEPTH};

/// The size limit of `copy` operations applies to each spelling of a path. json-patch also accepts invalid
/// JSON pointers, such as one without a leading slash.
#[test]
fn copy_operations_are_limited_for_each_path_spelling() {
    for from in ["/l/0", "/l/-1", "anything/l/0"] {
        let copy = json!({"op": "copy", "from": from, "path": "/l/0"});
        let patch = JsonPatch::of(vec![copy; 100]).unwrap();
        let error = patch.apply(json!({"l": ["x".repeat(1 << 20)]})).unwrap_err();
        assert!(error.starts_with("Unable to complete the copy"), "{error}");
    }
}

#[test]
fn nesting_depth_of_a_patch_result_is_limited() {
    let nest = |times: usize| {
        let step = [
            json!({"op": "add", "path": "/b", "value": {}}),
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
        ];
        let step = step.into_iter().chain([json!({"op": "move", "from": "/b", "path": "/a"})]);
        let all: Vec<Value> = std::iter::repeat_n(step.collect::<Vec<_>>(), times).flatten().collect();
        JsonPatch::of(all).unwrap().apply(json!({"a": {}}))
    };
    assert!(nest(MAX_DEPTH / 2).is_ok());
    assert!(nest(MAX_DEPTH).unwrap_err().contains("nests deeper"));
}
