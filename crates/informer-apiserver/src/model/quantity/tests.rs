use proptest::prelude::*;

use super::{Amount, MAX, exceeds, read};

#[test]
fn quantities_are_parsed_exactly() {
    let cases = [
        ("1", 1_000_000_000),
        ("500m", 500_000_000),
        ("0.5", 500_000_000),
        (".5", 500_000_000),
        ("1.", 1_000_000_000),
        ("1n", 1),
        ("0.1n", 1),
        ("1e3", 1_000_000_000_000),
        ("1E-3", 1_000_000),
        ("-2k", -2_000_000_000_000),
        ("1Ki", 1_024_000_000_000),
        ("1.5Gi", 1_610_612_736_000_000_000),
        ("0", 0),
        ("9223372036854775808", MAX),
        ("1000E", MAX),
    ];
    for (text, nanos) in cases {
        assert_eq!(read(text), Some(nanos), "{text}");
    }
    for text in ["", "x", "1x", "1.2.3", "--1", "1 Gi", "1KiB"] {
        assert_eq!(read(text), None, "{text:?}");
    }
}

#[test]
fn nearly_equal_quantities_differ() {
    assert!(exceeds("9007199254740993", "9007199254740992"), "floating-point numbers would be equal");
    assert!(!exceeds("1Gi", "1073741824"));
    assert!(exceeds("1000000001n", "1"));
}

#[test]
fn sum_has_the_format_of_the_first_operand() {
    let cases = [
        ("1Gi", "512Mi", "1536Mi"),
        ("1Gi", "1", "1073741825"),
        ("500m", "1", "1500m"),
        ("1500m", "500m", "2"),
        ("0", "1Gi", "1Gi"),
        ("1G", "1Gi", "2073741824"),
        ("1Ki", "-512", "512"),
        ("1e3", "1k", "2e3"),
        ("1", "0.1n", "1000000001n"),
    ];
    for (left, right, sum) in cases {
        let [left, right] = [left, right].map(|text| Amount::read(text).expect("the quantity is valid"));
        assert_eq!(left.plus(right).text(), sum);
    }
}

#[test]
fn difference_is_never_negative() {
    let [one, two] = ["1", "2"].map(|text| Amount::read(text).expect("the quantity is valid"));
    assert_eq!(two.less(one).text(), "1");
    assert_eq!(one.less(two).text(), "0");
}

#[test]
fn fractions_are_rounded_up() {
    let amount = Amount::read("1.0001").expect("the quantity is valid");
    assert_eq!((amount.whole(), amount.thousandths()), (2, 1001));
    assert_eq!(amount.rounded().text(), "2");
    assert_eq!(Amount::read("-1500m").expect("the quantity is valid").whole(), -1);
}

proptest! {
    #[test]
    fn formatted_quantity_parses_to_the_same_value(number in 0_i64..1 << 32, suffix in "|m|k|Ki|Mi|G") {
        let text = format!("{number}{suffix}");
        let short = informer_schema::canonical_quantity(&text).expect("the quantity is valid");
        prop_assert_eq!(Amount::read(&short).expect("the quantity is valid").text(), short);
    }

    #[test]
    fn integer_quantities_compare_numerically(left in 0_i64..1 << 53, right in 0_i64..1 << 53) {
        prop_assert_eq!(exceeds(&left.to_string(), &right.to_string()), left > right);
        prop_assert_eq!(exceeds(&format!("{left}m"), &format!("{right}m")), left > right);
    }

    #[test]
    fn parsing_any_string_does_not_panic(text in "[-+]?[0-9.]{0,40}[a-zA-Z]{0,3}[0-9]{0,12}") {
        let _ = read(&text);
    }
}
