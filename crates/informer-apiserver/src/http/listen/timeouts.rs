//! Connection timeouts as a sans-io state machine: no clock, socket or lock.

use std::time::Duration;

/// Timeout of a request head or a TLS handshake; the same as in kube-apiserver.
pub(super) const HEAD_WAIT: Duration = Duration::from_secs(32);
/// Timeout of an idle connection; the same as in kube-apiserver.
pub(super) const IDLE_WAIT: Duration = Duration::from_secs(90);
/// Time that a client may take to read a response that is no watch. kube-apiserver gives the whole request this time.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// The HTTP/2 connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Waits for the first request; `matching` bytes of the HTTP/2 preface have been read.
    First { matching: usize },
    /// Waits for the next request.
    Next,
    /// Has read a part of a request head.
    Head,
    /// Has `open` responses in flight.
    Answers { open: usize },
}

/// The result of a timeout check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Not timed out; check again at this time.
    Until(Duration),
    /// The client was too slow to send a request or to read a response.
    Over,
    /// The connection was idle for too long.
    Idle,
}

/// Tracks the state of a connection and its start. Times are those of the server's clock.
#[derive(Debug)]
pub(super) struct Waiting {
    awaited: Awaited,
    since: Duration,
    http2: bool,
    /// The response in flight has no timeout, because the server has not finished it or it is a watch.
    endless: bool,
}

impl Waiting {
    /// Creates the timer of a connection that was accepted at `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self { awaited: Awaited::First { matching: 0 }, since: now, http2: false, endless: false }
    }

    fn turn(&mut self, awaited: Awaited, now: Duration) {
        (self.awaited, self.since) = (awaited, now);
    }

    /// Records bytes from the client.
    pub(super) fn heard(&mut self, bytes: &[u8], now: Duration) {
        match self.awaited {
            Awaited::First { matching } => {
                let rest = &PREFACE[matching..];
                let begins = bytes.iter().zip(rest).take_while(|(is, expected)| is == expected).count();
                if begins == rest.len() {
                    self.http2 = true;
                    self.turn(Awaited::Next, now);
                } else if begins == bytes.len() {
                    self.awaited = Awaited::First { matching: matching + begins };
                } else {
                    self.awaited = Awaited::Head;
                }
            }
            // HTTP/2 frames such as PING are no requests, so they do not end the idle time.
            Awaited::Next if !self.http2 => self.turn(Awaited::Head, now),
            Awaited::Next | Awaited::Head | Awaited::Answers { .. } => {}
        }
    }

    /// Records a complete request head.
    pub(super) fn asked(&mut self, now: Duration) {
        let open = match self.awaited {
            Awaited::Answers { open } => open + 1,
            _ => 1,
        };
        self.endless = true;
        self.turn(Awaited::Answers { open }, now);
    }

    /// Records a response head. An `endless` body has no timeout.
    pub(super) fn answered(&mut self, endless: bool, now: Duration) {
        self.endless = endless;
        self.since = now;
    }

    /// Records that a response was written or aborted.
    pub(super) fn done(&mut self, now: Duration) {
        match self.awaited {
            Awaited::Answers { open } if open > 1 => self.awaited = Awaited::Answers { open: open - 1 },
            _ => self.turn(Awaited::Next, now),
        }
    }

    /// Checks the timeouts. The caller must check again at the returned time. It need not react to events in between, because no
    /// later state can time out earlier.
    pub(super) fn patience(&self, now: Duration) -> Patience {
        let (wait, over) = match self.awaited {
            Awaited::First { .. } | Awaited::Head => (HEAD_WAIT, Patience::Over),
            Awaited::Next => (IDLE_WAIT, Patience::Idle),
            // A slow HTTP/2 stream has its own flow control window and does not block other streams.
            Awaited::Answers { .. } if self.http2 || self.endless => return Patience::Until(now + HEAD_WAIT),
            Awaited::Answers { .. } => (ANSWER_WAIT, Patience::Over),
        };
        let due = self.since + wait;
        match due <= now {
            true => over,
            false => Patience::Until(due.min(now + HEAD_WAIT)),
        }
    }
}

#[cfg(test)]
mod tests;
