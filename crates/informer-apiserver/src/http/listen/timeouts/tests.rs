use std::time::Duration;

use super::{ConnectionTimer, TimeoutCheck};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the time and the kind of the next timeout of a connection on which nothing else happens.
fn end(waiting: &ConnectionTimer, from: u64) -> (u64, TimeoutCheck) {
    let mut now = at(from);
    loop {
        match waiting.check_timeout(now) {
            TimeoutCheck::Pending(due) if due > at(from + 10_000) => {
                return (u64::MAX, TimeoutCheck::Pending(due));
            }
            TimeoutCheck::Pending(due) => {
                assert!(now < due && due <= now + at(32), "{now:?}: the next check is only at {due:?}");
                now = due;
            }
            over => return (now.as_secs(), over),
        }
    }
}

#[test]
fn slow_request_head_times_out_after_32_seconds() {
    let mut waiting = ConnectionTimer::new(at(5));
    assert_eq!(end(&waiting, 5), (37, TimeoutCheck::TimedOut));
    for second in 5..37 {
        waiting.on_read(b"P", at(second));
    }
    assert_eq!(end(&waiting, 36), (37, TimeoutCheck::TimedOut));
}

#[test]
fn idle_connection_times_out_after_90_seconds_and_next_head_after_32() {
    let mut waiting = ConnectionTimer::new(at(0));
    waiting.on_read(b"GET / HTTP/1.1\r\n\r\n", at(1));
    waiting.on_request(at(1));
    waiting.on_response(false, at(2));
    waiting.on_response_end(at(3));
    assert_eq!(end(&waiting, 3), (93, TimeoutCheck::Idle));
    waiting.on_read(b"G", at(80));
    waiting.on_read(b"E", at(100));
    assert_eq!(end(&waiting, 100), (112, TimeoutCheck::TimedOut));
}

#[test]
fn unread_response_times_out_but_watch_does_not() {
    let mut waiting = ConnectionTimer::new(at(0));
    waiting.on_read(b"GET", at(0));
    waiting.on_request(at(0));
    assert_eq!(
        end(&waiting, 0).0,
        u64::MAX,
        "the request timeout applies while the server processes the request"
    );
    waiting.on_response(false, at(10));
    assert_eq!(end(&waiting, 10), (70, TimeoutCheck::TimedOut));
    waiting.on_response(true, at(10));
    assert_eq!(end(&waiting, 10).0, u64::MAX);
}

#[test]
fn http2_connection_is_idle_between_requests_despite_ping_frames() {
    let mut waiting = ConnectionTimer::new(at(0));
    for piece in [&b"PRI * HT"[..], b"TP/2.0\r\n\r\nSM\r", b"\n\r\n\0\0"] {
        waiting.on_read(piece, at(10));
    }
    assert_eq!(end(&waiting, 10), (100, TimeoutCheck::Idle));
    waiting.on_read(b"a ping", at(90));
    assert_eq!(end(&waiting, 90), (100, TimeoutCheck::Idle));
    waiting.on_request(at(95));
    waiting.on_request(at(96));
    waiting.on_response_end(at(97));
    assert_eq!(end(&waiting, 97).0, u64::MAX, "a request is in flight");
    waiting.on_response_end(at(98));
    assert_eq!(end(&waiting, 98), (188, TimeoutCheck::Idle));
}

#[test]
fn partial_http2_preface_is_treated_as_http1() {
    let mut waiting = ConnectionTimer::new(at(0));
    waiting.on_read(b"PRI", at(1));
    waiting.on_read(b" *X", at(2));
    waiting.on_read(b" HTTP/2.0\r\n\r\nSM\r\n\r\n", at(3));
    assert_eq!(end(&waiting, 3), (32, TimeoutCheck::TimedOut));
}
