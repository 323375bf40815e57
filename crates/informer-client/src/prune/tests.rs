use proptest::prelude::*;
use serde_json::Value;

use super::Pruning;
use crate::arbitrary;

fn remove(value: &mut Value, path: &[&str]) {
    match (value.as_object_mut(), path) {
        (Some(members), [name]) => drop(members.remove(*name)),
        (Some(members), [name, rest @ ..]) => {
            if let Some(member) = members.get_mut(*name) {
                remove(member, rest);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pruned_text_equals_the_pruned_value(
        object in arbitrary::object(),
        choices in arbitrary::choices(),
        which in prop::collection::vec(0usize..5, 0..4),
    ) {
        let paths = ["metadata.labels", "spec", "metadata.name", "metadata.managedFields", "metadata.labels.a"];
        let text = arbitrary::write(&object, &mut choices.into_iter().cycle());
        let mut pruning = Pruning::nothing();
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        for index in which {
            pruning = pruning.cut(paths[index].parse().unwrap());
            remove(&mut expected, &paths[index].split('.').collect::<Vec<_>>());
        }
        let pruned = pruning.cuts(&text).unwrap().apply(&text);
        let pruned: Value = serde_json::from_str(&pruned).expect("pruned text is JSON");
        prop_assert!(pruned == expected, "{} from {}", pruned, text);
    }
}

#[test]
fn commas_remain_valid_after_pruning() {
    let cut = |text: &str| {
        let pruning = Pruning::nothing().cut("m".parse().unwrap());
        pruning.cuts(text).unwrap().apply(text).into_string()
    };
    assert_eq!(cut(r#"{"m":1}"#), "{}");
    assert_eq!(cut(r#"{ "m" : 1 , "a":2}"#), r#"{"a":2}"#);
    assert_eq!(cut(r#"{"a":2 , "m":1}"#), r#"{"a":2}"#);
    assert_eq!(cut(r#"{"m":1,"m":1,"a":2,"m":3,"m":4,"b":5,"m":6}"#), r#"{"a":2,"b":5}"#);
}
