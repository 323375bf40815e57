//! Candidates for one Lease under scripted faults, and what ours do: `start a, start b, refuse a, advance 60000ms`.

mod lease;
mod ours;

pub use ours::run_our_election;

use crate::operations::{Operation, OperationScript, Verb};

/// A script of an election.
pub type ElectionScript = OperationScript<ElectionVerb>;

/// What happens to candidates and to their Lease: `start a`, `advance 5000ms`, `take x 15000ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionVerb {
    /// A candidate takes part.
    Start,
    /// It is asked to end.
    Stop,
    /// Time passes.
    Advance,
    /// All of its requests are answered with an error.
    Refuse,
    /// None is answered.
    Hang,
    /// Its writes are conflicts.
    Conflict,
    /// Its requests work again.
    Heal,
    /// Its clock shows a later time.
    Ahead,
    /// Its clock shows an earlier time.
    Behind,
    /// The Lease is deleted.
    Delete,
    /// Somebody else holds the Lease, for so long.
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
                    return Err(format!("{whom} is stopped, and was not started"));
                }
                _ => {}
            }
        }
        match started.is_empty() {
            true => Err("nobody takes part".to_owned()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
