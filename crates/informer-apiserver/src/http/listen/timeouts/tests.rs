use std::time::Duration;

use super::{Patience, Waiting};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the time at which a connection without further events times out.
fn end(waiting: &Waiting, from: u64) -> (u64, Patience) {
    let mut now = at(from);
    loop {
        match waiting.patience(now) {
            Patience::Until(due) if due > at(from + 10_000) => return (u64::MAX, Patience::Until(due)),
            Patience::Until(due) => {
                assert!(now < due && due <= now + at(32), "{now:?}: looked at again only at {due:?}");
                now = due;
            }
            over => return (now.as_secs(), over),
        }
    }
}

#[test]
fn slow_request_head_times_out_after_32_seconds() {
    let mut waiting = Waiting::new(at(5));
    assert_eq!(end(&waiting, 5), (37, Patience::Over));
    for second in 5..37 {
        waiting.heard(b"P", at(second));
    }
    assert_eq!(end(&waiting, 36), (37, Patience::Over));
}

#[test]
fn idle_connection_times_out_after_90_seconds_and_next_head_after_32() {
    let mut waiting = Waiting::new(at(0));
    waiting.heard(b"GET / HTTP/1.1\r\n\r\n", at(1));
    waiting.asked(at(1));
    waiting.answered(false, at(2));
    waiting.done(at(3));
    assert_eq!(end(&waiting, 3), (93, Patience::Idle));
    waiting.heard(b"G", at(80));
    waiting.heard(b"E", at(100));
    assert_eq!(end(&waiting, 100), (112, Patience::Over));
}

#[test]
fn unread_response_times_out_but_watch_does_not() {
    let mut waiting = Waiting::new(at(0));
    waiting.heard(b"GET", at(0));
    waiting.asked(at(0));
    assert_eq!(end(&waiting, 0).0, u64::MAX, "the server bounds what it does itself");
    waiting.answered(false, at(10));
    assert_eq!(end(&waiting, 10), (70, Patience::Over));
    waiting.answered(true, at(10));
    assert_eq!(end(&waiting, 10).0, u64::MAX);
}

#[test]
fn http2_connection_is_idle_between_requests_despite_ping_frames() {
    let mut waiting = Waiting::new(at(0));
    for piece in [&b"PRI * HT"[..], b"TP/2.0\r\n\r\nSM\r", b"\n\r\n\0\0"] {
        waiting.heard(piece, at(10));
    }
    assert_eq!(end(&waiting, 10), (100, Patience::Idle));
    waiting.heard(b"a ping", at(90));
    assert_eq!(end(&waiting, 90), (100, Patience::Idle));
    waiting.asked(at(95));
    waiting.asked(at(96));
    waiting.done(at(97));
    assert_eq!(end(&waiting, 97).0, u64::MAX, "one is under way");
    waiting.done(at(98));
    assert_eq!(end(&waiting, 98), (188, Patience::Idle));
}

#[test]
fn partial_http2_preface_is_treated_as_http1() {
    let mut waiting = Waiting::new(at(0));
    waiting.heard(b"PRI", at(1));
    waiting.heard(b" *X", at(2));
    waiting.heard(b" HTTP/2.0\r\n\r\nSM\r\n\r\n", at(3));
    assert_eq!(end(&waiting, 3), (32, Patience::Over));
}
