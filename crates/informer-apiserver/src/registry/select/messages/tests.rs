use informer_core::LabelSelector;

use super::of_labels;
use crate::model::labels::{NAME_RULE, VALUE_RULE};

/// The messages were recorded with the parser of `k8s.io/apimachinery`.
#[test]
fn invalid_label_selectors_report_apimachinery_errors() {
    let within = |detail: &str| format!("unable to parse requirement: {detail}");
    let integer = "for 'Gt', 'Lt' operators, the value must be an integer";
    let long = "k".repeat(64);
    for (text, why) in [
        ("a in (", within("found '', expected: ',', ')' or identifier")),
        ("a in ((", within("found '(', expected: ',', ')' or identifier")),
        ("a in (b", within("found '', expected: ',' or ')'")),
        ("a in (b=c)", within("found '=', expected: ',' or ')'")),
        ("a in (b,", within("found '', expected: ',', or identifier")),
        ("a in (b,,", within("found '', expected: ',', or identifier")),
        ("a in (b,(", within("found '(', expected: ',', or identifier")),
        ("a in b", within("found 'b' expected: '('")),
        ("a===b", within("found '=', expected: identifier")),
        ("a b", within("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("!", within("found '', expected: identifier")),
        ("a=b,!", within("found '', expected: identifier")),
        (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a=b,)", "found ')', expected: identifier after ','".to_owned()),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'".to_owned()),
        ("/a", within("<nil>: Invalid value: \"/a\": prefix part must be non-empty")),
        ("a/", within(&format!("<nil>: Invalid value: \"a/\": name part must be non-empty; {NAME_RULE}"))),
        (
            &long,
            within(&format!("<nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes")),
        ),
        ("-x in (", within(&format!("<nil>: Invalid value: \"-x\": {NAME_RULE}"))),
        ("a>x", within(&format!("values[0]: Invalid value: \"x\": {integer}"))),
        ("a>-1", within(&format!("values[0][a]: Invalid value: \"-1\": {VALUE_RULE}"))),
        (
            "a>-x",
            within(&format!(
                "[values[0]: Invalid value: \"-x\": {integer}, values[0][a]: Invalid value: \"-x\": {VALUE_RULE}]"
            )),
        ),
        ("a in (b,y-)", within(&format!("values[1][a]: Invalid value: \"y-\": {VALUE_RULE}"))),
        (
            "a in (y-,b,-x)",
            within(&format!(
                "[values[0][a]: Invalid value: \"-x\": {VALUE_RULE}, values[2][a]: Invalid value: \"y-\": {VALUE_RULE}]"
            )),
        ),
    ] {
        assert_eq!(of_labels(&text.parse::<LabelSelector>().unwrap_err()), why, "{text}");
    }
}
