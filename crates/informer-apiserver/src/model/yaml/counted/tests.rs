use proptest::prelude::*;

use super::*;

#[test]
fn limited_decoder_returns_the_value_of_the_yaml_parser() {
    for text in [
        "",
        "~",
        "a: 1\nb: [true, -2, 1.5, .inf, 18446744073709551615, text, '7', null]\nc: {d: ''}",
        "1: a\ntrue: b\nnull: c",
        "a: &x {b: 1}\nc: *x\nd: [*x, *x]",
        "a: 1\na: 2",
        "- &s long text\n- *s",
        "170141183460469231731687303715884105727",
    ] {
        let plain: Result<Value, _> = serde_norway::from_str(text);
        let counted = read(text.as_bytes());
        match (plain, counted) {
            (Ok(plain), Ok(counted)) => assert_eq!(counted, plain, "{text}"),
            (Err(plain), Err(counted)) => assert_eq!(counted.to_string(), plain.to_string(), "{text}"),
            (plain, counted) => panic!("{text}: {plain:?} {counted:?}"),
        }
    }
}

#[test]
fn excessive_aliases_are_rejected() {
    let wide = format!("a: &a [{}]\nb: [{}]", "1,".repeat(2_000), "*a,".repeat(2_000));
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(20_000), "*a,".repeat(2_000));
    let named = format!("a: &a {{{}: 1}}\nb: [{}]", "x".repeat(1_000), "*a,".repeat(2_000));
    let deep: String = (1..20).map(|n| format!("\na{n}: &a{n} [*a{m}, *a{m}]", m = n - 1)).collect();
    for text in [wide, long, named, format!("a0: &a0 [1]{deep}")] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        // The YAML parser has its own limit for nested aliases, so either error is possible.
        let told = ["document contains excessive aliasing", "repetition limit exceeded"];
        assert!(told.iter().any(|told| error.contains(told)), "{error}");
    }
}

proptest! {
    #[test]
    fn yaml_without_aliases_is_never_rejected_for_its_length(
        names in proptest::collection::vec("[a-z]{0,3}", 0..300), empty in any::<bool>()
    ) {
        let items: Vec<String> = names.iter().map(|name| if empty { "~".to_owned() } else { format!("'{name}'") }).collect();
        let flow = format!("[{}]", items.join(","));
        prop_assert_eq!(read(flow.as_bytes()).unwrap().as_array().unwrap().len(), names.len());
    }
}
