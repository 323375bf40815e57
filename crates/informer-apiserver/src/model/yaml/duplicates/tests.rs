use super::find;

fn duplicate_key_errors(text: &str) -> Option<String> {
    find(text.as_bytes())
}

#[test]
fn unique_keys_are_not_reported() {
    assert_eq!(duplicate_key_errors("a: 1\nb: [{a: 1}, {a: 2}]\n1: x\n\"1\": y\n"), None);
}

#[test]
fn duplicate_keys_are_reported_with_lines_of_values_innermost_first() {
    let text = "a:\n  b: 1\n  b:\n    c: 1\n    c: 2\na: 3\n1: x\n1: y\n";
    let lines = [(5, "\"c\""), (4, "\"b\""), (6, "\"a\""), (8, "1")]
        .map(|(line, key)| format!("\n  line {line}: key {key} already set in map"));
    assert_eq!(duplicate_key_errors(text), Some(format!("unmarshal errors:{}", lines.concat())));
}

#[test]
fn duplicate_key_with_alias_is_reported_at_the_alias() {
    let duplicate_key_errors = duplicate_key_errors("a: &x {b: 1}\nc: 1\nc: *x\n").unwrap();
    assert_eq!(duplicate_key_errors, "unmarshal errors:\n  line 3: key \"c\" already set in map");
}

#[test]
fn duplicate_keys_of_a_long_document_are_reported_in_part() {
    let text = "k: 1\n".repeat(20_000);
    assert_eq!(duplicate_key_errors(&text).unwrap().lines().count(), 1 + (2 << 20) / text.len());
}
