use super::*;

const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn traceparent_is_parsed_as_w3c_trace_context() {
    let context: TraceContext = HEADER.parse().unwrap();
    assert_eq!(context.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
    assert_eq!((context.span_id(), context.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
    assert_eq!(context.to_string(), HEADER);
    // Fields of a later version are ignored, and so are unknown flags.
    let later = format!("cc{}-more-fields", &HEADER[2..]);
    assert_eq!(later.parse::<TraceContext>().unwrap(), context);
    let unknown_flags = format!("{}09", &HEADER[..53]);
    assert_eq!(unknown_flags.parse::<TraceContext>().unwrap(), context);
}

#[test]
fn invalid_traceparent_is_rejected() {
    for invalid in [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ] {
        let error = invalid.parse::<TraceContext>().unwrap_err();
        assert!(error.to_string().contains(&format!("{invalid:?}")), "{error}");
    }
}

#[test]
fn invalid_state_is_dropped() {
    let context: TraceContext = HEADER.parse().unwrap();
    assert_eq!(context.clone().with_state("vendor=1").state(), "vendor=1");
    assert_eq!(context.clone().with_state("a\nb").state(), "");
    assert_eq!(context.with_state("x".repeat(MAX_STATE_BYTES + 1)).state(), "");
}

#[test]
fn headers_of_the_caller_are_kept() {
    let context = HEADER.parse::<TraceContext>().unwrap().with_state("vendor=1");
    let mut headers = HeaderMap::new();
    context.inject(&mut headers);
    assert_eq!(
        (&headers["traceparent"], &headers["tracestate"]),
        (&HEADER.parse().unwrap(), &"vendor=1".parse().unwrap())
    );
    let mut own = HeaderMap::new();
    own.insert("traceparent", HeaderValue::from_static("own"));
    context.inject(&mut own);
    assert_eq!((own.len(), &own["traceparent"]), (1, &HeaderValue::from_static("own")));
}
