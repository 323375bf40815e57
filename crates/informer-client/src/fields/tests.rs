use proptest::prelude::*;
use serde_json::Value;

use super::{of_value, scalar};
use crate::arbitrary;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn scalar_agrees_between_json_text_and_value(object in arbitrary::object(), choices in arbitrary::choices()) {
        let text = arbitrary::write(&object, &mut choices.into_iter().cycle());
        let value: Value = serde_json::from_str(&text).unwrap();
        for path in ["metadata.name", "metadata.labels", "metadata.generation", "spec", "spec.items", "nothing.at.all"] {
            let read = scalar(&text, path.split('.'));
            let expected = of_value(&value, path.split('.'));
            // Numbers are compared after parsing, because `scalar` returns a number as it is written in the
            // text, while `serde_json` formats it again.
            let number = |text: &str| text.parse::<f64>().ok();
            let same = read == expected || read.as_deref().and_then(number) == expected.as_deref().and_then(number);
            prop_assert!(same, "{:?} and {:?} at {} in {}", read, expected, path, text);
        }
    }
}

#[test]
fn scalars_are_strings_and_other_values_are_none() {
    let text = r#"{"a":{"s":"x\u0041","n":-1.50,"t":true,"z":null,"l":[1],"o":{}},"a":{"s":"y","n":2}}"#;
    assert_eq!(scalar(text, ["a", "s"]).as_deref(), Some("y"), "the last duplicate wins");
    assert_eq!(scalar(text, ["a", "t"]), None);
    let text = r#"{"a":{"s":"x\u0041","n":-1.50,"t":true,"z":null,"l":[1],"o":{}}}"#;
    let read = ["s", "n", "t", "z", "l", "o"].map(|name| scalar(text, ["a", name]).map(String::from));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(read, [text("xA"), text("-1.50"), text("true"), None, None, None]);
}
