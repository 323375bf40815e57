//! Runs the program and the scenario of an exploration once, in a tokio runtime with paused time.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use informer_apiserver::{FaultScript, ScriptInjector};
use informer_core::panics::panic_text;
use informer_core::random::SeededThread;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Explore;
use super::plan::Observed;
use super::record::{ProcessId, Record, Violation};
use super::rollout::Rollout;
use super::state::{State, StoredObject, differences, normalize, not_upgraded, terminating};
use super::transport::{Process, Shared};
use super::world::World;
use super::{Program, SETTLED_ELECTION, SETTLED_QUIET};
use crate::testing::{ApiServer, TestServer};

/// The simulated delay between the end of a process and the start of the next one of the same replica.
const RESTART: Duration = Duration::from_secs(1);

/// The maximum number of starts of a replica. A replica that ends this often violates the check `crash loop`.
const MAX_STARTS: usize = 50;

/// The maximum simulated duration of a scenario. A longer scenario violates the check `scenario`.
const MAX_SCENARIO: Duration = Duration::from_secs(2 * 60 * 60);

/// The simulated time for which the state must not change after the program has settled.
const STABLE: Duration = Duration::from_secs(30);

/// The maximum number of requests of the program while the state is stable, in the run without faults. More
/// requests violate the check `hot loop`.
const STABLE_REQUESTS: u64 = 300;

/// In a run with faults, the maximum number of requests while the state is stable is this number plus twice
/// the number of the run without faults.
const MORE_REQUESTS: u64 = 60;

/// The pauses between two comparisons of the state: the first pause, and the longest one. Each pause is twice
/// the previous one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The result of a run of an exploration.
#[derive(Debug)]
pub(super) struct RunResult {
    pub(super) violations: Vec<Violation>,
    pub(super) trace: Vec<String>,
    pub(super) observed: Observed,
    pub(super) state: State,
    pub(super) once: BTreeMap<String, u64>,
    /// The number of requests of the program while the state was stable.
    pub(super) stable_requests: u64,
    pub(super) fired: u64,
    pub(super) simulated: Duration,
}

/// Runs the scenario under a fault script, with `program` as the first program. `reference` is the result of
/// the run without faults, with which the state is compared. It is `None` in the run without faults itself.
pub(super) fn run(
    explore: &Explore,
    program: &Program,
    script: &FaultScript,
    reference: Option<&RunResult>,
) -> RunResult {
    let _seeded = SeededThread::new(script.schedule());
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.unwrap_or_else(|error| panic!("create a runtime: {error}"));
    let result =
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(explore, program, script, reference))));
    result.unwrap_or_else(|panic| RunResult::panicked(panic_text(&*panic)))
}

impl RunResult {
    /// Compares the result of a run in which a program replaces another one with that of a run with the
    /// second program only.
    pub(super) fn check_upgrade(&mut self, next_alone: RunResult) {
        let differences = not_upgraded(&next_alone.state, &self.state);
        self.violations.extend(next_alone.violations);
        if self.violations.is_empty() && !differences.is_empty() {
            self.violations.push(Violation { check: "upgrade", text: differences.join("; ") });
        }
    }

    fn panicked(text: &str) -> Self {
        let violation = Violation { check: "panic", text: text.to_owned() };
        Self {
            violations: vec![violation],
            trace: Vec::new(),
            observed: Observed::default(),
            state: State::new(),
            once: BTreeMap::new(),
            stable_requests: 0,
            fired: 0,
            simulated: Duration::ZERO,
        }
    }
}

async fn play(
    explore: &Explore,
    program: &Program,
    script: &FaultScript,
    reference: Option<&RunResult>,
) -> RunResult {
    let server = TestServer::of((explore.server)(ApiServer::builder()).build());
    explore.setup.iter().for_each(|setup| setup(&server));
    let elects = reference.is_some_and(|reference| reference.observed.elects);
    let shared = Arc::new(Shared {
        server: server.server().clone(),
        user: explore.user.clone(),
        injector: Mutex::new(ScriptInjector::new(script)),
        record: Mutex::new(Record::new()),
        once: explore.once.clone(),
        delays: (script.schedule() != 0).then(|| Mutex::new(script.schedule())),
        stale: Mutex::default(),
    });
    let rollout = Arc::new(Rollout::new(program, explore.next_program.as_ref()));
    let at_start = shared.injector.lock().start();
    for fault in at_start {
        shared.line(format_args!("fault: {fault:?} from the start"));
        shared.inject(&fault, 0);
    }
    let replicas = explore.replicas.unwrap_or(if elects { 2 } else { 1 });
    let mut processes = JoinSet::new();
    for replica in 1..=replicas {
        processes.spawn(supervise(Arc::clone(&rollout), Arc::clone(&shared), replica));
    }
    // The processes of the program start before the users of the scenario send requests, so that the trace
    // shows the starts first.
    tokio::task::yield_now().await;
    let quiet = if elects { SETTLED_ELECTION } else { SETTLED_QUIET };
    let server = server.within(explore.settle);
    let world = World {
        server,
        shared: Arc::clone(&shared),
        rollout: Arc::clone(&rollout),
        timeout: explore.settle,
        quiet,
    };
    let run = Run { explore, reference, world };
    run.scenario().await;
    run.world.settled().await;
    if rollout.is_pending() {
        run.world.restart().await;
        run.world.settled().await;
    }
    shared.injector.lock().disable();
    shared.stale.lock().clear();
    shared.server.faults().clear();
    shared.line("the scenario has ended; no more faults");
    let (state, stable_requests) = run.settle().await;
    run.check(&state);
    while let Some(ended) = processes.try_join_next() {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            shared.record.lock().violated("panic", panic_text(&*panic));
        }
    }
    drop(run);
    processes.shutdown().await;
    result(&shared, state, stable_requests)
}

fn result(shared: &Shared, state: State, stable_requests: u64) -> RunResult {
    let (writes, fired) = {
        let injector = shared.injector.lock();
        (injector.writes(), injector.fired())
    };
    let mut record = shared.record.lock();
    let record = std::mem::replace(&mut *record, Record::new());
    let observed = Observed { writes, watched: record.watched.clone(), elects: record.elects() };
    RunResult {
        violations: record.violations(),
        observed,
        state,
        once: record.once.clone(),
        stable_requests,
        fired,
        simulated: record.elapsed(),
        trace: record.into_lines(),
    }
}

/// Runs a replica of the program, and starts a new process one second after each end. A replica that has
/// ended [`MAX_STARTS`] times violates the check `crash loop`.
async fn supervise(rollout: Arc<Rollout>, shared: Arc<Shared>, replica: usize) {
    for start in 1..=MAX_STARTS {
        let process = Arc::new(Process::new(ProcessId { replica, start }));
        shared.line(format_args!("process {} starts", process.id));
        let (client, (program, mut stop)) = (process.client(&shared), rollout.start());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { program(client).run_until(stop.changed()).await });
        tokio::select! {
            biased;
            () = process.crash.notified() => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok(Ok(())) => shared.line(format_args!("process {} ended", process.id)),
                Ok(Err(error)) => shared.line(format_args!("process {} failed: {error}", process.id)),
                Err(error) => {
                    let text = error.try_into_panic().map_or_else(
                        |error| error.to_string(),
                        |panic| panic_text(&*panic).to_owned(),
                    );
                    shared.record.lock().violated("panic", text);
                }
            },
        }
        // Tasks that the ended process has spawned may still run. Their requests do not reach the server any
        // more, as after a crash.
        process.end();
        tasks.shutdown().await;
        sleep(RESTART).await;
    }
    let text = format!("replica {replica} has ended {MAX_STARTS} times");
    shared.record.lock().violated("crash loop", text);
}

struct Run<'a> {
    explore: &'a Explore,
    reference: Option<&'a RunResult>,
    world: World,
}

impl Run<'_> {
    fn violated(&self, check: &'static str, text: impl Into<String>) {
        self.world.shared.record.lock().violated(check, text);
    }

    async fn scenario(&self) {
        let Some(scenario) = &self.explore.scenario else { return };
        let scenario = AssertUnwindSafe(scenario(self.world.clone())).catch_unwind();
        match timeout(MAX_SCENARIO, scenario).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => self.violated("scenario", panic_text(&*panic)),
            Err(_) => self.violated("scenario", format!("the scenario takes longer than {MAX_SCENARIO:?}")),
        }
    }

    fn state(&self) -> State {
        normalize(objects(&self.world.shared.server), &self.explore.ignored)
    }

    /// Waits until the state equals that of the run without faults and does not change any more. Returns the
    /// state, and the number of requests while it was stable. Returns early after a hot loop. Records a
    /// violation if the state is not final within `settle_within`.
    async fn settle(&self) -> (State, u64) {
        let (begin, mut pause) = (Instant::now(), PAUSE.0);
        let shared = &self.world.shared;
        loop {
            shared.server.controllers_idle().await;
            let state = self.state();
            let is_final = self.reference.is_none_or(|reference| reference.state == state);
            if is_final {
                let requests = self.stable_requests().await;
                shared.server.controllers_idle().await;
                if requests > self.max_requests() || self.state() == state {
                    return (state, requests);
                }
            }
            if begin.elapsed() >= self.explore.settle {
                self.not_settled(&state);
                return (state, 0);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn max_requests(&self) -> u64 {
        let with_faults = |reference: &RunResult| MORE_REQUESTS + 2 * reference.stable_requests;
        self.reference.map_or(STABLE_REQUESTS, with_faults)
    }

    /// Counts the requests of the program for [`STABLE`], while the state should not change. If there are too
    /// many, records a violation of the check `hot loop` and returns early.
    async fn stable_requests(&self) -> u64 {
        let (begin, shared) = (Instant::now(), &self.world.shared);
        let before = shared.record.lock().requests;
        loop {
            sleep(Duration::from_secs(1)).await;
            let requests = shared.record.lock().requests - before;
            let limit = self.max_requests();
            if requests > limit {
                let elapsed = begin.elapsed();
                let text = format!(
                    "{requests} requests within {elapsed:?} after the state is final; at most {limit} are allowed"
                );
                self.violated("hot loop", text);
            }
            if requests > limit || begin.elapsed() >= STABLE {
                return requests;
            }
        }
    }

    fn not_settled(&self, state: &State) {
        let within = self.explore.settle;
        let differences = self.reference.map(|reference| differences(&reference.state, state));
        match differences.filter(|differences| !differences.is_empty()) {
            Some(differences) => self.violated("final state", differences.join("; ")),
            None => self.violated("settles", format!("the state still changes after {within:?}")),
        }
    }

    fn check(&self, state: &State) {
        let terminating = terminating(state);
        if !terminating.is_empty() {
            let text = format!("the deletion of {} does not complete", terminating.join(", "));
            self.violated("deletion", text);
        }
        let once = self.world.shared.record.lock().once.clone();
        let allowed = |write: &String| {
            self.reference.and_then(|reference| reference.once.get(write)).copied().unwrap_or(0).max(1)
        };
        for (write, count) in once {
            if count > allowed(&write) {
                self.violated("once", format!("{write} was executed {count} times"));
            }
        }
    }
}

fn objects(server: &ApiServer) -> Vec<StoredObject> {
    let Ok(Value::Object(mut snapshot)) = serde_json::to_value(server.snapshot()) else { return Vec::new() };
    let Some(Value::Array(kinds)) = snapshot.remove("kinds") else { return Vec::new() };
    let mut found = Vec::new();
    for mut kind in kinds {
        let Some(Value::Array(objects)) = kind.get_mut("objects").map(Value::take) else { continue };
        let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
        let (group, resource) = (text("group"), text("resource"));
        found.extend(objects.into_iter().map(|object| StoredObject {
            group: group.clone(),
            resource: resource.clone(),
            object,
        }));
    }
    found
}
