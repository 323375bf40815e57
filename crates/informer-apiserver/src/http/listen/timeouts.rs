//! How long a connection may wait for its client: rules without clock, socket or lock.

use std::time::Duration;

/// How long a client may take for the head of a request, or for the handshake of TLS, as upstream.
pub(super) const HEAD_WAIT: Duration = Duration::from_secs(32);
/// How long a connection may be idle, as upstream.
pub(super) const IDLE_WAIT: Duration = Duration::from_secs(90);
/// How long a client may take for an answer that is ready and no watch: as long as upstream gives the whole request.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// How a connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The first request, of which so many bytes are the beginning of HTTP/2.
    First { matching: usize },
    /// The next request: nothing of it is there yet.
    Next,
    /// The rest of the head of a request.
    Head,
    /// So many answers to be ready, and to be taken.
    Answers { open: usize },
}

/// What has become of the time that a connection had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// There is some left: look again then.
    Until(Duration),
    /// The client was too slow with what it sends or takes.
    Over,
    /// Nothing is under way, for too long.
    Idle,
}

/// What a connection waits for, and since when. Times are those of the server's clock.
#[derive(Debug)]
pub(super) struct Waiting {
    awaited: Awaited,
    since: Duration,
    http2: bool,
    /// The answer under way may take any time: it is not ready yet, or a watch.
    endless: bool,
}

impl Waiting {
    /// A connection that was accepted now.
    pub(super) fn new(now: Duration) -> Self {
        Self { awaited: Awaited::First { matching: 0 }, since: now, http2: false, endless: false }
    }

    fn turn(&mut self, awaited: Awaited, now: Duration) {
        (self.awaited, self.since) = (awaited, now);
    }

    /// Bytes have come from the client.
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
            // Frames of HTTP/2 are not the head of a request: others keep the connection up, or do not.
            Awaited::Next if !self.http2 => self.turn(Awaited::Head, now),
            Awaited::Next | Awaited::Head | Awaited::Answers { .. } => {}
        }
    }

    /// The head of a request is there.
    pub(super) fn asked(&mut self, now: Duration) {
        let open = match self.awaited {
            Awaited::Answers { open } => open + 1,
            _ => 1,
        };
        self.endless = true;
        self.turn(Awaited::Answers { open }, now);
    }

    /// The head of an answer is ready; `endless` when its body may take any time.
    pub(super) fn answered(&mut self, endless: bool, now: Duration) {
        self.endless = endless;
        self.since = now;
    }

    /// An answer is written, or given up.
    pub(super) fn done(&mut self, now: Duration) {
        match self.awaited {
            Awaited::Answers { open } if open > 1 => self.awaited = Awaited::Answers { open: open - 1 },
            _ => self.turn(Awaited::Next, now),
        }
    }

    /// Whether the connection may wait on. It must be asked again by the time that is answered, whatever happens until then: nothing that
    /// begins later is over sooner.
    pub(super) fn patience(&self, now: Duration) -> Patience {
        let (wait, over) = match self.awaited {
            Awaited::First { .. } | Awaited::Head => (HEAD_WAIT, Patience::Over),
            Awaited::Next => (IDLE_WAIT, Patience::Idle),
            // Streams of HTTP/2 have windows of their own, and hold up nobody.
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
