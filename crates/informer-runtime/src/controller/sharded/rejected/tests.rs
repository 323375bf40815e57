use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn put(aside: &mut RejectedRequests<String>, text: &str, now: Instant) -> Vec<String> {
    aside.insert(text.into(), text.to_owned(), text.into(), now)
}

fn begin() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[test]
fn what_is_owned_by_now_comes_back_once() {
    let (mut aside, now) = (RejectedRequests::new(SECOND), begin());
    for text in ["a", "b", "a"] {
        put(&mut aside, text, now);
    }
    assert_eq!(aside.take_owned(|key| key == "a"), ["a"]);
    assert_eq!(aside.take_owned(|_| true), ["b"]);
    assert_eq!((aside.len(), aside.take("a")), (0, None));
}

#[test]
fn what_came_again_is_as_young_as_its_last_coming() {
    let (mut aside, now) = (RejectedRequests::new(SECOND), begin());
    put(&mut aside, "a", now);
    put(&mut aside, "b", now);
    put(&mut aside, "a", now + SECOND);
    assert_eq!(aside.forget(now + SECOND * 2), ["b"]);
    assert_eq!(aside.forget(now + SECOND * 2 + SECOND / 2), ["a"]);
    assert!(aside.order.is_empty());
}

#[test]
fn of_too_many_the_oldest_are_forgotten() {
    let (mut aside, now) = (RejectedRequests::new(SECOND), begin());
    for number in 0..MAX_REJECTED {
        assert!(put(&mut aside, &number.to_string(), now).is_empty());
    }
    assert_eq!(put(&mut aside, "one more", now), ["0"]);
    assert_eq!(aside.len(), MAX_REJECTED);
}
