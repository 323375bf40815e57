use super::compile;

#[test]
fn go_dialect_is_matched() {
    for (pattern, text, matches) in [
        ("^\\d+$", "12", true),
        ("^\\d+$", "\u{0661}", false),
        ("^\\w+$", "a_1", true),
        ("^\\w+$", "\u{e9}", false),
        ("^[\\w.]+$", "a.b", true),
        ("^[^\\W]+$", "a-", false),
        ("^[a[b]+$", "[ab", true),
        ("^[]a]+$", "]a", true),
        ("^\\Qa.b\\E$", "a.b", true),
        ("^\\Qa.b\\E$", "axb", false),
        ("^a{2,3}$", "aaa", true),
        ("^a{,3}$", "a{,3}", true),
        ("^[[:alpha:]]+$", "ab", true),
        ("^\\p{Greek}\\x{41}$", "\u{3b1}A", true),
        ("^(?i:AB)(?P<n>c)$", "abc", true),
        ("\\bab\\b", "x ab y", true),
    ] {
        assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} on {text}");
    }
}

#[test]
fn invalid_patterns_report_go_errors() {
    for (pattern, message) in [
        ("a(b", "missing closing ): `a(b`"),
        ("a)b", "unexpected ): `a)b`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("\\y", "invalid escape sequence: `\\y`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("[z-a]", "invalid character class range: `z-a`"),
    ] {
        let error = compile(pattern).unwrap_err();
        assert_eq!(error, format!("error parsing regexp: {message}"), "{pattern}");
    }
}
