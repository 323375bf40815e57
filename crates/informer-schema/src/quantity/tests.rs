use super::*;

#[test]
fn quantities_are_canonicalized_as_by_a_server() {
    let cases = [
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("100m", "100m"),
        ("0.001", "1m"),
        ("+5", "+5"),
        ("007", "007"),
        ("-0", "0"),
        ("1e3", "1e3"),
        ("1E2", "100"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("0.1Ki", "102400m"),
        ("10Ei", "9223372036854775807"),
        ("12e6", "12e6"),
        (".5", "500m"),
        ("0.000000001", "1n"),
        ("0.000001", "1u"),
        ("1000000", "1M"),
        ("1000000000", "1G"),
        ("1000000000000", "1T"),
        ("1000000000000000", "1P"),
        ("1000000000000000000", "1E"),
        ("5.", "5."),
        ("0.25Ki", "256"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn invalid_quantity_is_rejected() {
    for bad in ["", "a", "1.1i", "1 ", " 1", "1kk", "1e", "1.2.3", "--1", "1Kii", "e3x", "\u{664}"] {
        assert!(canonical(bad).is_err(), "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn canonical_quantity_is_unchanged(text in "[+-]?[0-9]{0,12}(\\.[0-9]{0,12})?(n|u|m|k|M|G|Ki|Mi|Gi|e[0-9])?") {
        if let Ok(once) = canonical(&text) {
            let again = canonical(&once).map(Cow::into_owned);
            proptest::prop_assert_eq!(again.as_deref(), Ok(&*once));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
        let _ = canonical(&text);
    }
}
