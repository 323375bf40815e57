use serde_json::json;

use super::go_format;

#[test]
fn objects_are_formatted_as_go_maps() {
    let patch = json!({"b": {"d": null, "c": [1, 2.5, true, "x y", ""]}, "a": {}});
    assert_eq!(go_format(&patch), "map[a:map[] b:map[c:[1 2.5 true x y ] d:<nil>]]");
}

#[test]
fn numbers_are_formatted_as_in_go() {
    for (number, text) in [
        (json!(9_223_372_036_854_775_807_i64), "9223372036854775807"),
        (json!(1000.0), "1000"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e21), "1e+21"),
        (json!(-1.5e-7), "-1.5e-07"),
        (json!(0.0001), "0.0001"),
        (json!(1.25e300), "1.25e+300"),
    ] {
        assert_eq!(go_format(&number), text);
    }
}
