use serde_json::json;

use super::{go_format, go_type};

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

#[test]
fn numbers_beyond_int64_are_decoded_to_float64() {
    for (number, of, text) in [
        (json!(7), "int64", "7"),
        (json!(7.5), "float64", "7.5"),
        (json!(u64::MAX), "float64", "18446744073709552000"),
    ] {
        assert_eq!((go_type(&number), go_format(&number).as_str()), (of, text));
    }
}
