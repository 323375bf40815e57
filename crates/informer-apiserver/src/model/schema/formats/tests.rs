use super::{has_format, is_supported};

#[test]
fn strings_are_validated_by_format() {
    for (format, valid, invalid) in [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77"),
        ("byte", "aGVsbG8=", "aGVsbG8"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-02T03:04:05.678Z", "2024-01-02T24:04:05Z"),
        ("duration", "1h2m", "soon"),
        ("duration", "2 days", "2"),
        ("email", "a.b@example.com", "a.example.com"),
        ("email", "A <a@example.com>", "<a@"),
        ("hexcolor", "#ffF", "#ffff"),
        ("hostname", "example.com", "-a.com"),
        ("ipv4", "010.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "10.0.0.1"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "9780321751041", "0321751043"),
        ("k8s-long-name", "a.b-c", "A.b"),
        ("k8s-short-name", "a-b", "a.b"),
        ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
        ("rgbcolor", "rgb(1, 2,255)", "rgb(1,2,256)"),
        ("ssn", "111-22-3333", "111223333"),
        ("uri", "https://example.com/a", "example.com"),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99"),
        ("uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f", "bcd02e22-68f0-4046-a512-327cca9def8f"),
        ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34", "025b0d74-00a2-3048-bf57-227c5111bb34"),
        ("uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d", "886313e1-3b8a-4372-9b90-0c9aee199e5d"),
    ] {
        assert!(has_format(format, valid), "{format}: {valid}");
        assert!(!has_format(format, invalid), "{format}: {invalid}");
    }
}

#[test]
fn long_text_is_checked_as_a_duration_in_linear_time() {
    assert!(!has_format("duration", &"1".repeat(1 << 22)));
    assert!(has_format("duration", &format!("{} days", "1".repeat(1 << 22))));
}

#[test]
fn formats_apply_to_values_of_their_type() {
    assert!(is_supported("date-time", "string") && is_supported("datetime", ""));
    assert!(is_supported("int32", "integer") && !is_supported("int32", "number"));
    assert!(!is_supported("nope", "string") && !is_supported("uri", "object"));
}
