use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Port;
use super::request::Request;
use crate::peer::{Command, Peer, PeerError};
use crate::script::{Attempt, End, Response, Script, Step};
use crate::trace::{Entry, Record, Trace, Wait};

/// A request within this time after the last response counts as sent immediately. The limit is long, because
/// a busy machine may delay requests, but shorter than the shortest backoff of 800 ms.
const AT_ONCE: Duration = Duration::from_millis(600);

/// The shortest wait of the first backoff step of a reflector, in client-go and in this library. Each step
/// doubles the wait, and jitter adds up to 100 %.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
const BACKOFF_STEPS: u32 = 6;

/// The tolerance by which a measured wait may be too short. The server reads the clock only after it has sent
/// the bytes, so it measures less than the client has waited.
const EARLY: Duration = Duration::from_millis(25);
/// The tolerance by which a measured wait may be too long, because a busy machine delays requests.
const LATE: Duration = Duration::from_millis(400);

/// A script whose last stream stays open ends after this time without requests, commands and sent bytes.
const HELD_QUIET: Duration = Duration::from_millis(800);

#[derive(Debug)]
pub(crate) struct Session {
    pub(super) port: Port,
    script: Arc<Script>,
    peer: Arc<Peer>,
    job: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: usize,
    requests: Vec<Record>,
    entries: Vec<Entry>,
    /// The time at which the server last sent bytes or ended a connection. The wait before the next request
    /// is measured from it.
    sent_at: Instant,
    active_at: Instant,
    /// Number of received requests whose responses have not ended.
    responding: usize,
    /// Number of open streams that the script never ends (`end: hold`).
    held: usize,
    /// The backoff step that the next backoff should have; `u32::MAX` if it is unknown.
    backoff: u32,
    retry_after: Option<Duration>,
    refused: bool,
    failure: Option<PeerError>,
}

impl Session {
    pub(crate) fn new(script: Arc<Script>, peer: Arc<Peer>, job: String) -> Self {
        let state = Mutex::new(State::begin(Instant::now()));
        Self { port: Port::new(), script, peer, job, state }
    }

    /// Sends a command to the peer under test, and adds the returned entries to the trace. If a command
    /// fails, the session ends, and its result is the first such error.
    pub(crate) async fn command(&self, command: &Command) {
        let reply = self.peer.command(&self.job, command).await;
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        match reply {
            Ok(reply) => state.entries.extend(reply.entries),
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
    }

    /// Returns true if the session has ended: a command failed, or the script has no further attempt and no
    /// unfinished response, or only streams that the script leaves open remain and nothing happened for
    /// `HELD_QUIET`.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        let quiet = state.held > 0 && state.active_at.elapsed() >= HELD_QUIET;
        let played = state.next >= self.script.attempts.len() && state.responding == 0;
        state.failure.is_some() || played || (quiet && state.responding == state.held)
    }

    pub(crate) fn finish(&self, unfinished: bool) -> Result<Trace, PeerError> {
        let mut state = self.state.lock();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let (requests, entries) = (std::mem::take(&mut state.requests), std::mem::take(&mut state.entries));
        Ok(Trace { requests, entries, unfinished })
    }

    /// Records a request in the trace, and returns the first remaining attempt of the script that expects a
    /// request of this kind. Attempts before it are skipped. Returns `None` if no remaining attempt fits.
    pub(super) fn arrive(&self, request: Request) -> Option<Attempt> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.active_at = now;
        state.responding += 1;
        let wait = state.wait(now);
        let ahead = &self.script.attempts[state.next.min(self.script.attempts.len())..];
        let found = ahead.iter().position(|attempt| attempt.expect == Some(request.kind));
        let skipped = &ahead[..found.unwrap_or(0)];
        let skipped = skipped.iter().filter_map(|attempt| attempt.expect).collect();
        let attempt = found.map(|index| ahead[index].clone());
        state.next += found.map_or(0, |index| index + 1);
        state.retry_after = attempt.as_ref().and_then(Attempt::retry_after);
        state.refused = false;
        let unscripted = attempt.is_none();
        state.requests.push(Record { wait, text: request.text, skipped, unscripted });
        attempt
    }

    pub(super) fn sent(&self) {
        let mut state = self.state.lock();
        state.sent_at = Instant::now();
        state.active_at = state.sent_at;
    }

    /// Records that the server begins to leave a stream open (if `begins` is true), or that the client has
    /// closed such a stream.
    pub(super) fn hold(&self, begins: bool) {
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        if begins { state.held += 1 } else { state.held -= 1 }
    }

    pub(super) fn response_ended(&self) {
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        state.responding -= 1;
    }

    pub(crate) async fn open_port(&self) {
        self.port.set(true).await;
    }

    /// Closes the port if the next attempt of the script is a refused connection, and returns whether it did.
    /// It must be called before the preceding response ends, because the client may connect immediately
    /// afterwards. A timer opens the port again.
    pub(crate) async fn close_port_if_next(self: &Arc<Self>) -> bool {
        let refuse = {
            let state = self.state.lock();
            self.script.attempts.get(state.next).and_then(|attempt| match attempt.response {
                Response::Refuse(time) => Some(time),
                _ => None,
            })
        };
        let Some(time) = refuse else { return false };
        self.port.set(false).await;
        let session = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            {
                let mut state = session.state.lock();
                state.next += 1;
                state.refused = true;
            }
            session.port.set(true).await;
        });
        true
    }
}

impl State {
    fn begin(now: Instant) -> Self {
        Self {
            next: 0,
            requests: Vec::new(),
            entries: Vec::new(),
            sent_at: now,
            active_at: now,
            responding: 0,
            held: 0,
            backoff: 0,
            retry_after: None,
            refused: false,
            failure: None,
        }
    }

    /// Classifies the wait before a request that arrives at `now`, measured from the last response.
    fn wait(&mut self, now: Instant) -> Wait {
        let waited = now.saturating_duration_since(self.sent_at);
        if self.refused {
            // While the port was closed, the client made an unknown number of connection attempts. The step
            // of its next backoff is therefore unknown.
            self.backoff = u32::MAX;
            return Wait::AfterRefusal;
        }
        if self.requests.is_empty() {
            return Wait::First;
        }
        if waited < AT_ONCE {
            return Wait::AtOnce;
        }
        if self.retry_after.is_some_and(|asked| fits(waited, asked, asked)) {
            // A wait that fits the `Retry-After` of the last response is classified as such, even if a
            // backoff step fits too: this library may wait for a backoff at the same time, which ends
            // earlier.
            return Wait::RetryAfter;
        }
        let expected = self.backoff;
        let steps = std::iter::once(expected).chain(0..BACKOFF_STEPS);
        let mut steps = steps.filter(|step| *step < BACKOFF_STEPS);
        let Some(step) = steps.find(|step| fits(waited, backoff(*step), backoff(*step) * 2)) else {
            return Wait::Odd(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
        };
        self.backoff = step + 1;
        Wait::Backoff { step, in_order: expected == u32::MAX || step == expected }
    }
}

fn backoff(step: u32) -> Duration {
    BACKOFF_BASE * 2_u32.pow(step)
}

fn fits(waited: Duration, from: Duration, to: Duration) -> bool {
    waited + EARLY >= from && waited <= to + LATE
}

impl Attempt {
    fn retry_after(&self) -> Option<Duration> {
        let seconds = match &self.response {
            Response::Status(status) => status.retry_after,
            Response::Stream(steps, _) => steps.iter().find_map(|step| match step {
                Step::Error(status) => status.retry_after,
                _ => None,
            }),
            _ => None,
        };
        seconds.map(Duration::from_secs)
    }

    /// Returns the response to a request that no attempt of the script expects: a stream without events,
    /// which is left open.
    pub(super) fn unscripted() -> Response {
        Response::Stream(Vec::new(), End::Hold)
    }
}

#[cfg(test)]
mod tests;
