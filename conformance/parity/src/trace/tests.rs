use super::*;

fn call(call: &str, key: &str, old: &str, new: &str) -> Entry {
    let [call, key, old, new] = [call, key, old, new].map(str::to_owned);
    Entry { handler: "first".to_owned(), call, key, old, new, ..Entry::default() }
}

fn lines(entries: Vec<Entry>, resyncs: bool) -> Vec<String> {
    let trace = Trace { entries, ..Trace::default() };
    trace.streams(resyncs, false).remove("handler first").unwrap_or_default()
}

#[test]
fn only_calls_without_a_defined_order_are_sorted() {
    let initial = |key: &str| Entry { initial: true, ..call("add", key, "", "1") };
    let gone = |key: &str| Entry { last_known: true, ..call("delete", key, "1", "") };
    let entries = vec![
        initial("b"),
        initial("a"),
        call("add", "d", "", "3"),
        call("add", "c", "", "4"),
        gone("y"),
        gone("x"),
    ];
    assert_eq!(
        lines(entries, false),
        [
            "add a @1 initial",
            "add b @1 initial",
            "add d @3",
            "add c @4",
            "delete x @1 last known",
            "delete y @1 last known"
        ]
    );
}

#[test]
fn repeated_resyncs_are_merged_and_relists_are_not() {
    let again = || call("update", "a", "5", "5");
    assert_eq!(lines(vec![again(), again()], true).len(), 1);
    assert_eq!(lines(vec![again(), again()], false).len(), 2);
    assert_eq!(lines(vec![again(), call("update", "a", "5", "6"), again()], true).len(), 3);
}

#[test]
fn a_store_check_has_a_line_for_each_part() {
    let keys = BTreeMap::from([("web".to_owned(), vec!["default/a".to_owned()])]);
    let check = Check {
        store: vec!["default/a@5".to_owned()],
        indexes: BTreeMap::from([("app".to_owned(), keys)]),
        version: "10".to_owned(),
        synced: BTreeMap::from([("informer".to_owned(), true)]),
    };
    let trace = Trace { entries: vec![Entry { check: Some(check), ..Entry::default() }], ..Trace::default() };
    assert_eq!(
        trace.streams(false, false)["store"],
        [
            "check 1: store: default/a@5",
            "check 1: version: 10",
            "check 1: synced: informer=true",
            "check 1: index app: web=[default/a]"
        ]
    );
}
