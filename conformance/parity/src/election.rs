//! Scripts of leader election: candidates for one Lease under scripted faults, such as `start a, start b,
//! refuse a, advance 60000ms`.

mod lease;
mod ours;

pub use ours::run_our_election;

use crate::operations::{Operation, OperationScript, Verb};

/// A parity script of leader election, which client-go and this library both run.
pub type ElectionScript = OperationScript<ElectionVerb>;

/// The operations on candidates and their Lease: `start a`, `advance 5000ms`, `take x 15000ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionVerb {
    /// A candidate with this name starts: it polls the Lease, and leads once it has acquired it.
    Start,
    /// A candidate is stopped by cancellation, as at the end of its program.
    Stop,
    /// The simulated time advances by this duration.
    Advance,
    /// From now on, all requests of a candidate fail with status 500, until `Heal`.
    Refuse,
    /// From now on, the requests of a candidate get no response, until `Heal`.
    Hang,
    /// From now on, the writes of a candidate fail with a conflict (409), until `Heal`. Reads succeed.
    Conflict,
    /// From now on, the requests of a candidate succeed again.
    Heal,
    /// From now on, the candidate's clock is ahead of the simulated time by this duration.
    Ahead,
    /// From now on, the candidate's clock is behind the simulated time by this duration.
    Behind,
    /// The Lease is deleted from the server.
    Delete,
    /// A holder that is not a candidate acquires the Lease, with this duration as lease duration, and does
    /// not renew it.
    Take,
}

impl Verb for ElectionVerb {
    const OF: &'static str = "election";
    const WHOM: &'static str = "name";
    const ALL: &'static [(Self, &'static str, bool, bool)] = &[
        (Self::Start, "start", true, false),
        (Self::Stop, "stop", true, false),
        (Self::Advance, "advance", false, true),
        (Self::Refuse, "refuse", true, false),
        (Self::Hang, "hang", true, false),
        (Self::Conflict, "conflict", true, false),
        (Self::Heal, "heal", true, false),
        (Self::Ahead, "ahead", true, true),
        (Self::Behind, "behind", true, true),
        (Self::Delete, "delete", false, false),
        (Self::Take, "take", true, true),
    ];

    fn check(operations: &[Operation<Self>]) -> Result<(), String> {
        let mut started: Vec<&str> = Vec::new();
        for Operation { verb, whom, .. } in operations {
            match verb {
                Self::Start if started.contains(&whom.as_str()) => {
                    return Err(format!("{whom} is started twice"));
                }
                Self::Start => started.push(whom),
                Self::Stop if !started.contains(&whom.as_str()) => {
                    return Err(format!("{whom} is stopped before it is started"));
                }
                _ => {}
            }
        }
        if started.is_empty() { Err("no candidate is started".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
