use super::*;

fn lines(operations: &str) -> Vec<String> {
    let script = QueueScript::parse("test", &format!("about: a test\ndo: [{operations}]")).unwrap();
    run_ours(&script).unwrap()
}

#[test]
fn an_invalid_script_is_rejected_with_the_problem() {
    for (text, expected) in [
        ("about: x\ndo: []", "it has no operations"),
        ("about: x\ndo: [push a]", "use one of add, add-after"),
        ("about: x\ndo: [add]", "needs a key"),
        ("about: x\ndo: [add-after a]", "needs a duration"),
        ("about: x\ndo: [add-after a soon]", "needs a duration such as 50ms"),
        ("about: x\ndo: [add a b]", "unexpected argument b"),
        ("about: x", "missing field"),
    ] {
        let problem = QueueScript::parse("bad", text).unwrap_err().to_string();
        assert!(problem.contains("queue script bad") && problem.contains(expected), "{text}: {problem}");
    }
}

#[test]
fn each_operation_returns_a_line_with_its_result() {
    assert_eq!(
        lines("get one, add a, len, retries a, add a, done a, get two, shut-down, get three, done a"),
        [
            "get one",
            "add a; one got a",
            "len = 0",
            "retries a = 0",
            "add a",
            "done a",
            "get two; two got a",
            "shut-down",
            "get three; three got the end",
            "done a"
        ]
    );
}

#[test]
fn time_passes_only_in_advance_operations() {
    assert_eq!(
        lines("add-after a 50ms, get one, advance 49ms, advance 1ms"),
        ["add-after a 50ms", "get one", "advance 49ms", "advance 1ms; one got a"]
    );
}
