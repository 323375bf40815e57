use super::{Given, flag, help, idle_switch};

const KNOWN: &[super::Flag] = &[flag("secure-port", "the port"), idle_switch("fast", "it always is")];

fn parse(text: &str) -> Result<Given, String> {
    Given::parse(text.split_whitespace().map(str::to_owned), KNOWN).map_err(|failure| failure.to_string())
}

#[test]
fn values_come_with_an_equals_sign_or_as_the_next_argument() {
    for text in ["--secure-port=1 --fast", "--secure-port 1 --fast=true", "-secure-port=0 -secure-port 1"] {
        assert_eq!(parse(text).unwrap().last("secure-port"), Some("1"), "{text}");
    }
}

#[test]
fn lists_are_apart_by_commas_or_given_again() {
    let given = parse("--secure-port=a,b --secure-port=c").unwrap();
    assert_eq!(given.list("secure-port").collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn what_is_unknown_or_lacks_its_value_is_named() {
    for (text, named) in [
        ("--fsync", "unknown flag: --fsync"),
        ("start", "unknown argument \"start\""),
        ("--secure-port --fast", "flag needs an argument: --secure-port"),
        ("--secure-port", "flag needs an argument: --secure-port"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn help_lists_each_flag_at_the_beginning_of_a_line() {
    let text = help(KNOWN);
    assert!(text.lines().any(|line| line.trim_start().starts_with("--secure-port ")), "{text}");
}
