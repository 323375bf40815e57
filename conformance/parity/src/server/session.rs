use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Port;
use super::request::Request;
use crate::peer::{Command, Peer, PeerError};
use crate::script::{Answer, Attempt, End, Script, Step};
use crate::trace::{Entry, Record, Trace, Wait};

/// A request that comes within this time comes at once: the shortest backoff is 800 ms, and the machine may be busy.
const AT_ONCE: Duration = Duration::from_millis(600);

/// The backoff of client-go's reflector, and of ours: each step from this, doubled each time, to twice of that.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
const BACKOFF_STEPS: u32 = 6;

/// How early a timer may seem to fire, since the clock is read after the bytes are sent.
const EARLY: Duration = Duration::from_millis(25);
/// How late a busy machine may be.
const LATE: Duration = Duration::from_millis(400);

/// A stream that is left open ends the script when nothing has happened for this long.
const HELD_QUIET: Duration = Duration::from_millis(800);

/// One run of a script: what comes next, and what was seen.
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
    /// The next attempt of the script.
    next: usize,
    requests: Vec<Record>,
    entries: Vec<Entry>,
    /// When something was last sent, or a connection ended.
    sent_at: Instant,
    /// When anything last happened.
    active_at: Instant,
    /// Requests being answered.
    answering: usize,
    /// Of these, those whose stream is left open.
    held: usize,
    /// The step that the next backoff is expected to have.
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

    /// Tells the peer to do something and keeps what it has seen. The first failure ends the session.
    pub(crate) async fn command(&self, command: &Command) {
        let reply = self.peer.command(&self.job, command).await;
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        match reply {
            Ok(reply) => state.entries.extend(reply.entries),
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
    }

    /// True when the script is played: nothing of it is left and nothing is being answered, or a stream is left open and
    /// nothing more happens.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        let quiet = state.held > 0 && state.active_at.elapsed() >= HELD_QUIET;
        let played = state.next >= self.script.attempts.len() && state.answering == 0;
        state.failure.is_some() || played || (quiet && state.answering == state.held)
    }

    /// What was seen.
    pub(crate) fn finish(&self, unfinished: bool) -> Result<Trace, PeerError> {
        let mut state = self.state.lock();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let (requests, entries) = (std::mem::take(&mut state.requests), std::mem::take(&mut state.entries));
        Ok(Trace { requests, entries, unfinished })
    }

    /// Records a request and says how it is answered; `None` where the script does not.
    pub(super) fn arrive(&self, request: Request) -> Option<Attempt> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.active_at = now;
        state.answering += 1;
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

    /// Something was sent, or the connection ended.
    pub(super) fn sent(&self) {
        let mut state = self.state.lock();
        state.sent_at = Instant::now();
        state.active_at = state.sent_at;
    }

    /// Begins or ends to leave a stream open.
    pub(super) fn hold(&self, begins: bool) {
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        if begins { state.held += 1 } else { state.held -= 1 }
    }

    /// The answer to a request has ended.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        state.active_at = Instant::now();
        state.answering -= 1;
    }

    /// Waits until connections are taken.
    pub(crate) async fn open_port(&self) {
        self.port.set(true).await;
    }

    /// To be called before an answer ends: closes the port, if that is what comes next, and says whether it is. It opens
    /// again by itself.
    pub(crate) async fn close_port_if_next(self: &Arc<Self>) -> bool {
        let refuse = {
            let state = self.state.lock();
            self.script.attempts.get(state.next).and_then(|attempt| match attempt.answer {
                Answer::Refuse(time) => Some(time),
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
            answering: 0,
            held: 0,
            backoff: 0,
            retry_after: None,
            refused: false,
            failure: None,
        }
    }

    /// What the time since the answer before was.
    fn wait(&mut self, now: Instant) -> Wait {
        let waited = now.saturating_duration_since(self.sent_at);
        if self.refused {
            // How many attempts were refused is not seen from here.
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
            // A backoff of ours lies within it.
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
        let seconds = match &self.answer {
            Answer::Status(status) => status.retry_after,
            Answer::Stream(steps, _) => steps.iter().find_map(|step| match step {
                Step::Error(status) => status.retry_after,
                _ => None,
            }),
            _ => None,
        };
        seconds.map(Duration::from_secs)
    }

    /// The answer to what the script does not expect: it is left open.
    pub(super) fn unscripted() -> Answer {
        Answer::Stream(Vec::new(), End::Hold)
    }
}

#[cfg(test)]
mod tests;
