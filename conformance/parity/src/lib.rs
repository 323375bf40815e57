//! Trace parity with client-go. Both informers run on the same scripted server, and both work queues and
//! leader elections run the same operations. The traces are compared line by line.
//!
//! A [`Script`] defines the server's response to each request. [`run`] plays the script to one peer
//! (client-go or this library) and returns the trace: requests with the wait before each, the calls of every
//! handler, and reads of the store. The script runs three times for client-go, whose own variations are
//! masked, and once for this library. Every remaining difference must be listed, line by line, in
//! `differences.yaml`.

mod compare;
mod differences;
mod election;
mod operations;
mod peer;
mod queue;
mod run;
mod script;
mod server;
mod suite;
mod trace;

pub use compare::{Compared, Streams, compare};
pub use differences::{Difference, DifferencesError, read_differences, table, write_differences};
pub use election::{ElectionScript, ElectionVerb, run_our_election};
pub use operations::{Operation, OperationError, OperationScript, Verb};
pub use peer::{Command, GoPeer, OurPeer, Peer, PeerError, Reply};
pub use queue::{QueueScript, QueueVerb, run_ours};
pub use run::{RunError, run};
pub use script::{
    Attempt, End, ListResponse, ObjectText, RequestKind, Response, Script, ScriptError, StatusResponse, Step,
};
pub use suite::{Outcome, Report, Suite, SuiteError, Traces, Verdict};
pub use trace::{Check, Entry, Record, Trace, Wait};
