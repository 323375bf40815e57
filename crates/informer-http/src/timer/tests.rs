use std::time::Duration;

use super::{ConnectionTimer, TimeoutCheck, Timeouts};

const TIMEOUTS: Timeouts = Timeouts { head: at(32), idle: at(90), response: at(60), stalled: None };

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
    let mut waiting = ConnectionTimer::new(TIMEOUTS, at(5));
    assert_eq!(end(&waiting, 5), (37, TimeoutCheck::TimedOut));
    for second in 5..37 {
        waiting.on_read(b"P", at(second));
    }
    assert_eq!(end(&waiting, 36), (37, TimeoutCheck::TimedOut));
}

#[test]
fn idle_connection_times_out_after_90_seconds_and_next_head_after_32() {
    let mut waiting = ConnectionTimer::new(TIMEOUTS, at(0));
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
    let mut waiting = ConnectionTimer::new(TIMEOUTS, at(0));
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
    let mut waiting = ConnectionTimer::new(TIMEOUTS, at(0));
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
    let mut waiting = ConnectionTimer::new(TIMEOUTS, at(0));
    waiting.on_read(b"PRI", at(1));
    waiting.on_read(b" *X", at(2));
    waiting.on_read(b" HTTP/2.0\r\n\r\nSM\r\n\r\n", at(3));
    assert_eq!(end(&waiting, 3), (32, TimeoutCheck::TimedOut));
}

/// Returns a connection on which the body of a response has ended at 2 seconds, after `blocked` writes.
fn responded(blocked: bool, long_running: bool) -> ConnectionTimer {
    let mut timer = ConnectionTimer::new(TIMEOUTS, at(0));
    timer.on_read(b"GET", at(0));
    timer.on_request(at(0));
    timer.on_response(long_running, at(1));
    if blocked {
        timer.on_write_blocked(at(1));
    }
    timer.on_response_end(at(2));
    timer
}

#[test]
fn unread_rest_of_an_ended_response_times_out_after_60_seconds() {
    assert_eq!(end(&responded(false, false), 2), (92, TimeoutCheck::Idle));
    assert_eq!(
        end(&responded(true, false), 2),
        (61, TimeoutCheck::TimedOut),
        "from the start of the response"
    );
    assert_eq!(end(&responded(true, true), 2), (62, TimeoutCheck::TimedOut), "from the end of a watch");
    let mut timer = responded(false, false);
    for second in 2..50 {
        timer.on_write_blocked(at(second));
    }
    assert_eq!(end(&timer, 50), (62, TimeoutCheck::TimedOut), "from the first blocked write");
    timer.on_flush(at(51));
    assert_eq!(end(&timer, 51), (141, TimeoutCheck::Idle));
}

#[test]
fn blocked_write_of_http2_or_of_an_open_watch_does_not_time_out() {
    let mut http2 = ConnectionTimer::new(TIMEOUTS, at(0));
    http2.on_read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", at(0));
    http2.on_write_blocked(at(10));
    assert_eq!(end(&http2, 10), (90, TimeoutCheck::Idle));
    http2.on_request(at(20));
    http2.on_response(false, at(20));
    assert_eq!(end(&http2, 20).0, u64::MAX);

    let mut watch = ConnectionTimer::new(TIMEOUTS, at(0));
    watch.on_request(at(0));
    watch.on_response(true, at(0));
    watch.on_write_blocked(at(1));
    assert_eq!(end(&watch, 1).0, u64::MAX);
}

#[test]
fn next_check_is_early_enough_for_the_shortest_timeout() {
    let timeouts = Timeouts { head: at(32), idle: at(5), response: at(60), stalled: None };
    let mut timer = ConnectionTimer::new(timeouts, at(0));
    assert_eq!(timer.check_timeout(at(0)), TimeoutCheck::Pending(at(5)));
    timer.on_request(at(0));
    timer.on_response(false, at(0));
    timer.on_response_end(at(0));
    assert_eq!(timer.check_timeout(at(5)), TimeoutCheck::Idle);
}

#[test]
fn stalled_long_running_response_times_out_and_progress_extends_it() {
    let limited = Timeouts { stalled: Some(at(15)), ..TIMEOUTS };
    let mut waiting = ConnectionTimer::new(limited, at(0));
    waiting.on_request(at(0));
    waiting.on_response(true, at(0));
    waiting.on_part(7, at(1));
    waiting.on_part_accepted(7);
    assert_eq!(end(&waiting, 1).0, u64::MAX, "a response that waits for its body does not time out");
    waiting.on_part(7, at(2));
    waiting.on_part(8, at(5));
    assert_eq!(end(&waiting, 2), (17, TimeoutCheck::TimedOut));
    waiting.on_progress(at(10));
    assert_eq!(end(&waiting, 10), (25, TimeoutCheck::TimedOut));
    let mut unlimited = ConnectionTimer::new(TIMEOUTS, at(0));
    unlimited.on_request(at(0));
    unlimited.on_response(true, at(0));
    unlimited.on_part(7, at(1));
    assert_eq!(end(&unlimited, 1).0, u64::MAX);
}

#[test]
fn another_response_over_http2_does_not_extend_a_stalled_one() {
    let limited = Timeouts { stalled: Some(at(15)), ..TIMEOUTS };
    let mut waiting = ConnectionTimer::new(limited, at(0));
    waiting.on_read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", at(0));
    waiting.on_request(at(0));
    waiting.on_response(true, at(0));
    waiting.on_part(0, at(1));
    waiting.on_progress(at(10));
    assert_eq!(end(&waiting, 10), (16, TimeoutCheck::Stalled(0)));
    waiting.on_request(at(11));
    waiting.on_response(true, at(11));
    waiting.on_part(1, at(12));
    waiting.on_part_accepted(0);
    assert_eq!(end(&waiting, 12), (27, TimeoutCheck::Stalled(1)), "only the stalled stream ends");
}
