use proptest::prelude::*;

use super::*;

fn compact(raw: &[u8]) -> Result<String, Problem> {
    let mut out = Vec::new();
    write_compact(&mut out, raw).map(|()| String::from_utf8(out).unwrap())
}

#[test]
fn tape_finds_values_at_their_positions() {
    let tape = Tape::parse(br#" {"a":[1,"x\u00e9\ud83e\udd80",null],"b":{},"a":true} "#).unwrap();
    assert_eq!(tape.members(tape.root()).count(), 3);
    assert_eq!(tape.member(tape.root(), "a").map(|at| tape.kind(at)), Some(JsonKind::True));
    let (_, first) = tape.members(tape.root()).next().unwrap();
    let entries: Vec<_> = tape.entries(first).collect();
    assert_eq!(tape.slice(entries[0]), "1");
    assert_eq!(tape.string(entries[1]).as_deref(), Some("x\u{e9}\u{1f980}"));
    assert_eq!(tape.kind(entries[2]), JsonKind::Null);
}

#[test]
fn string_end_is_found_at_any_alignment() {
    for (length, sign) in (0..20).flat_map(|length| {
        ["", "\\n", "\\\"", "\n", "\u{1f}", "\u{e9}", "\u{80}!#[]"].map(|sign| (length, sign))
    }) {
        let text = format!("[\"{}{sign}{}\",7]", "a".repeat(length), "!b#".repeat(3));
        let known: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let found = Tape::parse(text.as_bytes()).ok();
        assert_eq!(found.is_some(), known.is_some(), "{text:?}");
        let Some(tape) = found else { continue };
        let first = tape.entries(tape.root()).next().and_then(|at| tape.string(at));
        assert_eq!(first.as_deref(), known.as_ref().and_then(|known| known[0].as_str()), "{text:?}");
        assert_eq!(tape.entries(tape.root()).count(), 2, "{text:?}");
    }
}

#[test]
fn invalid_json_is_rejected() {
    for bad in [
        "",
        "{",
        "{}x",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{,}",
        "01",
        "1.",
        "+1",
        "\"\n\"",
        "tru",
        "\"\\x\"",
        "[1 2]",
        "{1:2}",
        "\"\\u12\"",
    ] {
        assert!(Tape::parse(bad.as_bytes()).is_err(), "{bad}");
    }
    assert_eq!(Tape::parse(b"\"\xff\"").err(), Some(Problem::Utf8));
}

#[test]
fn nesting_is_bounded_without_recursion() {
    assert_eq!(Tape::parse("[".repeat(1_000_000).as_bytes()).err(), Some(Problem::TooDeep));
    let deep = format!("{}{}", "[".repeat(MAX_JSON_DEPTH), "]".repeat(MAX_JSON_DEPTH));
    assert!(Tape::parse(deep.as_bytes()).is_ok());
}

#[test]
fn embedded_json_is_compacted_and_escaped() {
    assert_eq!(compact(b" { \"a\" : [ 1 , \"<\\n \" ] }\n").as_deref(), Ok(r#"{"a":[1,"\u003c\n "]}"#));
    assert_eq!(compact("\"\u{2028}\"".as_bytes()).as_deref(), Ok("\"\\u2028\""));
}

#[test]
fn doubles_are_formatted_as_by_go() {
    for (value, text) in [
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (3e-6, "0.000003"),
        (-1.5, "-1.5"),
        (0.0, "0"),
    ] {
        let mut out = Vec::new();
        write_double(&mut out, value).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

proptest! {
    #[test]
    fn the_tape_agrees_with_serde(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let serde = serde_json::from_slice::<serde_json::Value>(&bytes);
        if serde.is_ok() { prop_assert!(Tape::parse(&bytes).is_ok()); }
    }

    #[test]
    fn tape_accepts_the_same_json_as_serde(text in "[\\[\\]{}:, \"a\\\\u0-9.eE+-]{0,30}") {
        let ours = compact(text.as_bytes());
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) => {
                let again: serde_json::Value = serde_json::from_str(&ours.unwrap()).unwrap();
                prop_assert_eq!(again, value);
            }
            // serde_json rejects unpaired surrogates and huge numbers, which Go accepts.
            Err(error) => prop_assert!(ours.is_err() || error.to_string().contains("surrogate") || error.to_string().contains("range") || text.contains("\\u")),
        }
    }

    #[test]
    fn json_string_round_trips(text in "\\PC{0,20}[\u{0}-\u{20}<>&\u{2028}\"\\\\]{0,8}") {
        let mut out = Vec::new();
        write_string(&mut out, &text);
        let tape = Tape::parse(&out).unwrap();
        let read = tape.string(tape.root());
        prop_assert_eq!(read.as_deref(), Some(&*text));
    }
}
