use serde_json::Value;

use super::apply;

const OBJECT: &str = r#"{"data":{"k":"v"},"l":["a"],"metadata":{"name":"a"},"nil":null}"#;
/// The results of `gopkg.in/evanphx/json-patch.v4` for operations on [`OBJECT`].
const OUTCOMES: &str = include_str!("outcomes.txt");

fn applied(operation: &str) -> Result<Value, String> {
    let mut object: Value = serde_json::from_str(OBJECT).unwrap();
    apply(&mut object, &serde_json::from_str(operation).unwrap()).map(|()| object)
}

#[test]
fn operations_match_evanphx_json_patch() {
    for line in OUTCOMES.lines() {
        let (operation, outcome) = line.split_once('\t').unwrap();
        let expected = match outcome.strip_prefix("OK ") {
            Some(object) => Ok(serde_json::from_str::<Value>(object).unwrap()),
            None => Err(outcome.strip_prefix("ERR ").unwrap().to_owned()),
        };
        assert_eq!(applied(operation), expected, "{operation}");
    }
}

#[test]
fn replace_or_test_of_the_root_without_value_is_an_error() {
    for operation in [r#"{"op":"replace","path":""}"#, r#"{"op":"test","path":""}"#] {
        assert!(applied(operation).is_err());
    }
}
