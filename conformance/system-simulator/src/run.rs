//! Runs one scenario or many.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use informer_simulator::{Distribution, Violation};
use parking_lot::Mutex;

use crate::fault::Fault;
use crate::scenario::{Action, Scenario};
use crate::trace::Trace;
use crate::world::World;

/// The outcome of one scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The violated invariants, in the order of detection.
    pub violations: Vec<Violation>,
    /// The lines of the log of the run, with simulated times.
    pub trace: Vec<String>,
    /// The simulated time that the run took.
    pub simulated: Duration,
    /// Number of requests that the server received.
    pub requests: u64,
}

thread_local! {
    /// The panics of the current run on this thread, except those that the scenario injects.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Installs a panic hook that records panics instead of printing them. A panic whose message begins with
/// `simulated` is injected and not recorded.
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = informer_core::panics::panic_text(info.payload());
            if !text.starts_with("simulated") {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                PANICS.with_borrow_mut(|panics| panics.push(format!("{place}: {text}")));
            }
        }));
    });
}

/// Runs a scenario in its own runtime, in simulated time.
///
/// # Panics
///
/// When the runtime cannot be created.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, false)
}

/// Runs a scenario like [`run`], and prints each line of the trace as soon as it is written.
pub fn run_printing(scenario: &Scenario) -> Outcome {
    run_with(scenario, true)
}

fn run_with(scenario: &Scenario, prints: bool) -> Outcome {
    note_panics();
    PANICS.take();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime =
        builder.enable_time().start_paused(true).build().expect("a runtime without I/O needs no resources");
    let (trace, played) = {
        let _guard = runtime.enter();
        let trace = Trace::new(prints);
        let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(scenario, &trace))));
        (trace, played)
    };
    let simulated = {
        let _guard = runtime.enter();
        trace.elapsed()
    };
    let lines = trace.lines();
    // A panic of the simulation itself is a violation, even if its message is that of an injected panic.
    let (mut violations, requests) = played.unwrap_or_else(|panic| {
        let text = format!("the simulation panicked: {}", informer_core::panics::panic_text(&*panic));
        (vec![Violation { invariant: "no-panic", text }], 0)
    });
    let panicked = PANICS.take().into_iter().next();
    violations.extend(panicked.map(|text| Violation { invariant: "no-panic", text }));
    Outcome { violations, trace: lines, simulated, requests }
}

async fn play(scenario: &Scenario, trace: &Trace) -> (Vec<Violation>, u64) {
    let mut world = World::new(scenario, trace);
    for step in &scenario.steps {
        world.perform(step).await;
    }
    let checks = world.checks().clone();
    let requests = world.requests();
    world.end().await;
    (checks.found(), requests)
}

/// Which scenarios to run, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of the first scenario. The next scenarios use the following numbers.
    pub seed: u64,
    /// The maximum number of scenarios.
    pub schedules: u64,
    /// The maximum real time; `None` for no limit.
    pub time: Option<Duration>,
    /// The number of threads that run scenarios.
    pub threads: usize,
    /// True to continue after a failure, and to count the failures by invariant.
    pub keep_going: bool,
}

/// The summary of the outcomes of many scenarios.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Number of scenarios that were completed.
    pub schedules: u64,
    /// Number of steps in the completed scenarios.
    pub steps: u64,
    /// Number of faults in the completed scenarios.
    pub faults: u64,
    /// Number of requests that the servers received.
    pub requests: u64,
    /// The sum of the simulated times of the completed scenarios.
    pub simulated: Duration,
    /// The number of faults of each kind in the completed scenarios. Contains all kinds.
    pub faults_by_kind: BTreeMap<String, u64>,
    /// The completed scenarios by the second in which they ended, counted from the start of the run.
    pub by_second: Distribution,
    /// The completed scenarios by the simulated seconds that they took, in ranges of
    /// [`Tally::SIMULATED_WIDTH`].
    pub by_simulated_time: Distribution,
    /// The first seed that failed, and its violation.
    pub failure: Option<(u64, Violation)>,
    /// The failures by violated invariant.
    pub failures: BTreeMap<&'static str, InvariantFailures>,
    /// The real time that all scenarios took.
    pub elapsed: Duration,
}

/// The scenarios that violated one invariant.
#[derive(Debug, Clone)]
pub struct InvariantFailures {
    /// The first seed that violated the invariant.
    pub seed: u64,
    /// Number of scenarios that violated the invariant.
    pub scenarios: u64,
    /// The message of the first seed.
    pub text: String,
}

/// Runs many scenarios, until one of them fails, unless the plan says to keep going.
pub fn run_many(plan: &Plan) -> Tally {
    let begin = clock();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Tally::new());
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let late = plan.time.is_some_and(|time| clock().saturating_duration_since(begin) >= time);
                    if index >= plan.schedules || late || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let scenario = Scenario::of_seed(plan.seed.wrapping_add(index));
                    let outcome = run(&scenario);
                    stop.fetch_or(!outcome.violations.is_empty() && !plan.keep_going, Ordering::Relaxed);
                    let second = clock().saturating_duration_since(begin).as_secs();
                    total.lock().add(&scenario, outcome, second);
                }
            });
        }
    });
    let mut tally = total.into_inner();
    tally.elapsed = clock().saturating_duration_since(begin);
    tally
}

impl Tally {
    /// The width in seconds of the ranges of [`Tally::by_simulated_time`].
    pub const SIMULATED_WIDTH: u64 = 10;

    fn new() -> Self {
        Self { faults_by_kind: Fault::ALL.map(|fault| (fault.name(), 0)).into(), ..Self::default() }
    }

    /// Adds a scenario that ended in this second of the run.
    fn add(&mut self, scenario: &Scenario, outcome: Outcome, second: u64) {
        self.schedules += 1;
        self.by_second.add(second, 1);
        self.by_simulated_time.add(outcome.simulated.as_secs() / Self::SIMULATED_WIDTH, 1);
        for step in &scenario.steps {
            if let Action::Fault(fault) = step.action {
                *self.faults_by_kind.entry(fault.name()).or_default() += 1;
            }
        }
        self.steps += scenario.steps.len() as u64;
        self.faults += scenario.faults() as u64;
        self.requests += outcome.requests;
        self.simulated += outcome.simulated;
        for Violation { invariant, text } in &outcome.violations {
            let first = InvariantFailures { seed: scenario.seed, scenarios: 0, text: text.clone() };
            let known = self.failures.entry(invariant).or_insert(first);
            known.scenarios += 1;
            if scenario.seed < known.seed {
                (known.seed, known.text) = (scenario.seed, text.clone());
            }
        }
        if let Some(violation) = outcome.violations.into_iter().next()
            && self.failure.as_ref().is_none_or(|(first, _)| scenario.seed < *first)
        {
            self.failure = Some((scenario.seed, violation));
        }
    }
}

fn clock() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the duration of a run is reported in real time")]
    Instant::now()
}
