use super::Warnings;

fn header_values(warnings: &[String]) -> Vec<String> {
    let mut all = Warnings::default();
    all.add(warnings);
    all.headers().iter().map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
}

#[test]
fn duplicate_warning_is_sent_once() {
    let header_values = header_values(&["a \"b\"".to_owned(), "c".to_owned(), "a \"b\"".to_owned()]);
    assert_eq!(header_values, [r#"299 - "a \"b\"""#, r#"299 - "c""#]);
}

#[test]
fn warnings_within_the_total_limit_are_not_truncated() {
    let long = "ü".repeat(4096);
    assert_eq!(header_values(std::slice::from_ref(&long)), [format!("299 - \"{long}\"")]);
}

#[test]
fn excess_warnings_are_truncated_and_dropped() {
    let many: Vec<String> = (0..100_000).map(|n| format!("{n:06}{}", "ü".repeat(300))).collect();
    let header_values = header_values(&many);
    assert_eq!(header_values.len(), 16, "as many as fit");
    assert!(
        header_values.iter().all(|one| one.chars().count() == 256 + "299 - \"\"".len()),
        "{header_values:?}"
    );
}
