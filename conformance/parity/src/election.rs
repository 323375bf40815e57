//! Scripts of leader election: candidates for one Lease under scripted faults, such as `start a, start b,
//! refuse a, advance 60000ms`.

mod lease;
mod ours;

pub use ours::run_our_election;

use crate::operations::{Operation, OperationScript, Verb};

/// A script of the leader election.
pub type ElectionScript = OperationScript<ElectionVerb>;

/// The operations on candidates and their Lease: `start a`, `advance 5000ms`, `take x 15000ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionVerb {
    /// A candidate with this name starts.
    Start,
    /// A candidate is stopped gracefully.
    Stop,
    /// The simulated time advances by a duration.
    Advance,
    /// All requests of a candidate fail.
    Refuse,
    /// The requests of a candidate get no response.
    Hang,
    /// The writes of a candidate fail with a conflict.
    Conflict,
    /// The requests of a candidate succeed again.
    Heal,
    /// The candidate's clock is moved ahead by a duration.
    Ahead,
    /// The candidate's clock is moved back by a duration.
    Behind,
    /// The Lease is deleted.
    Delete,
    /// A holder that is not a candidate takes the Lease for a duration.
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
