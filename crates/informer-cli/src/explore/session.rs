//! The state that all servers of a run share: the faults that are not injected yet, and the trace of
//! requests.
//!
//! # Lock order
//!
//! `state` is never held while a fault is injected, or while `servers` is held.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_apiserver::{
    ApiServer, FaultAction, FaultScript, Faults, RequestHook, RequestRecord, RunFault, ScriptInjector, Verb,
    WriteFaults,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::plan::Observed;
use super::selection::Selection;
use crate::request_text;

/// The maximum number of lines in the trace of a run.
const MAX_LINES: usize = 20_000;

/// The maximum number of clients whose requests are counted separately, by User-Agent.
const MAX_CLIENTS: usize = 50;

/// The maximum random delay of a request, in milliseconds. Delays change the order of requests that different
/// tasks send.
const MAX_DELAY: u64 = 60;

#[derive(Debug)]
pub(super) struct Session {
    selection: Selection,
    begin: Instant,
    state: Mutex<State>,
    /// The fault injection of each API server of the run, in the order in which the servers started.
    servers: Mutex<Vec<Faults>>,
    /// The number of hooks that were created. Each hook gets this number, by which the requests of different
    /// servers are distinguished.
    started: AtomicUsize,
}

#[derive(Debug)]
struct State {
    injector: ScriptInjector,
    /// The faults at write 0, which have not been injected yet. Each affects the first watch of a resource.
    start: Vec<RunFault>,
    delays: Option<StdRng>,
    lines: Vec<TraceLine>,
    dropped: u64,
    requests: u64,
    watched: BTreeSet<String>,
    clients: BTreeMap<String, ClientCounts>,
    /// For each request without a response, the index of its line in the trace. The key is the number of the
    /// server and that of the request.
    open: HashMap<(usize, u64), usize>,
}

/// A line in the trace of a run.
#[derive(Debug, Clone)]
pub(super) struct TraceLine {
    at: Duration,
    text: String,
    kind: LineKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LineKind {
    /// A fault of open watches, which belongs to no request.
    Fault,
    /// A request of the command, and the fault that was injected into it. The status is `None` until the
    /// server responds.
    Request { status: Option<u16>, fault: Option<RunFault> },
}

impl TraceLine {
    pub(super) fn is_fault(&self) -> bool {
        matches!(self.kind, LineKind::Fault | LineKind::Request { fault: Some(_), .. })
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:9.3}  {}", self.at.as_secs_f64(), self.text)?;
        let LineKind::Request { status, fault } = &self.kind else { return Ok(()) };
        match (status, fault) {
            (Some(status), Some(RunFault::LostResponse)) => {
                write!(f, " -> {status}, and the response is lost (fault)")
            }
            (Some(status), Some(_)) => write!(f, " -> {status} (fault)"),
            (Some(status), None) => write!(f, " -> {status}"),
            (None, _) => f.write_str(" -> no response"),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct ClientCounts {
    users: BTreeSet<String>,
    requests: u64,
    writes: u64,
    selected: u64,
}

/// The requests and faults of a run of the explored command.
#[derive(Debug)]
pub(super) struct Summary {
    /// The number of requests for resources, from all clients.
    pub(super) requests: u64,
    /// The number of writes at which faults may be injected.
    pub(super) writes: u64,
    /// The number of faults that were injected in the run.
    pub(super) fired: u64,
    /// The plural names of the resources that were watched by clients into whose requests faults may be
    /// injected.
    pub(super) watched: BTreeSet<String>,
    pub(super) lines: Vec<TraceLine>,
    /// The number of requests and faults that are missing from the trace, because it has reached its maximum
    /// length.
    pub(super) dropped: u64,
    clients: BTreeMap<String, ClientCounts>,
}

impl Summary {
    pub(super) fn observed(&self) -> Observed {
        Observed { writes: self.writes, watched: self.watched.clone() }
    }

    /// Describes each client of the run for messages, so that the user can select clients: its User-Agent,
    /// its users, and the numbers of its requests and writes.
    pub(super) fn clients(&self) -> Vec<String> {
        let describe = |(agent, counts): (&String, &ClientCounts)| {
            let users: Vec<&str> = counts.users.iter().map(String::as_str).collect();
            let (users, ClientCounts { requests, writes, selected, .. }) = (users.join(" and "), counts);
            format!("{agent:?} ({users}): {requests} requests, {writes} writes, {selected} of them selected")
        };
        self.clients.iter().map(describe).collect()
    }
}

impl Session {
    pub(super) fn new(selection: Selection, script: &FaultScript) -> Self {
        let mut injector = ScriptInjector::new(script);
        let start = injector.start();
        let delays = (script.schedule() != 0).then(|| StdRng::seed_from_u64(script.schedule()));
        let state = State {
            injector,
            start,
            delays,
            lines: Vec::new(),
            dropped: 0,
            requests: 0,
            watched: BTreeSet::new(),
            clients: BTreeMap::new(),
            open: HashMap::new(),
        };
        Self {
            selection,
            begin: Instant::now(),
            state: Mutex::new(state),
            servers: Mutex::default(),
            started: AtomicUsize::new(0),
        }
    }

    /// Adds a running server to the session. Faults then also affect the open watches of this server.
    pub(super) fn add(&self, server: &ApiServer) {
        self.servers.lock().push(server.faults().clone());
    }

    /// Ends the session after a run of the command, and returns the results of the run.
    pub(super) fn finish(&self) -> Summary {
        // Removing the servers breaks a reference cycle: the faults of a server refer to its hook, and the
        // hook refers to this session.
        self.servers.lock().clear();
        let mut state = self.state.lock();
        Summary {
            requests: state.requests,
            writes: state.injector.writes(),
            // The injector counts faults at write 0 as injected from the beginning. Those that remain in
            // `start` found no watch, so they are subtracted.
            fired: state.injector.fired() - state.start.len() as u64,
            watched: std::mem::take(&mut state.watched),
            lines: std::mem::take(&mut state.lines),
            dropped: state.dropped,
            clients: std::mem::take(&mut state.clients),
        }
    }

    fn request(&self, server: usize, request: &RequestRecord) -> Vec<FaultAction> {
        let Some(gvr) = request.gvr.as_ref().filter(|_| request.number > 0) else { return Vec::new() };
        let at = self.begin.elapsed();
        let client = self.selection.selects_client(request);
        let write = self.selection.selects_write(request);
        let mut state = self.state.lock();
        state.count(request, write);
        let mut actions = Vec::new();
        let injected = if write { state.injector.write() } else { WriteFaults::default() };
        if client && request.verb == Verb::Watch {
            state.watched.insert(gvr.resource.clone());
            actions.extend(state.faults_of_first_watch(&gvr.resource, at));
        } else if client && let Some(delays) = &mut state.delays {
            actions.push(FaultAction::Delay { millis: delays.random_range(0..=MAX_DELAY) });
        }
        for fault in &injected.watches {
            let text = format!("fault: {}", describe(fault));
            state.line(TraceLine { at, text, kind: LineKind::Fault });
        }
        actions.extend(injected.request.as_ref().and_then(RunFault::request_action));
        let number = if write { format!("write {}: ", injected.write) } else { String::new() };
        let text = format!("{}: {number}{}", request_text::agent(request), request_text::request(request));
        let kind = LineKind::Request { status: None, fault: injected.request };
        if !is_background(request)
            && let Some(index) = state.line(TraceLine { at, text, kind })
        {
            state.open.insert((server, request.number), index);
        }
        drop(state);
        injected.watches.iter().for_each(|fault| self.inject(fault));
        actions
    }

    /// Injects a fault into the open watches of a resource on all servers of the run. Only watches of
    /// selected clients are affected.
    fn inject(&self, fault: &RunFault) {
        let Some((resource, action)) = fault.watch_action() else { return };
        let servers = self.servers.lock().clone();
        for faults in servers {
            let matches = |request: &RequestRecord| {
                request.gvr.as_ref().is_some_and(|gvr| gvr.resource == resource)
                    && self.selection.selects_client(request)
            };
            faults.inject_into_open_watches(matches, &action);
        }
    }

    fn response(&self, server: usize, request: &RequestRecord, status: u16) {
        let mut state = self.state.lock();
        let Some(index) = state.open.remove(&(server, request.number)) else { return };
        if let LineKind::Request { status: shown, .. } = &mut state.lines[index].kind {
            *shown = Some(status);
        }
    }
}

impl State {
    fn count(&mut self, request: &RequestRecord, selected: bool) {
        self.requests += 1;
        let agent = request_text::agent(request);
        if !self.clients.contains_key(agent) && self.clients.len() >= MAX_CLIENTS {
            return;
        }
        let counts = self.clients.entry(agent.to_owned()).or_default();
        counts.requests += 1;
        counts.writes += u64::from(request.counts_as_write());
        counts.selected += u64::from(selected);
        if counts.users.len() < MAX_CLIENTS {
            counts.users.insert(request.user.clone());
        }
    }

    /// Removes the faults at write 0 that affect the first watch of this resource, adds them to the trace,
    /// and returns their actions.
    fn faults_of_first_watch(&mut self, resource: &str, at: Duration) -> Vec<FaultAction> {
        let of_resource =
            |fault: &mut RunFault| fault.watch_action().is_some_and(|(watched, _)| watched == resource);
        let faults: Vec<RunFault> = self.start.extract_if(.., of_resource).collect();
        for fault in &faults {
            let text = format!("fault: {}", describe(fault));
            self.line(TraceLine { at, text, kind: LineKind::Fault });
        }
        faults.iter().filter_map(|fault| fault.watch_action().map(|(_, action)| action)).collect()
    }

    /// Adds a line to the trace, and returns its index. If the trace is full, only counts the line and
    /// returns `None`.
    fn line(&mut self, line: TraceLine) -> Option<usize> {
        if self.lines.len() >= MAX_LINES {
            self.dropped += 1;
            return None;
        }
        self.lines.push(line);
        Some(self.lines.len() - 1)
    }
}

/// The hook with which one API server of a run reports its requests and responses to the session, and
/// receives the faults.
#[derive(Debug)]
pub(super) struct Hook {
    session: Arc<Session>,
    server: usize,
}

impl Hook {
    /// Creates the hook of a server that is about to start. After the start, [`Session::add`] adds the server
    /// to the session.
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let server = session.started.fetch_add(1, Ordering::Relaxed);
        Self { session: Arc::clone(session), server }
    }
}

impl RequestHook for Hook {
    fn request(&self, request: &RequestRecord) -> Vec<FaultAction> {
        self.session.request(self.server, request)
    }

    fn response(&self, request: &RequestRecord, status: u16) {
        self.session.response(self.server, request, status);
    }
}

/// Returns true for requests for Events, Leases and reviews. They are left out of the trace, because there
/// are so many that they would hide the other requests.
fn is_background(request: &RequestRecord) -> bool {
    let volatile = |gvr: &informer::Gvr| informer_apiserver::is_volatile(&gvr.group, &gvr.resource);
    request.gvr.as_ref().is_some_and(volatile)
}

fn describe(fault: &RunFault) -> String {
    match fault {
        RunFault::LagWatch { resource, seconds } => {
            format!("watches of {resource} receive events {seconds} s late")
        }
        RunFault::CutWatch { resource } => format!("watches of {resource} end"),
        RunFault::ExpireWatch { resource } => format!("watches of {resource} receive 410"),
        fault => format!("{fault:?}"),
    }
}
