use super::find;

fn told(text: &str) -> Option<String> {
    find(text.as_bytes())
}

#[test]
fn keys_that_are_there_once_are_not_told() {
    assert_eq!(told("a: 1\nb: [{a: 1}, {a: 2}]\n1: x\n\"1\": y\n"), None);
}

#[test]
fn keys_that_are_there_again_are_told_with_the_lines_of_their_values_those_within_first() {
    let text = "a:\n  b: 1\n  b:\n    c: 1\n    c: 2\na: 3\n1: x\n1: y\n";
    let lines = [(5, "\"c\""), (4, "\"b\""), (6, "\"a\""), (8, "1")]
        .map(|(line, key)| format!("\n  line {line}: key {key} already set in map"));
    assert_eq!(told(text), Some(format!("unmarshal errors:{}", lines.concat())));
}

#[test]
fn of_an_alias_the_line_is_told_where_it_stands() {
    let told = told("a: &x {b: 1}\nc: 1\nc: *x\n").unwrap();
    assert_eq!(told, "unmarshal errors:\n  line 3: key \"c\" already set in map");
}

#[test]
fn of_a_long_text_some_keys_are_told() {
    let text = "k: 1\n".repeat(20_000);
    assert_eq!(told(&text).unwrap().lines().count(), 1 + (2 << 20) / text.len());
}
