use super::Warnings;

fn told(warnings: &[String]) -> Vec<String> {
    let mut all = Warnings::default();
    all.add(warnings);
    all.headers().iter().map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
}

#[test]
fn a_warning_is_told_once() {
    let told = told(&["a \"b\"".to_owned(), "c".to_owned(), "a \"b\"".to_owned()]);
    assert_eq!(told, [r#"299 - "a \"b\"""#, r#"299 - "c""#]);
}

#[test]
fn a_few_long_warnings_are_told_whole() {
    let long = "ü".repeat(4096);
    assert_eq!(told(std::slice::from_ref(&long)), [format!("299 - \"{long}\"")]);
}

#[test]
fn of_too_many_the_first_are_told_each_of_them_cut() {
    let many: Vec<String> = (0..100_000).map(|n| format!("{n:06}{}", "ü".repeat(300))).collect();
    let told = told(&many);
    assert_eq!(told.len(), 16, "as many as fit");
    assert!(told.iter().all(|one| one.chars().count() == 256 + "299 - \"\"".len()), "{told:?}");
}
