use informer_core::LabelSelector;

use super::label_selector_error;
use crate::model::labels::{NAME_RULE, VALUE_RULE};

/// The expected messages were recorded with the label selector parser of `k8s.io/apimachinery`.
#[test]
fn invalid_label_selectors_report_apimachinery_errors() {
    let in_requirement = |detail: &str| format!("unable to parse requirement: {detail}");
    let integer = "for 'Gt', 'Lt' operators, the value must be an integer";
    let long = "k".repeat(64);
    for (text, why) in [
        ("a in (", in_requirement("found '', expected: ',', ')' or identifier")),
        ("a in ((", in_requirement("found '(', expected: ',', ')' or identifier")),
        ("a in (b", in_requirement("found '', expected: ',' or ')'")),
        ("a in (b=c)", in_requirement("found '=', expected: ',' or ')'")),
        ("a in (b,", in_requirement("found '', expected: ',', or identifier")),
        ("a in (b,,", in_requirement("found '', expected: ',', or identifier")),
        ("a in (b,(", in_requirement("found '(', expected: ',', or identifier")),
        ("a in b", in_requirement("found 'b' expected: '('")),
        ("a===b", in_requirement("found '=', expected: identifier")),
        ("a b", in_requirement("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("!", in_requirement("found '', expected: identifier")),
        ("a=b,!", in_requirement("found '', expected: identifier")),
        (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a=b,)", "found ')', expected: identifier after ','".to_owned()),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'".to_owned()),
        ("/a", in_requirement("<nil>: Invalid value: \"/a\": prefix part must be non-empty")),
        (
            "a/",
            in_requirement(&format!(
                "<nil>: Invalid value: \"a/\": name part must be non-empty; {NAME_RULE}"
            )),
        ),
        (
            &long,
            in_requirement(&format!(
                "<nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes"
            )),
        ),
        ("-x in (", in_requirement(&format!("<nil>: Invalid value: \"-x\": {NAME_RULE}"))),
        ("a>x", in_requirement(&format!("values[0]: Invalid value: \"x\": {integer}"))),
        ("a>-1", in_requirement(&format!("values[0][a]: Invalid value: \"-1\": {VALUE_RULE}"))),
        (
            "a>-x",
            in_requirement(&format!(
                "[values[0]: Invalid value: \"-x\": {integer}, values[0][a]: Invalid value: \"-x\": {VALUE_RULE}]"
            )),
        ),
        ("a in (b,y-)", in_requirement(&format!("values[1][a]: Invalid value: \"y-\": {VALUE_RULE}"))),
        (
            "a in (y-,b,-x)",
            in_requirement(&format!(
                "[values[0][a]: Invalid value: \"-x\": {VALUE_RULE}, values[2][a]: Invalid value: \"y-\": {VALUE_RULE}]"
            )),
        ),
    ] {
        assert_eq!(label_selector_error(&text.parse::<LabelSelector>().unwrap_err()), why, "{text}");
    }
}
