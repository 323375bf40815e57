use std::time::Duration;

use super::{MAX_REQUESTS, MAX_REQUESTS_BYTES, RequestLog, RequestRecord, Verb, is_volatile};

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
    for _ in 0..200 {
        log.push(request(1 << 20));
    }
    let kept = log.all();
    assert!(kept.iter().map(RequestRecord::bytes).sum::<usize>() <= MAX_REQUESTS_BYTES);
    assert_eq!((kept.len(), kept.last().unwrap().number), (63, 200), "the newest are kept");
    for _ in 0..MAX_REQUESTS + 5 {
        log.push(request(1));
    }
    assert_eq!(log.all().len(), MAX_REQUESTS);
    let counted = log.state.lock().bytes;
    assert_eq!(counted, log.all().iter().map(RequestRecord::bytes).sum::<usize>());
    log.push(request(2 * MAX_REQUESTS_BYTES));
    assert_eq!(log.all().len(), 1, "the last request is kept, whatever its size");
}

#[test]
fn events_of_custom_groups_are_not_volatile() {
    assert!(is_volatile("", "events") && is_volatile("events.k8s.io", "events"));
    assert!(!is_volatile("example.com", "events"));
}
