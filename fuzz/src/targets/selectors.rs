use std::borrow::Cow;

use informer_core::{FieldOperator, FieldSelector, LabelOperator, LabelRequirement, LabelSelector, Labels};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "selectors",
    run,
    words: &[" in (", " notin (", "!=", "==", ",", "!", "\\,", "\\=", "example.com/", ")", ">1", "<1"],
};

/// Label values that selectors are evaluated with.
const VALUES: [Option<&str>; 6] = [None, Some(""), Some("a"), Some("1"), Some("-7"), Some("10")];

/// Parses selectors. Each must format back to its input, and match as its requirements state.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<LabelSelector>() {
        Ok(selector) => check_labels(&selector),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<FieldSelector>() {
        Ok(selector) => check_fields(&selector),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check_labels(selector: &LabelSelector) {
    let again: LabelSelector = selector.to_string().parse().expect("a formatted selector can be parsed");
    for value in VALUES {
        let labels: Labels =
            selector.requirements().iter().filter_map(|wanted| Some((wanted.key(), value?))).collect();
        let expected = selector.requirements().iter().all(|wanted| meets(wanted, labels.get(wanted.key())));
        assert_eq!(selector.matches(&labels), expected, "{selector} on {labels:?}");
        assert_eq!(again.matches(&labels), expected, "{again}, formatted from {selector}");
    }
}

/// Evaluates one requirement with the reference implementation.
fn meets(wanted: &LabelRequirement, value: Option<&str>) -> bool {
    let listed = |value: &str| wanted.values().any(|listed| listed == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = || wanted.values().next().and_then(number);
    match wanted.operator() {
        LabelOperator::Exists => value.is_some(),
        LabelOperator::DoesNotExist => value.is_none(),
        LabelOperator::Equals | LabelOperator::In => value.is_some_and(listed),
        LabelOperator::NotEquals | LabelOperator::NotIn => !value.is_some_and(listed),
        LabelOperator::GreaterThan => value.and_then(number).zip(bound()).is_some_and(|(a, b)| a > b),
        LabelOperator::LessThan => value.and_then(number).zip(bound()).is_some_and(|(a, b)| a < b),
    }
}

fn check_fields(selector: &FieldSelector) {
    let again: FieldSelector = selector.to_string().parse().expect("a formatted selector can be parsed");
    assert_eq!(&again, selector);
    for value in VALUES {
        let expected = selector.requirements().iter().all(|wanted| {
            let same = value.unwrap_or("") == wanted.value();
            same == (wanted.operator() == FieldOperator::Equals)
        });
        assert_eq!(selector.matches(|_| value.map(Cow::Borrowed)), expected, "{selector} on {value:?}");
    }
}
