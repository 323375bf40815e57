use serde_json::{Value, json};

use super::{DEPTH_MAX, JsonPatch};

/// However the path is written, since upstream reads what is no pointer, too.
#[test]
fn copies_of_copies_are_bounded_wherever_they_are_found() {
    for from in ["/l/0", "/l/-1", "anything/l/0"] {
        let copy = json!({"op": "copy", "from": from, "path": "/l/0"});
        let patch = JsonPatch::of(vec![copy; 100]).unwrap();
        let error = patch.apply(json!({"l": ["x".repeat(1 << 20)]})).unwrap_err();
        assert!(error.starts_with("Unable to complete the copy"), "{error}");
    }
}

#[test]
fn what_a_patch_makes_nests_so_deep_and_no_deeper() {
    let nest = |times: usize| {
        let step = [
            json!({"op": "add", "path": "/b", "value": {}}),
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
        ];
        let step = step.into_iter().chain([json!({"op": "move", "from": "/b", "path": "/a"})]);
        let all: Vec<Value> = std::iter::repeat_n(step.collect::<Vec<_>>(), times).flatten().collect();
        JsonPatch::of(all).unwrap().apply(json!({"a": {}}))
    };
    assert!(nest(DEPTH_MAX / 2).is_ok());
    assert!(nest(DEPTH_MAX).unwrap_err().contains("nests deeper"));
}
