use super::makes_messages;

#[test]
fn rules_that_make_messages_are_found() {
    let program = |text: &str| kube_cel::cel::Program::compile(text).unwrap();
    assert!(makes_messages(program("[1].all(x, Foo{a: x} == self)").expression()));
    assert!(!makes_messages(program("[1].all(x, {'a': x} == self)").expression()));
}
