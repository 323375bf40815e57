use proptest::prelude::*;
use serde_json::json;

use super::go_error::MAX_DEPTH;
use super::{read_json, read_whole, syntax_error};

#[test]
fn each_invalid_utf8_byte_becomes_a_replacement_character() {
    assert_eq!(read_json(b"{\"a\":\"x\xff\xe2\x82y\"}"), Ok(json!({"a": "x\u{fffd}\u{fffd}\u{fffd}y"})));
    assert_eq!(read_json(b"{\"a\xff\":1}"), Ok(json!({"a\u{fffd}": 1})));
}

#[test]
fn each_unpaired_surrogate_escape_becomes_a_replacement_character() {
    let read = |text: &str| read_json(text.as_bytes());
    assert_eq!(read(r#""\ud83d\ude00 \ud83d \ude00""#), Ok(json!("\u{1f600} \u{fffd} \u{fffd}")));
    assert_eq!(read(r#""\ud83d\ud83d\ude00""#), Ok(json!("\u{fffd}\u{1f600}")));
    assert_eq!(read(r#"{"\uDC00\n":"\\ud800\u00e9"}"#), Ok(json!({"\u{fffd}\n": "\\ud800\u{e9}"})));
    assert_eq!(read(r#""\ud800"#), Err("unexpected end of JSON input".to_owned()));
}

#[test]
fn syntax_errors_have_go_messages() {
    for (text, why) in [
        (&b""[..], "unexpected end of JSON input"),
        (b"{\"a\":", "unexpected end of JSON input"),
        (b"{\"a\":\xff}", "invalid character 'ÿ' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        (b"{\"a\" 1}", "invalid character '1' after object key"),
        (b"{\"a\":1 2}", "invalid character '2' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"[tru]", "invalid character ']' in literal true (expecting 'e')"),
        (b"\"a\nb\"", "invalid character '\\n' in string literal"),
        (b"\"\\x\"", "invalid character 'x' in string escape code"),
        (b"\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"01", "invalid character '1' after top-level value"),
    ] {
        assert_eq!(read_json(text).unwrap_err(), why, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn duplicate_keys_are_detected_at_any_depth_and_last_one_wins() {
    for (text, value, doubled) in [
        (
            &br#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}"#[..],
            json!({"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}),
            false,
        ),
        (br#"{"a":1,"b":2,"a":3}"#, json!({"a": 3, "b": 2}), true),
        (br#"{"a":[{"b":{"c":null,"c":[]}}]}"#, json!({"a": [{"b": {"c": []}}]}), true),
        (br#"{"a":1,"\u0061":2}"#, json!({"a": 2}), true),
        (b"{\"a\":\"\xff\",\"a\":1}", json!({"a": 1}), true),
        (b"{\"a\":\"\xff\"}", json!({"a": "\u{fffd}"}), false),
    ] {
        let reading = read_whole(text).unwrap();
        assert_eq!((reading.value, reading.doubled), (value, doubled), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn too_deep_json_is_rejected() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_json(nested(MAX_DEPTH).as_bytes()).is_ok());
    let error = read_json(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
    assert_eq!(error, "invalid character '[' exceeded max depth");
    assert!(read_json("[".repeat(3_000_000).as_bytes()).is_err());
}

proptest! {
    #[test]
    fn syntax_checker_agrees_with_the_decoder(text in "[ -1\\[\\]{}:,\"ae.\\\\u0tfn]{0,24}") {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
            prop_assert_eq!(syntax_error(text.as_bytes()), None);
            prop_assert_eq!(read_json(text.as_bytes()), Ok(value));
        } else {
            prop_assert!(read_json(text.as_bytes()).is_err());
        }
    }
}
