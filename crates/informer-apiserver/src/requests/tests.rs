use std::time::Duration;

use super::{
    MAX_LOGGED_CHARS, MAX_REQUESTS, MAX_REQUESTS_BYTES, RequestLog, RequestRecord, Verb, is_volatile,
};

fn request(path_bytes: usize) -> RequestRecord {
    RequestRecord {
        number: 0,
        at: Duration::ZERO,
        verb: Verb::Other,
        gvr: None,
        namespace: None,
        name: None,
        subresource: None,
        path: "/".repeat(path_bytes),
        query: String::new(),
        resource_version: String::new(),
        user_agent: String::new(),
        user: String::new(),
        is_apply: false,
        status: Default::default(),
    }
}

#[test]
fn log_is_bounded_by_bytes_and_by_requests() {
    let log = RequestLog::default();
    for _ in 0..20_000 {
        log.push(request(MAX_LOGGED_CHARS));
    }
    let kept = log.all();
    let bytes = kept.iter().map(RequestRecord::bytes).sum::<usize>();
    assert!(bytes <= MAX_REQUESTS_BYTES && bytes > MAX_REQUESTS_BYTES - 2 * MAX_LOGGED_CHARS, "{bytes}");
    assert_eq!(kept.last().unwrap().number, 20_000, "the newest are kept");
    for _ in 0..MAX_REQUESTS + 5 {
        log.push(request(1));
    }
    assert_eq!(log.all().len(), MAX_REQUESTS);
    let counted = log.state.lock().bytes;
    assert_eq!(counted, log.all().iter().map(RequestRecord::bytes).sum::<usize>());
}

#[test]
fn long_texts_of_a_request_are_truncated_and_remove_no_other_request() {
    let log = RequestLog::default();
    log.push(request(1));
    // Most characters have two bytes, and the limit counts characters.
    let long = "/äöü".repeat(200_000);
    let optional = Some(long.clone());
    let oversized = RequestRecord {
        namespace: optional.clone(),
        name: optional.clone(),
        subresource: optional,
        path: long.clone(),
        query: long.clone(),
        resource_version: long.clone(),
        user_agent: long.clone(),
        user: "short".to_owned(),
        ..request(0)
    };
    assert!(8 * oversized.bytes() > MAX_REQUESTS_BYTES);
    for _ in 0..7 {
        log.push(oversized.clone());
    }
    let logged = log.push(oversized);
    let whole = (logged.full.number, logged.full.path.len());
    assert_eq!(whole, (9, long.len()), "fault rules match the whole");
    logged.logged.status.set(http::StatusCode::OK);
    let kept = log.all();
    assert_eq!(kept.len(), 9, "the first request is kept");
    let last = &kept[8];
    assert_eq!((last.number, last.status(), last.user.as_str()), (9, Some(200), "short"));
    let optional = [&last.namespace, &last.name, &last.subresource].map(|text| text.as_deref().unwrap());
    let texts = [&*last.path, &*last.query, &*last.resource_version, &*last.user_agent];
    for text in texts.into_iter().chain(optional) {
        assert_eq!(text.chars().count(), MAX_LOGGED_CHARS);
        assert!(long.starts_with(text));
    }
    let path = &logged.logged.path;
    assert_eq!(path.capacity(), path.len(), "the memory of the whole text is freed");
}

#[test]
fn text_at_the_limit_is_not_truncated() {
    let text = "ä".repeat(MAX_LOGGED_CHARS);
    let log = RequestLog::default();
    log.push(RequestRecord { user_agent: text.clone(), ..request(1) });
    assert_eq!(log.all()[0].user_agent, text);
}

#[test]
fn events_of_custom_groups_are_not_volatile() {
    assert!(is_volatile("", "events") && is_volatile("events.k8s.io", "events"));
    assert!(!is_volatile("example.com", "events"));
}
