//! Connection timeouts as a sans-io state machine: no clock, socket or lock.

use std::collections::BTreeMap;
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The timeouts of the connections to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout for a TLS handshake, and for a request head from its first byte. The head of the first
    /// request is timed from the start of the connection, or from the end of the TLS handshake.
    pub head: Duration,
    /// The timeout for the first byte of the next request, or for the next HTTP/2 request.
    pub idle: Duration,
    /// The timeout over HTTP/1.1 for the client to read a response, from the moment the service returns it.
    /// A [`LongRunning`](crate::LongRunning) response has this timeout only after its body has ended.
    pub response: Duration,
    /// The timeout for the client to accept a part of a [`LongRunning`](crate::LongRunning) response. Over
    /// HTTP/1.1, each byte that the client accepts extends it. Over HTTP/2, only the stream of the response
    /// is reset. `None` if such a response may wait forever.
    pub stalled: Option<Duration>,
}

impl Timeouts {
    /// The longest time between two checks of a connection: an event may begin a timeout that is shorter than
    /// the one that was pending at the last check.
    fn check_interval(&self) -> Duration {
        self.head.min(self.idle).min(self.response).min(self.stalled.unwrap_or(Duration::MAX))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// The connection waits for its first request. `matching` bytes of the HTTP/2 preface have been read.
    First { matching: usize },
    /// The connection waits for its next request.
    Next,
    /// The connection has received a part of a request head.
    Head,
    /// `open` requests are in flight. Over HTTP/1.1 there is at most one.
    Responses { open: usize },
    /// The body of the last response has ended, and the client has not read all of it.
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutCheck {
    /// The connection has not timed out. The caller must check again at this time.
    Pending(Duration),
    /// The client was too slow to send a request or to read a response.
    TimedOut,
    /// The client was too slow to read this long-running response over HTTP/2. Its other streams continue.
    Stalled(u64),
    /// The client sent no request within the idle timeout.
    Idle,
}

/// The state of a connection, and the time at which that state began. Times are those of the server's clock.
#[derive(Debug)]
pub(crate) struct ConnectionTimer {
    timeouts: Timeouts,
    state: ConnectionState,
    since: Duration,
    http2: bool,
    /// True if the response in flight has no timeout: it is long-running, or the service has not returned it
    /// yet.
    long_running: bool,
    /// The client does not read as fast as the server writes.
    blocked: bool,
    /// The long-running responses of which the client has not accepted the last part, by number, and the time
    /// of the last progress. They are recorded only if there is a timeout for them.
    stalled: BTreeMap<u64, Duration>,
}

impl ConnectionTimer {
    pub(crate) fn new(timeouts: Timeouts, now: Duration) -> Self {
        let state = ConnectionState::First { matching: 0 };
        Self {
            timeouts,
            state,
            since: now,
            http2: false,
            long_running: false,
            blocked: false,
            stalled: BTreeMap::new(),
        }
    }

    fn transition(&mut self, state: ConnectionState, now: Duration) {
        (self.state, self.since) = (state, now);
    }

    pub(crate) fn on_read(&mut self, bytes: &[u8], now: Duration) {
        match self.state {
            ConnectionState::First { matching } => {
                let rest = &PREFACE[matching..];
                let begins = bytes.iter().zip(rest).take_while(|(is, expected)| is == expected).count();
                if begins == rest.len() {
                    self.http2 = true;
                    self.transition(ConnectionState::Next, now);
                } else if begins == bytes.len() {
                    self.state = ConnectionState::First { matching: matching + begins };
                } else {
                    self.state = ConnectionState::Head;
                }
            }
            // Over HTTP/2, frames such as PING are not requests, so bytes that are read do not end the idle
            // time.
            ConnectionState::Next if !self.http2 => self.transition(ConnectionState::Head, now),
            ConnectionState::Next
            | ConnectionState::Head
            | ConnectionState::Responses { .. }
            | ConnectionState::Flush => {}
        }
    }

    pub(crate) fn on_request(&mut self, now: Duration) {
        let open = match self.state {
            ConnectionState::Responses { open } => open + 1,
            _ => 1,
        };
        self.long_running = true;
        self.transition(ConnectionState::Responses { open }, now);
    }

    /// Records that a response body begins. A `long_running` body has no timeout.
    pub(crate) fn on_response(&mut self, long_running: bool, now: Duration) {
        self.long_running = long_running;
        self.since = now;
    }

    /// Records that a response body has ended or was aborted.
    pub(crate) fn on_response_end(&mut self, now: Duration) {
        match self.state {
            ConnectionState::Responses { open } if open > 1 => {
                self.state = ConnectionState::Responses { open: open - 1 }
            }
            _ if self.blocked => {
                self.state = ConnectionState::Flush;
                if self.long_running {
                    self.since = now;
                }
            }
            _ => self.transition(ConnectionState::Next, now),
        }
    }

    /// Records that a write waits for the client to read. Such a write often follows the end of the body,
    /// because the server buffers the last part of the body.
    pub(crate) fn on_write_blocked(&mut self, now: Duration) {
        // A slow client of one HTTP/2 stream needs no timeout: the stream has its own flow control window
        // and does not block other streams.
        if self.http2 {
            return;
        }
        self.blocked = true;
        if self.state == ConnectionState::Next {
            self.transition(ConnectionState::Flush, now);
        }
    }

    /// Records that the body of a long-running response has produced a part, which the server has yet to
    /// write.
    pub(crate) fn on_part(&mut self, response: u64, now: Duration) {
        if self.timeouts.stalled.is_some() {
            self.stalled.insert(response, now);
        }
    }

    /// Records that the client has accepted the last part of a long-running response and can write more, or
    /// that the response has ended.
    pub(crate) fn on_part_accepted(&mut self, response: u64) {
        self.stalled.remove(&response);
    }

    /// Records that the client has accepted bytes after a write that waited for it.
    pub(crate) fn on_progress(&mut self, now: Duration) {
        // Over HTTP/2 the bytes may belong to another response.
        if !self.http2 {
            self.stalled.values_mut().for_each(|since| *since = now);
        }
    }

    /// Records that all data was written.
    pub(crate) fn on_flush(&mut self, now: Duration) {
        self.blocked = false;
        if self.state == ConnectionState::Flush {
            self.transition(ConnectionState::Next, now);
        }
    }

    /// Checks the timeouts of the connection. The caller must check again at the returned time. Events in
    /// between do not require an earlier check.
    pub(crate) fn check_timeout(&self, now: Duration) -> TimeoutCheck {
        let Timeouts { head, idle, response, .. } = self.timeouts;
        let next_check = now + self.timeouts.check_interval();
        let stalled = self.stalled.iter().min_by_key(|(_, since)| **since);
        let stalled = self.timeouts.stalled.zip(stalled);
        let stalled = stalled.map(|(wait, (response, since))| (*response, *since + wait));
        if let Some((response, _)) = stalled.filter(|(_, due)| *due <= now) {
            return if self.http2 { TimeoutCheck::Stalled(response) } else { TimeoutCheck::TimedOut };
        }
        let next_check = stalled.map_or(next_check, |(_, due)| due.min(next_check));
        let (wait, over) = match self.state {
            ConnectionState::First { .. } | ConnectionState::Head => (head, TimeoutCheck::TimedOut),
            ConnectionState::Next => (idle, TimeoutCheck::Idle),
            ConnectionState::Responses { .. } if self.http2 || self.long_running => {
                return TimeoutCheck::Pending(next_check);
            }
            ConnectionState::Responses { .. } | ConnectionState::Flush => (response, TimeoutCheck::TimedOut),
        };
        let due = self.since + wait;
        if due <= now { over } else { TimeoutCheck::Pending(due.min(next_check)) }
    }
}

#[cfg(test)]
mod tests;
