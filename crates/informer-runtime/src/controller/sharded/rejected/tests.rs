use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn insert(rejected: &mut RejectedRequests<String>, text: &str, now: Instant) -> Vec<String> {
    rejected.insert(text.into(), text.to_owned(), text.into(), now)
}

fn begin() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[test]
fn requests_of_owned_keys_are_returned_once() {
    let (mut rejected, now) = (RejectedRequests::new(SECOND), begin());
    for text in ["a", "b", "a"] {
        insert(&mut rejected, text, now);
    }
    assert_eq!(rejected.take_owned(|key| key == "a"), ["a"]);
    assert_eq!(rejected.take_owned(|_| true), ["b"]);
    assert_eq!((rejected.len(), rejected.take("a")), (0, None));
}

#[test]
fn repeated_request_expires_after_its_last_insertion() {
    let (mut rejected, now) = (RejectedRequests::new(SECOND), begin());
    insert(&mut rejected, "a", now);
    insert(&mut rejected, "b", now);
    insert(&mut rejected, "a", now + SECOND);
    assert_eq!(rejected.forget(now + SECOND * 2), ["b"]);
    assert_eq!(rejected.forget(now + SECOND * 2 + SECOND / 2), ["a"]);
    assert!(rejected.order.is_empty());
}

#[test]
fn oldest_requests_are_evicted_when_full() {
    let (mut rejected, now) = (RejectedRequests::new(SECOND), begin());
    for number in 0..MAX_REJECTED {
        assert!(insert(&mut rejected, &number.to_string(), now).is_empty());
    }
    assert_eq!(insert(&mut rejected, "one more", now), ["0"]);
    assert_eq!(rejected.len(), MAX_REJECTED);
}
