//! Explores a program under faults: crashes, conflicts, lost responses, stale reads, changes of the leader.

mod plan;
mod record;
mod report;
mod request;
mod rollout;
mod run;
mod stale;
mod state;
#[cfg(test)]
mod tests;
mod transport;
mod world;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use informer_apiserver::{FaultScript, ScriptShrinker};
use informer_client::Client;
use informer_runtime::Manager;
use parking_lot::Mutex;

pub use report::{EXPLORE_VARIABLE, ExploreFailure, ExploreReport};
pub use request::ProgramWrite;
pub use world::World;

use self::run::{RunResult, run};
use self::state::IgnoredField;
use self::transport::OncePredicate;
use super::{TestServer, User};

/// The default number of random fault scripts of an exploration.
const SEEDS: u64 = 100;

/// The default of [`Explore::settle_within`]: the simulated time within which the program must reach its
/// final state after the last fault.
const SETTLE: Duration = Duration::from_secs(5 * 60);

/// The program counts as settled if it sends no write for this simulated time.
const SETTLED_QUIET: Duration = Duration::from_secs(10);

/// The program counts as settled if it sends no write for this simulated time and uses leader election. The
/// time is longer than without leader election, because a standby starts to write only after the lease of a
/// crashed leader has expired.
const SETTLED_ELECTION: Duration = Duration::from_secs(40);

type Program = Arc<dyn Fn(Client) -> Manager + Send + Sync>;
type Scenario = Box<dyn Fn(World) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;
type Setup = Box<dyn Fn(&TestServer) + Send + Sync>;
type ServerOptions = Box<dyn Fn(super::ApiServerBuilder) -> super::ApiServerBuilder + Send + Sync>;

/// Runs a program many times under faults, and checks that it always reaches the same final state.
///
/// The *program* is a function that builds a [`Manager`], as `main` does. The *scenario* is what users do:
/// it creates, changes and deletes objects. Each run has its own embedded server and its own paused clock, so
/// a run takes milliseconds and is reproducible.
///
/// ```no_run
/// use informer::prelude::*;
/// use informer::testing::Explore;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use informer::testing::World;
/// # fn controller() -> Controller {
/// #     Controller::new::<ConfigMap>("settings").reconcile(|_, _| async { Ok(Outcome::Done) })
/// # }
/// # fn settings() -> ConfigMap { ConfigMap::default() }
///
/// // In a `#[test]`, not in a `#[tokio::test]`: each run has its own runtime.
/// Explore::program(|client| Manager::new(client).controller(controller()))
///     .scenario(|world| async move {
///         world.create(&settings()).await;
///         world.settled().await;
///         world.delete::<ConfigMap>("default/settings").await;
///     })
///     .seeds(500)
///     .run();
/// ```
///
/// # Runs
///
/// 1. A run without faults gives the final state and the number of writes of the program.
/// 2. For each write: a crash before it, a crash after it, 409, 500 and a lost response.
/// 3. For each watched resource: late watches, and crashes after which its first list is stale. It returns
///    the state before the last or an earlier write, as a list with `resourceVersion=0` may.
/// 4. For each seed: one to four faults, including cut and expired watches, and random delays of requests.
///    If the program uses leader election, there are two replicas, and the leader may be isolated.
///
/// A crash drops the tasks of the process, blocks its requests, and starts a new process after a second. When
/// the scenario has ended and the program has settled, the faults end.
///
/// # Checks
///
/// | check | holds if |
/// |---|---|
/// | `final state` | within [`settle_within`](Self::settle_within), the objects are those of the run without faults |
/// | `settles`, `hot loop` | the state does not change any more, and the number of requests is bounded |
/// | `scenario` | the scenario does not panic |
/// | `deletion` | no object with a deletion timestamp is left |
/// | `once` | no write that [`once`](Self::once) selects is executed more often than without faults |
/// | `forbidden` | RBAC denies no request; needs [`user`](Self::user) |
/// | `former leader` | no process writes after another process has acquired its Lease |
/// | `upgrade` | after [`restart_with`](Self::restart_with), objects are as the new program alone leaves them |
/// | `crash loop`, `panic` | the program does not panic, and a replica ends less than 50 times |
///
/// The comparison leaves out Events, Leases, versions, uids, generations, times, cluster IPs, node ports and
/// the random part of generated names. [`ignore`](Self::ignore) leaves out more fields.
///
/// # Failures
///
/// The script of the first failing run is shrunk: parts are removed as long as the run fails. The message has
/// the remaining faults, the trace of requests, and the line that replays it.
///
/// # Limits
///
/// - The scenario must have one final state. If two orders of events lead to two correct states, wait between
///   the steps of the scenario, or ignore the fields.
/// - Threads and calls of other systems are not part of the simulation. `select!` of tokio without `biased`
///   and the order of a `HashMap` can make a run differ from its replay.
/// - The program must not listen on ports: leave out its health, metrics and webhook servers.
/// - Each fault is tried at the first 200 writes, and at most 200 pairs of a crash and a stale list.
///   A failing script is shrunk in at most 40 runs.
#[must_use = "an exploration does nothing until `run`"]
pub struct Explore {
    program: Program,
    next_program: Option<Program>,
    scenario: Option<Scenario>,
    setup: Vec<Setup>,
    server: ServerOptions,
    user: Option<User>,
    replicas: Option<usize>,
    seeds: u64,
    settle: Duration,
    ignored: Vec<IgnoredField>,
    once: Vec<OncePredicate>,
    threads: usize,
}

impl Explore {
    /// Creates an exploration of a program. The function `program` is called at each start of a simulated
    /// process. The program must send all requests through the client that the function receives, because
    /// faults are injected there.
    pub fn program(program: impl Fn(Client) -> Manager + Send + Sync + 'static) -> Self {
        Self {
            program: Arc::new(program),
            next_program: None,
            scenario: None,
            setup: Vec::new(),
            server: Box::new(|builder| builder),
            user: None,
            replicas: None,
            seeds: SEEDS,
            settle: SETTLE,
            ignored: Vec::new(),
            once: Vec::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Sets the scenario: the requests of users while the program runs. A panic of the scenario is a failure.
    pub fn scenario<F>(mut self, scenario: impl Fn(World) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.scenario = Some(Box::new(move |world| Box::pin(scenario(world))));
        self
    }

    /// Sets the program that replaces the first one: a newer version, or the same with another configuration.
    ///
    /// In each run, [`World::restart`] stops the first program and starts this one. If the scenario does not
    /// call it, this happens when the scenario has ended and the program has settled. Faults are injected
    /// before, during and after the restart.
    ///
    /// Without faults, each object that this program alone leaves after the scenario must exist, and have the
    /// same content: new defaults must reach existing objects. Further objects, which only the first program
    /// creates, may be left. With faults, the final state must be that of the run without faults, as always.
    ///
    /// ```no_run
    /// # use informer::prelude::*;
    /// # use informer::testing::{Explore, World};
    /// # fn manager(client: Client, image: &'static str) -> Manager { Manager::new(client) }
    /// # async fn scenario(world: World) {}
    /// Explore::program(|client| manager(client, "web:1"))
    ///     .restart_with(|client| manager(client, "web:2"))
    ///     .scenario(scenario)
    ///     .run();
    /// ```
    pub fn restart_with(mut self, program: impl Fn(Client) -> Manager + Send + Sync + 'static) -> Self {
        self.next_program = Some(Arc::new(program));
        self
    }

    /// Adds a function that prepares the server of each run before the program starts, for example by loading
    /// CRDs and roles.
    pub fn setup(mut self, setup: impl Fn(&TestServer) + Send + Sync + 'static) -> Self {
        self.setup.push(Box::new(setup));
        self
    }

    /// Sets the options of the server of each run, for example RBAC.
    pub fn server(
        mut self,
        options: impl Fn(super::ApiServerBuilder) -> super::ApiServerBuilder + Send + Sync + 'static,
    ) -> Self {
        self.server = Box::new(options);
        self
    }

    /// Sends the requests of the program as this user, and not as an administrator. On a server with RBAC, a
    /// denied request of the program is then a failure.
    pub fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets the number of replicas of the program. The default is two if the program uses leader election,
    /// otherwise one.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets the number of random fault scripts, each of which is one run; 100 by default.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets the simulated time within which the program must reach its final state after the last fault; 5
    /// min by default. The waits of a scenario have the same timeout.
    pub fn settle_within(mut self, time: Duration) -> Self {
        self.settle = time;
        self
    }

    /// Leaves out a field when the final states of two runs are compared: `status.lastSync` of all resources,
    /// or `websites:status.lastSync` of one. A name with dots is in brackets:
    /// `metadata.annotations[example.com/checked]`.
    pub fn ignore(mut self, path: &str) -> Self {
        self.ignored.push(IgnoredField::parse(path));
        self
    }

    /// Declares that the writes for which `matches` returns true must not be repeated, for example because
    /// each one sends a message. If the program repeats such a write, the check `once` fails. A write that
    /// the server executed counts even if the program did not receive the response.
    pub fn once(mut self, matches: impl Fn(&ProgramWrite) -> bool + Send + Sync + 'static) -> Self {
        self.once.push(Arc::new(matches));
        self
    }

    /// Sets the number of threads that run fault scripts in parallel; the number of processors by default.
    /// The result of the exploration does not depend on it.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Explores the program. If the environment variable [`INFORMER_EXPLORE`](EXPLORE_VARIABLE) contains a
    /// fault script, runs only that script, and prints the trace of its requests.
    ///
    /// # Panics
    ///
    /// If a check fails. The message has the faults, the trace, and the command line that replays them. Also
    /// panics if the value of `INFORMER_EXPLORE` is not a valid fault script.
    #[track_caller]
    pub fn run(self) {
        let failure = match std::env::var(EXPLORE_VARIABLE) {
            Ok(script) => {
                let script = script.parse().unwrap_or_else(|error| panic!("{error}"));
                let (failure, trace) = self.replay(&script);
                trace.iter().for_each(|line| println!("{line}"));
                failure
            }
            Err(_) => self.report().failure,
        };
        if let Some(failure) = failure {
            panic!("{failure}");
        }
    }

    /// Explores the program, and returns the numbers of runs and faults and the first failure. Unlike
    /// [`run`](Self::run), it does not panic if a check fails.
    pub fn report(&self) -> ExploreReport {
        self.on_thread(|| self.explore())
    }

    /// Runs the program and the scenario once under the given fault script, after a run without faults with
    /// which the result is compared. Returns the failed check, if any, and the trace of requests, responses
    /// and faults.
    pub fn replay(&self, script: &FaultScript) -> (Option<ExploreFailure>, Vec<String>) {
        self.on_thread(|| {
            let reference = self.reference();
            let result = if script.is_empty() && script.schedule() == 0 {
                reference
            } else {
                self.attempt(script, &reference)
            };
            (failure(&result, script, script, 0), result.trace)
        })
    }

    /// Calls `work` on another thread, and returns its result or resumes its panic. Each run of an
    /// exploration creates a tokio runtime, which is not possible on a thread that already runs one.
    fn on_thread<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs the program without faults. If another program replaces it, compares the final state with that
    /// of a run in which this other program is also the first one.
    fn reference(&self) -> RunResult {
        let mut result = run(self, &self.program, &FaultScript::default(), None);
        if let Some(next) = &self.next_program
            && result.violations.is_empty()
        {
            let next_alone = run(self, next, &FaultScript::default(), None);
            result.check_upgrade(next_alone);
        }
        result
    }

    fn attempt(&self, script: &FaultScript, reference: &RunResult) -> RunResult {
        run(self, &self.program, script, Some(reference))
    }

    fn explore(&self) -> ExploreReport {
        let reference = self.reference();
        let none = FaultScript::default();
        if let Some(failure) = failure(&reference, &none, &none, 0) {
            return ExploreReport { failure: Some(failure), ..ExploreReport::default() };
        }
        let mut scripts = plan::systematic(&reference.observed);
        scripts.extend((0..self.seeds).map(|seed| plan::random(&reference.observed, seed)));
        let (runs, faults) = (AtomicU64::new(0), AtomicU64::new(0));
        let (next, first_failure) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let (simulated, first_result) = (Mutex::new(reference.simulated), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        // When a fault script fails, the scripts after it in the list are skipped. The
                        // scripts before it still run, so that the reported first failure does not depend on
                        // the scheduling of the threads.
                        if index >= scripts.len() || index > first_failure.load(Ordering::SeqCst) {
                            return;
                        }
                        let result = self.attempt(&scripts[index], &reference);
                        runs.fetch_add(1, Ordering::SeqCst);
                        faults.fetch_add(result.fired, Ordering::SeqCst);
                        *simulated.lock() += result.simulated;
                        if !result.violations.is_empty() {
                            let mut first = first_result.lock();
                            if index < first_failure.fetch_min(index, Ordering::SeqCst) {
                                *first = Some(result);
                            }
                        }
                    }
                });
            }
        });
        ExploreReport {
            runs: runs.into_inner(),
            faults: faults.into_inner(),
            writes: reference.observed.writes,
            simulated: simulated.into_inner(),
            failure: scripts
                .get(first_failure.into_inner())
                .zip(first_result.into_inner())
                .and_then(|(script, first)| self.shrink(script, first, &reference)),
        }
    }

    /// Shrinks a failing fault script: removes faults as long as the same check still fails. Runs the
    /// unchanged script again before. If that run does not fail in the same way, the failure is not
    /// reproducible, and the failure of the first run is returned.
    fn shrink(&self, found: &FaultScript, first: RunResult, reference: &RunResult) -> Option<ExploreFailure> {
        let check = first.violations.first()?.check;
        let fails = |result: &RunResult| result.violations.first().is_some_and(|found| found.check == check);
        let mut last = self.attempt(found, reference);
        if !fails(&last) {
            let reported = failure(&first, found, found, 1)?;
            return Some(ExploreFailure { reproduced: false, ..reported });
        }
        let mut shrinker = ScriptShrinker::new(found.clone());
        while let Some(candidate) = shrinker.candidate() {
            let result = self.attempt(&candidate, reference);
            let fails = fails(&result);
            if fails {
                last = result;
            }
            shrinker.handle(candidate, fails);
        }
        let runs = shrinker.runs();
        failure(&last, &shrinker.finish(), found, runs)
    }
}

fn failure(
    result: &RunResult,
    script: &FaultScript,
    found: &FaultScript,
    shrink_runs: usize,
) -> Option<ExploreFailure> {
    let violation = result.violations.first()?;
    Some(ExploreFailure {
        check: violation.check,
        text: violation.text.clone(),
        script: script.clone(),
        found: found.clone(),
        shrink_runs,
        reproduced: true,
        trace: result.trace.clone(),
    })
}

impl fmt::Debug for Explore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explore")
            .field("seeds", &self.seeds)
            .field("replicas", &self.replicas)
            .field("settle_within", &self.settle)
            .finish_non_exhaustive()
    }
}
