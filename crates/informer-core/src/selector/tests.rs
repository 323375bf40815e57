use proptest::prelude::*;

use crate::{
    FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Labels, ParseLabelSelectorError,
};

fn label(text: &str) -> LabelSelector {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn check(selector: &str, pairs: &[(&str, &str)], matches: bool) {
    let (selector, labels) = (label(selector), labels(pairs));
    assert_eq!(selector.matches(&labels), matches, "{selector} on {pairs:?}");
    assert_eq!(selector.matches_with(|key| labels.get(key)), matches, "{selector} on {pairs:?}");
}

#[test]
fn each_operator_matches_as_the_api_defines_it() {
    check("", &[], true);
    check("a", &[("a", "")], true);
    check("a", &[], false);
    check("!a", &[], true);
    check("!a", &[("a", "x")], false);
    check("a=x", &[("a", "x")], true);
    check("a==x", &[("a", "y")], false);
    check("a=", &[("a", "")], true);
    check("a=", &[], false);
    check("a!=x", &[("a", "y")], true);
    check("a!=x", &[], true);
    check("a!=x", &[("a", "x")], false);
    check("a in (x,y)", &[("a", "y")], true);
    check("a in (x,y)", &[], false);
    check("a in (x,,y)", &[("a", "")], true);
    check("a notin (x)", &[], true);
    check("a notin (x)", &[("a", "x")], false);
    check("a>3", &[("a", "4")], true);
    check("a>3", &[("a", "3")], false);
    check("a<3", &[("a", "-4")], true);
    check("a<3", &[("a", "few")], false);
    check("a<3", &[], false);
    check("a=x,b!=y", &[("a", "x"), ("b", "y")], false);
}

#[test]
fn white_space_and_keywords_as_names_are_accepted() {
    check("  a  in  ( x , y )  ,  !b ", &[("a", "x")], true);
    check("in in (in, notin)", &[("in", "notin")], true);
    check("notin", &[("notin", "")], true);
    check("example.com/app=web", &[("example.com/app", "web")], true);
}

#[test]
fn malformed_label_selector_reports_expected_token_and_offset() {
    for (text, found, at, expected) in [
        ("a===b", "=", 3, "identifier"),
        ("a in b", "b", 5, "'('"),
        ("a in (", "", 6, "',', ')' or identifier"),
        ("a in (b", "", 7, "',' or ')'"),
        ("a in (b,", "", 8, "',', or identifier"),
        ("a in (b,(", "(", 8, "',', or identifier"),
        ("a b", "b", 2, "in, notin, =, ==, !=, gt, lt"),
        (",a", ",", 0, "!, identifier, or 'end of string'"),
        ("a=b c", "c", 4, "',' or 'end of string'"),
        ("a,", "", 2, "identifier after ','"),
        ("a,,b", ",", 2, "identifier after ','"),
        ("a,!", "", 3, "identifier"),
        ("!", "", 1, "identifier"),
    ] {
        let expected = ParseLabelSelectorError::Unexpected { found: found.to_owned(), at, expected };
        assert_eq!(text.parse::<LabelSelector>(), Err(expected), "{text}");
    }
}

#[test]
fn invalid_label_keys_and_values_are_rejected() {
    for text in [
        "-x",
        "a=-x",
        "a in (b,-x)",
        "a>x",
        "a>-1",
        "/a",
        "a/",
        "EXAMPLE.com/a",
        "a=ä",
        "a\u{a0}=b",
        &"k".repeat(64),
    ] {
        assert!(text.parse::<LabelSelector>().is_err(), "{text}");
    }
    let error = "-x in (".parse::<LabelSelector>().unwrap_err();
    assert!(matches!(error, ParseLabelSelectorError::Key { .. }), "the key comes first: {error}");
}

#[test]
fn nothing_selector_round_trips() {
    assert!(!LabelSelector::nothing().matches(&Labels::default()));
    assert!(!label(&LabelSelector::nothing().to_string()).matches(&labels(&[("nothing", "x")])));
}

#[test]
fn field_selectors_read_both_operators_and_their_escapes() {
    let selector: FieldSelector = r"a=x\,y\=z\\,b!=,c==1".parse().unwrap();
    let values: Vec<_> = selector.requirements().iter().map(|r| (r.field(), r.value())).collect();
    assert_eq!(values, [("a", r"x,y=z\"), ("b", ""), ("c", "1")]);
    assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
    assert_eq!(selector.required("c"), Some("1"));
    assert_eq!(selector.required("b"), None);
}

#[test]
fn absent_field_matches_as_empty_string() {
    let selector: FieldSelector = "spec.nodeName=,status.phase!=Failed".parse().unwrap();
    assert!(selector.matches(|_| None));
}

#[test]
fn malformed_field_selectors_are_rejected_with_their_term() {
    use crate::FieldSelectorProblem::*;
    let escape = |sequence: &str| Escape { sequence: sequence.to_owned() };
    for (text, term, problem) in [
        ("foo", "foo", NoOperator),
        ("a=1,foo", "foo", NoOperator),
        ("z,b", "b", NoOperator),
        ("=x", "=x", NoField),
        ("a!x", "a!x", NoOperator),
        (r"a=\x", r"a=\x", escape(r"\x")),
        (r"a=x\", r"a=x\", escape(r"\")),
        ("a=b=c", "a=b=c", Unescaped { character: '=' }),
    ] {
        let error = text.parse::<FieldSelector>().unwrap_err();
        assert_eq!((error.term(), error.problem()), (term, &problem));
    }
    assert_eq!("a!b=c".parse::<FieldSelector>().unwrap().requirements()[0].field(), "a!b");
}

#[test]
fn field_selectors_are_built_matched_and_written() {
    use crate::FieldOperator::{Equals, NotEquals};
    let selector = FieldSelector::everything()
        .and(FieldRequirement::equals("a", "1"))
        .and(FieldRequirement::new("b", NotEquals, "x,y"));
    assert_eq!(selector.to_string(), r"a=1,b!=x\,y");
    assert_eq!(selector, r"a==1,b!=x\,y".parse().unwrap());
    assert!(!selector.is_everything() && FieldSelector::everything().is_everything());
    let operators: Vec<_> = selector.requirements().iter().map(FieldRequirement::operator).collect();
    assert_eq!(operators, [Equals, NotEquals]);
    let matches =
        |a: &str, b: &str| selector.matches(|field| Some(if field == "a" { a } else { b }.to_owned().into()));
    assert_eq!([matches("1", "2"), matches("2", "2"), matches("1", "x,y")], [true, false, false]);
    let escaped: FieldSelector = r"a=x\\,b=1".parse().unwrap();
    assert_eq!(escaped.requirements().len(), 2, "the second backslash is escaped, and the comma is not");
    let error = "b=1,a".parse::<FieldSelector>().unwrap_err();
    assert_eq!(error.selector(), "b=1,a");
    let error = error.to_string();
    assert!(error.contains("\"b=1,a\"") && error.contains("\"a\": it has no =, == or !="), "{error}");
}

#[test]
fn label_selectors_are_built_and_written() {
    use crate::LabelOperator::*;
    let new = |operator, values: &[&str]| LabelRequirement::new("a", operator, values.iter().copied());
    for (operator, values, text) in [
        (Exists, &[][..], "a"),
        (DoesNotExist, &[], "!a"),
        (Equals, &["1"], "a=1"),
        (NotEquals, &["1"], "a!=1"),
        (In, &["2", "1", "2"], "a in (1,2)"),
        (NotIn, &["1"], "a notin (1)"),
        (GreaterThan, &["1"], "a>1"),
        (LessThan, &["1"], "a<1"),
    ] {
        let requirement = new(operator, values).unwrap();
        assert_eq!((requirement.key(), requirement.operator()), ("a", operator));
        let selector = LabelSelector::from(requirement.clone());
        assert_eq!((selector.to_string().as_str(), label(text)), (text, selector));
        let twice = LabelSelector::everything().and(requirement.clone()).and(requirement);
        assert_eq!((twice.to_string(), twice.requirements().len()), (format!("{text},{text}"), 2));
    }
    assert_eq!(new(In, &["2", "1", "2"]).unwrap().values().collect::<Vec<_>>(), ["1", "2"]);
    for (operator, values, needs) in [
        (Exists, &["1"][..], "no value"),
        (DoesNotExist, &["1"], "no value"),
        (In, &[], "at least one value"),
        (NotIn, &[], "at least one value"),
        (Equals, &[], "exactly one value"),
        (NotEquals, &["1", "2"], "exactly one value"),
        (GreaterThan, &[], "exactly one value"),
        (LessThan, &["1", "2"], "exactly one value"),
    ] {
        assert_eq!(new(operator, values), Err(ParseLabelSelectorError::Count { key: "a".to_owned(), needs }));
    }
    let (everything, nothing) = (LabelSelector::everything(), LabelSelector::nothing());
    assert_eq!((everything.is_everything(), everything.is_nothing()), (true, false));
    assert_eq!((nothing.is_everything(), nothing.is_nothing()), (false, true));
    assert!(!label("a").is_everything() && !label("a").is_nothing());
    assert!(!nothing.matches_with(|_| None) && everything.matches_with(|_| None));
}

#[test]
fn bounds_of_comparisons_do_not_match() {
    check("a<3", &[("a", "3")], false);
    check("a<3", &[("a", "2")], true);
    check("a>3", &[("a", "few")], false);
    check("a>3", &[], false);
}

#[test]
fn label_names_and_values_follow_the_rules_of_the_api() {
    let accepted = |text: &str| text.parse::<LabelSelector>().is_ok();
    let (longest, prefix) = ("k".repeat(63), ["p".repeat(125), "p".repeat(127)].join("."));
    assert_eq!(prefix.len(), 253);
    for text in [
        &*longest,
        &format!("a={longest}"),
        &format!("{prefix}/a"),
        "A-b_c.9",
        "0.example-1.com/a",
        "a=B-c_d.0",
        "a \t in\n(\rx)",
    ] {
        assert!(accepted(text), "{text}");
    }
    for text in [
        &*format!("{longest}k"),
        &format!("a={longest}k"),
        &format!("{prefix}p/a"),
        "a-",
        "_a",
        "a+b",
        "a=b+c",
        "a=b-",
        "a=.b",
        "-p.com/a",
        "p-.com/a",
        "p..com/a",
        "p_q/a",
        "Pq/a",
        "p.com/",
        "p/q/a",
        "a>1.5",
    ] {
        assert!(!accepted(text), "{text}");
    }
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    use crate::LabelOperator::*;
    let operator =
        prop::sample::select(vec![Exists, DoesNotExist, Equals, NotEquals, In, NotIn, GreaterThan, LessThan]);
    ("[a-z]([a-z.-]{0,5}[a-z])?", operator, prop::collection::vec("[a-z0-9]{0,3}", 1..4), any::<u32>())
        .prop_map(|(key, operator, values, number)| match operator {
            Exists | DoesNotExist => LabelRequirement::new(key, operator, Vec::<String>::new()).unwrap(),
            GreaterThan | LessThan => LabelRequirement::new(key, operator, [number.to_string()]).unwrap(),
            Equals | NotEquals => LabelRequirement::new(key, operator, [values[0].clone()]).unwrap(),
            In | NotIn => LabelRequirement::new(key, operator, values).unwrap(),
        })
}

proptest! {
    #[test]
    fn label_selector_round_trips_through_its_string(requirements in prop::collection::vec(requirement(), 0..4)) {
        let selector = requirements.into_iter().fold(LabelSelector::everything(), LabelSelector::and);
        prop_assert_eq!(selector.to_string().parse::<LabelSelector>(), Ok(selector));
    }

    #[test]
    fn parsers_never_panic(text in "\\PC{0,40}|[a-c=!<>(), in\\\\]{0,20}") {
        let _ = text.parse::<LabelSelector>();
        let _ = text.parse::<FieldSelector>();
        let _ = text.parse::<crate::FieldPath>();
        let _ = text.parse::<crate::ObjectKey>();
    }
}
