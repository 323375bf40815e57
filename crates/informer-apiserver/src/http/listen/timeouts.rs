//! Connection timeouts as a sans-io state machine: no clock, socket or lock.

use std::time::Duration;

/// Timeout for a request head or a TLS handshake; the same as in kube-apiserver.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// Timeout for an idle connection; the same as in kube-apiserver.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum time that a client may take to read a response, except for watches. In kube-apiserver this time
/// limits the whole request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// The connection waits for its first request. `matching` bytes of the HTTP/2 preface have been read.
    First {
        matching: usize,
    },
    Next,
    Head,
    Responses {
        open: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeoutCheck {
    /// The connection has not timed out. The caller must check again at this time.
    Pending(Duration),
    /// The client was too slow to send a request or to read a response.
    TimedOut,
    Idle,
}

/// The state of a connection, and the time at which that state began. Times are those of the server's clock.
#[derive(Debug)]
pub(super) struct ConnectionTimer {
    state: ConnectionState,
    since: Duration,
    http2: bool,
    /// The response in flight has no timeout, because it is a watch or the server has not finished it.
    long_running: bool,
}

impl ConnectionTimer {
    pub(super) fn new(now: Duration) -> Self {
        Self { state: ConnectionState::First { matching: 0 }, since: now, http2: false, long_running: false }
    }

    fn transition(&mut self, state: ConnectionState, now: Duration) {
        (self.state, self.since) = (state, now);
    }

    pub(super) fn on_read(&mut self, bytes: &[u8], now: Duration) {
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
            ConnectionState::Next | ConnectionState::Head | ConnectionState::Responses { .. } => {}
        }
    }

    pub(super) fn on_request(&mut self, now: Duration) {
        let open = match self.state {
            ConnectionState::Responses { open } => open + 1,
            _ => 1,
        };
        self.long_running = true;
        self.transition(ConnectionState::Responses { open }, now);
    }

    /// Records that a response body begins. A `long_running` body has no timeout.
    pub(super) fn on_response(&mut self, long_running: bool, now: Duration) {
        self.long_running = long_running;
        self.since = now;
    }

    /// Records that a response body was written completely or aborted.
    pub(super) fn on_response_end(&mut self, now: Duration) {
        match self.state {
            ConnectionState::Responses { open } if open > 1 => {
                self.state = ConnectionState::Responses { open: open - 1 }
            }
            _ => self.transition(ConnectionState::Next, now),
        }
    }

    /// Checks the timeouts of the connection. The caller must check again at the returned time. Events in
    /// between do not require an earlier check, because no later state can time out earlier.
    pub(super) fn check_timeout(&self, now: Duration) -> TimeoutCheck {
        let (wait, over) = match self.state {
            ConnectionState::First { .. } | ConnectionState::Head => (HEAD_TIMEOUT, TimeoutCheck::TimedOut),
            ConnectionState::Next => (IDLE_TIMEOUT, TimeoutCheck::Idle),
            // A slow client of one HTTP/2 stream needs no timeout: the stream has its own flow control window
            // and does not block other streams.
            ConnectionState::Responses { .. } if self.http2 || self.long_running => {
                return TimeoutCheck::Pending(now + HEAD_TIMEOUT);
            }
            ConnectionState::Responses { .. } => (RESPONSE_TIMEOUT, TimeoutCheck::TimedOut),
        };
        let due = self.since + wait;
        if due <= now { over } else { TimeoutCheck::Pending(due.min(now + HEAD_TIMEOUT)) }
    }
}

#[cfg(test)]
mod tests;
