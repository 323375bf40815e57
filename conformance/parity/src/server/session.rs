use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Port;
use super::request::Request;
use crate::peer::{Command, Peer, PeerError};
use crate::script::{Attempt, End, Response, Script, Step};
use crate::trace::{Entry, Record, Trace, Wait};

/// A request that arrives within this time after the last response counts as immediate. The shortest backoff
/// is 800 ms, and a busy machine may delay requests.
const AT_ONCE: Duration = Duration::from_millis(600);

/// The first step of the reflector's backoff, in client-go and in this library. Each step doubles the
/// backoff, and jitter adds up to 100 %.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
const BACKOFF_STEPS: u32 = 6;

/// The tolerance by which a wait may seem too short. The reason is that the clock is read after the bytes
/// were sent.
const EARLY: Duration = Duration::from_millis(25);
/// The tolerance by which a request may be late on a busy machine.
const LATE: Duration = Duration::from_millis(400);

/// The time without activity after which the script ends, if it leaves a stream open.
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
    /// The time at which the server last sent bytes or closed a connection.
    sent_at: Instant,
    active_at: Instant,
    /// Number of requests whose responses are not finished.
    responding: usize,
    /// Number of unfinished responses whose stream the script leaves open.
    held: usize,
    /// The step of the backoff that is expected for the next wait.
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

    /// Runs a command on the client and records the returned trace. The first command that fails ends the
    /// session.
    pub(crate) async fn command(&self, command: &Command) {
        let reply = self.peer.command(&self.job, command).await;
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        match reply {
            Ok(reply) => state.entries.extend(reply.entries),
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
    }

    /// Returns true when the script is finished: it has no further attempt and no unfinished response, or it
    /// has left a stream open and there was no further activity.
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

    /// Records a request and returns the response that the script specifies; `None` if the script has no
    /// response to it.
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

    /// Records that the script leaves a stream open (`begins`), or that such a stream was closed.
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
    /// Must be called before the preceding response ends. A timer opens the port again.
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

    /// Classifies the time between the last response and a request that arrives at `now`.
    fn wait(&mut self, now: Instant) -> Wait {
        let waited = now.saturating_duration_since(self.sent_at);
        if self.refused {
            // While the port was closed, the client made an unknown number of attempts, so the next backoff
            // step is unknown.
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
            // Such a wait is classified as `Retry-After` even if a backoff step would fit too: a backoff of
            // this library may run at the same time and end earlier.
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

    /// Returns the response to a request that the script does not contain: a stream that is left open.
    pub(super) fn unscripted() -> Response {
        Response::Stream(Vec::new(), End::Hold)
    }
}

#[cfg(test)]
mod tests;
