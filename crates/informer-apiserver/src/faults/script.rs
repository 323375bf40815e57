//! Fault scripts: the faults of one run and the writes at which they are injected. Their text form is for
//! replays.

use std::fmt;
use std::str::FromStr;

use super::FaultAction;

/// The message of an injected 409, as kube-apiserver sends it for a stale resourceVersion.
const CONFLICT: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A fault of a [`FaultScript`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunFault {
    /// The process that sends the write ends before the server receives it.
    CrashBefore,
    /// The process that sent the write ends before it receives the response.
    CrashAfter,
    /// The server responds with 409 Conflict, without executing the write.
    Conflict,
    /// The server responds with 500, without executing the write.
    InternalError,
    /// The server executes the write, and the connection breaks before the response.
    LostResponse,
    /// The open watches of a resource receive their events late.
    LagWatch {
        /// The plural name of the resource.
        resource: String,
        /// How late events arrive, in seconds.
        seconds: u64,
    },
    /// The open watches of a resource end.
    CutWatch {
        /// The plural name of the resource.
        resource: String,
    },
    /// The open watches of a resource receive 410, so that their informers list again.
    ExpireWatch {
        /// The plural name of the resource.
        resource: String,
    },
    /// The watch cache of an API server is behind for a resource. A list that accepts any version
    /// (`resourceVersion=0`), such as the first list of a restarted process, returns the state before the
    /// write. The watch after this list receives its events late.
    ///
    /// Consistent reads and lists with a minimum version are not affected. The server has no streaming lists
    /// for the resource, because their initial events are a consistent read.
    StaleList {
        /// The plural name of the resource.
        resource: String,
        /// How late the events after the list arrive, in seconds.
        seconds: u64,
    },
    /// All requests of the process that sends the write fail for this time. A leader loses its lease.
    Isolate {
        /// How long requests fail, in seconds.
        seconds: u64,
    },
}

impl RunFault {
    /// Returns true for a fault of the write itself or of the process that sends it. Returns false for faults
    /// of watches and of lists.
    pub fn is_of_request(&self) -> bool {
        !matches!(
            self,
            Self::LagWatch { .. } | Self::CutWatch { .. } | Self::ExpireWatch { .. } | Self::StaleList { .. }
        )
    }

    /// Returns the action that a fault rule applies to the write. Returns `None` for faults of watches, of
    /// lists and of processes.
    pub fn request_action(&self) -> Option<FaultAction> {
        let status = |code, message: Option<&str>| FaultAction::Status {
            code,
            reason: None,
            message: message.map(str::to_owned),
            retry_after: None,
            body: None,
        };
        match self {
            Self::Conflict => Some(status(409, Some(CONFLICT))),
            Self::InternalError => Some(status(500, None)),
            Self::LostResponse => Some(FaultAction::LostAnswer),
            _ => None,
        }
    }

    /// Returns the resource whose watches the fault affects, and the action. Returns `None` for faults of
    /// requests, of lists and of processes.
    pub fn watch_action(&self) -> Option<(&str, FaultAction)> {
        match self {
            Self::LagWatch { resource, seconds } => {
                Some((resource, FaultAction::Lag { millis: seconds.saturating_mul(1000) }))
            }
            Self::CutWatch { resource } => {
                Some((resource, FaultAction::Cut { after_events: Some(0), after_bytes: None, abrupt: false }))
            }
            Self::ExpireWatch { resource } => Some((resource, FaultAction::Expire { after_events: 0 })),
            _ => None,
        }
    }
}

/// A fault and the number of the write at which it is injected. The writes of the tested program are numbered
/// from 1. A fault of watches may have the number 0: it affects the first watch of its resource. With the
/// number 0, stale lists return the state at the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledFault {
    /// The number of the write.
    pub write: u64,
    /// The fault.
    pub fault: RunFault,
}

impl fmt::Display for ScheduledFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = self.write;
        match &self.fault {
            RunFault::CrashBefore => write!(f, "crash before write {write}"),
            RunFault::CrashAfter => write!(f, "crash after write {write}"),
            RunFault::Conflict => write!(f, "409 at write {write}"),
            RunFault::InternalError => write!(f, "500 at write {write}"),
            RunFault::LostResponse => write!(f, "lost response at write {write}"),
            RunFault::LagWatch { resource, seconds } => {
                write!(f, "lag {resource} {seconds}s at write {write}")
            }
            RunFault::CutWatch { resource } => write!(f, "cut {resource} at write {write}"),
            RunFault::ExpireWatch { resource } => write!(f, "expire {resource} at write {write}"),
            RunFault::StaleList { resource, seconds } => {
                write!(f, "stale {resource} {seconds}s at write {write}")
            }
            RunFault::Isolate { seconds } => write!(f, "isolate {seconds}s at write {write}"),
        }
    }
}

impl FromStr for ScheduledFault {
    type Err = ParseScriptError;

    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let invalid = || ParseScriptError { fault: text.to_owned() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let seconds = |word: &str| word.strip_suffix('s').and_then(|number| number.parse().ok());
        let (fault, write) = match words.as_slice() {
            ["crash", "before", "write", write] => (RunFault::CrashBefore, write),
            ["crash", "after", "write", write] => (RunFault::CrashAfter, write),
            ["409", "at", "write", write] => (RunFault::Conflict, write),
            ["500", "at", "write", write] => (RunFault::InternalError, write),
            ["lost", "response", "at", "write", write] => (RunFault::LostResponse, write),
            ["lag", resource, time, "at", "write", write] => {
                let seconds = seconds(time).ok_or_else(invalid)?;
                (RunFault::LagWatch { resource: (*resource).to_owned(), seconds }, write)
            }
            ["cut", resource, "at", "write", write] => {
                (RunFault::CutWatch { resource: (*resource).to_owned() }, write)
            }
            ["expire", resource, "at", "write", write] => {
                (RunFault::ExpireWatch { resource: (*resource).to_owned() }, write)
            }
            ["stale", resource, time, "at", "write", write] => {
                let seconds = seconds(time).ok_or_else(invalid)?;
                (RunFault::StaleList { resource: (*resource).to_owned(), seconds }, write)
            }
            ["isolate", time, "at", "write", write] => {
                (RunFault::Isolate { seconds: seconds(time).ok_or_else(invalid)? }, write)
            }
            _ => return Err(invalid()),
        };
        let write: u64 = write.parse().map_err(|_| invalid())?;
        // There is no write 0, so only a fault of watches or lists can have this number.
        if write == 0 && fault.is_of_request() {
            return Err(invalid());
        }
        Ok(Self { write, fault })
    }
}

/// The faults of one run of a program that is explored, and the seed of its delays.
///
/// The text form lists the faults, separated by `;`. A write is a request of the program that changes an
/// object; Leases and Events do not count. Writes are numbered from 1, over all processes of the run.
///
/// | text | meaning |
/// |---|---|
/// | `schedule 7` | the seed of the delays of requests and of the jitter of timers; must be the first part |
/// | `crash before write 3` | the process ends before the server receives the write |
/// | `crash after write 3` | the process ends before it receives the response |
/// | `409 at write 3`, `500 at write 3` | the write fails, and the server does not execute it |
/// | `lost response at write 3` | the write fails, and the server executes it |
/// | `lag websites 5s at write 3` | open watches of websites receive all events 5 s late |
/// | `cut websites at write 3` | open watches of websites end |
/// | `expire websites at write 3` | open watches of websites receive 410, so that informers list again |
/// | `stale websites 5s at write 3` | lists with `resourceVersion=0` return websites as before the write |
/// | `isolate 40s at write 3` | all requests of the process fail for 40 s; a leader loses its lease |
///
/// Faults of watches may have the write number 0: they then affect the first watch of the resource. Stale
/// lists with the number 0 return the state at the start of the run.
///
/// A [`ScriptInjector`](super::ScriptInjector) injects the faults, and a
/// [`ScriptShrinker`](super::ScriptShrinker) finds a smaller script that still fails.
///
/// ```
/// use informer_apiserver::FaultScript;
///
/// let script: FaultScript = "crash after write 3; 409 at write 5".parse()?;
/// assert_eq!(script.len(), 2);
/// assert_eq!(script.to_string(), "crash after write 3; 409 at write 5");
/// assert!("crash sometimes".parse::<FaultScript>().is_err());
/// # Ok::<(), informer_apiserver::ParseScriptError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultScript {
    /// The seed of delays and jitter; 0 for none.
    pub(super) schedule: u64,
    pub(super) faults: Vec<ScheduledFault>,
}

impl FaultScript {
    /// Creates a script from the seed of its delays and its faults, which are injected in the order of their
    /// write numbers. With seed 0, requests are not delayed at random.
    pub fn new(schedule: u64, mut faults: Vec<ScheduledFault>) -> Self {
        faults.sort_by_key(|fault| fault.write);
        Self { schedule, faults }
    }

    /// Creates a script with one fault.
    pub fn single(write: u64, fault: RunFault) -> Self {
        Self { schedule: 0, faults: vec![ScheduledFault { write, fault }] }
    }

    /// Returns the seed of the delays of requests; 0 if requests are not delayed at random.
    pub fn schedule(&self) -> u64 {
        self.schedule
    }

    /// Returns the faults.
    pub fn faults(&self) -> &[ScheduledFault] {
        &self.faults
    }

    /// Returns the number of faults.
    pub fn len(&self) -> usize {
        self.faults.len()
    }

    /// Returns true if the script has no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl fmt::Display for FaultScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedule = (self.schedule != 0).then(|| format!("schedule {}", self.schedule));
        let parts: Vec<String> =
            schedule.into_iter().chain(self.faults.iter().map(ToString::to_string)).collect();
        f.write_str(&parts.join("; "))
    }
}

impl FromStr for FaultScript {
    type Err = ParseScriptError;

    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let mut script = Self::default();
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        for (index, part) in parts.enumerate() {
            match part.strip_prefix("schedule ") {
                Some(seed) if index == 0 => {
                    let invalid = |_| ParseScriptError { fault: part.to_owned() };
                    script.schedule = seed.trim().parse().map_err(invalid)?;
                }
                _ => script.faults.push(part.parse()?),
            }
        }
        Ok(script)
    }
}

/// The error for an invalid [`FaultScript`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseScriptError {
    fault: String,
}

impl fmt::Display for ParseScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "parse fault script: {:?} is not a fault; write for example `crash after write 3; 409 at write 5`",
            self.fault
        )
    }
}

impl std::error::Error for ParseScriptError {}

#[cfg(test)]
mod tests;
