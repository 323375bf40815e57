use super::constructs_messages;

#[test]
fn message_construction_is_detected() {
    let program = |text: &str| kube_cel::cel::Program::compile(text).unwrap();
    assert!(constructs_messages(program("[1].all(x, Foo{a: x} == self)").expression()));
    assert!(!constructs_messages(program("[1].all(x, {'a': x} == self)").expression()));
}
