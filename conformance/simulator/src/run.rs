//! Runs one schedule or many. A schedule is a [`Script`]: the setup of a simulated world, and the steps that
//! are run in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::check::{Checked, Violation, ensure};
use crate::coverage::Coverage;
use crate::distribution::Distribution;
use crate::object::alive;
use crate::script::Script;
use crate::world::World;

/// The result of one schedule.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The invariant that the schedule violated, if any.
    pub violation: Option<Violation>,
    /// Counts of the faults, phase changes and other cases that the schedule reached. The counts of many
    /// schedules are added, to check that together they reach every case.
    pub coverage: Coverage,
    /// Number of steps of all parts: every action of the server, the reflector, the pump, a handler or a
    /// worker.
    pub steps: u64,
    /// The readable log of the schedule, if it was requested.
    pub timeline: Vec<String>,
}

/// Runs a script until its end or until it violates an invariant.
pub fn run(script: &Script) -> Outcome {
    run_with(script, false)
}

/// Runs a script and records its readable log, the timeline.
pub fn run_with_timeline(script: &Script) -> Outcome {
    run_with(script, true)
}

fn run_with(script: &Script, timeline: bool) -> Outcome {
    let before = alive();
    let mut world = World::new(&script.setup);
    world.timeline = timeline.then(Vec::new);
    let mut steps = 0;
    let mut lines = Vec::new();
    let mut coverage = Coverage::default();
    let played = catch_unwind(AssertUnwindSafe(|| play(script, &mut world)));
    let result = match played {
        Ok(Ok(())) => {
            steps = world.steps;
            lines.append(world.timeline.as_mut().unwrap_or(&mut Vec::new()));
            match catch_unwind(AssertUnwindSafe(|| end(world, before))) {
                Ok(Ok(reached)) => {
                    coverage = reached;
                    Ok(())
                }
                Ok(Err(violation)) => Err(violation),
                Err(panic) => Err(panicked(&*panic)),
            }
        }
        Ok(Err(violation)) => {
            (steps, lines) = (world.steps, world.timeline.take().unwrap_or_default());
            Err(violation)
        }
        Err(panic) => {
            lines = world.timeline.take().unwrap_or_default();
            // After a violation, the parts of the world may be in any state, so a panic while dropping them
            // is ignored.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
            Err(panicked(&*panic))
        }
    };
    Outcome { violation: result.err(), coverage, steps, timeline: lines }
}

fn play(script: &Script, world: &mut World) -> Checked {
    script.steps.iter().try_for_each(|step| world.perform(*step))?;
    world.come_to_rest()?;
    world.compare()
}

fn end(world: World, before: i64) -> Checked<Coverage> {
    let mut world = world.stop()?;
    let coverage = std::mem::take(&mut world.coverage);
    drop(world);
    let left = alive() - before;
    ensure!("nothing-left", left == 0, "{left} objects are still alive");
    Ok(coverage)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Violation {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "(no message)".to_owned(),
    };
    Violation { invariant: "no-panic", text }
}

/// Which schedules to run, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The first seed. The next schedules use the following numbers.
    pub seed: u64,
    /// The maximum number of schedules.
    pub schedules: u64,
    /// The maximum real time; `None` for no limit.
    pub time: Option<Duration>,
    /// The number of threads that run schedules.
    pub threads: usize,
}

/// The result of many schedules.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Number of schedules that were completed.
    pub schedules: u64,
    /// The number of steps of all parts in the completed schedules.
    pub steps: u64,
    /// The number of script steps in the completed schedules. Each step has one verb.
    pub verbs: u64,
    /// The number of script steps in the completed schedules that inject a fault.
    pub faults: u64,
    /// The number of object keys in the simulated worlds of the completed schedules.
    pub keys: u64,
    /// Counts of the faults, phase changes and other events in the completed schedules.
    pub coverage: Coverage,
    /// The completed schedules by the second in which they ended, counted from the start of the run.
    pub by_second: Distribution,
    /// The completed schedules by their number of steps, in ranges of [`Tally::STEPS_WIDTH`].
    pub by_steps: Distribution,
    /// The first seed that failed, and its violation.
    pub failure: Option<(u64, Violation)>,
    /// The real time that all schedules took.
    pub elapsed: Duration,
}

impl Tally {
    /// The width of the ranges of [`Tally::by_steps`].
    pub const STEPS_WIDTH: u64 = 20;
}

/// Number of seeds that a thread reserves at once.
const CHUNK: u64 = 64;

/// Runs many schedules until one of them fails. Calls `progress` occasionally with the number of completed
/// schedules.
pub fn run_many(plan: &Plan, progress: &(dyn Fn(u64) + Sync)) -> Tally {
    let begin = clock();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| {
                let tally = run_chunks(plan, (&next, &stop), begin, progress);
                merge(&mut total.lock(), &tally);
            });
        }
    });
    let mut tally = total.into_inner();
    tally.elapsed = clock().saturating_duration_since(begin);
    tally
}

fn run_chunks(
    plan: &Plan,
    (next, stop): (&AtomicU64, &AtomicBool),
    begin: Instant,
    progress: &(dyn Fn(u64) + Sync),
) -> Tally {
    let mut tally = Tally::default();
    loop {
        let first = next.fetch_add(CHUNK, Ordering::Relaxed);
        let late = plan.time.is_some_and(|time| clock().saturating_duration_since(begin) >= time);
        if first >= plan.schedules || late || stop.load(Ordering::Relaxed) {
            return tally;
        }
        progress(first);
        for index in first..(first + CHUNK).min(plan.schedules) {
            let seed = plan.seed.wrapping_add(index);
            let script = Script::of_seed(seed);
            let outcome = run(&script);
            tally.schedules += 1;
            tally.steps += outcome.steps;
            tally.by_steps.add(outcome.steps / Tally::STEPS_WIDTH, 1);
            tally.verbs += script.steps.len() as u64;
            tally.faults += script.faults() as u64;
            tally.keys += u64::from(script.setup.keys);
            tally.coverage += &outcome.coverage;
            if let Some(violation) = outcome.violation {
                tally.failure = Some((seed, violation));
                stop.store(true, Ordering::Relaxed);
                return tally;
            }
        }
        let completed = (first + CHUNK).min(plan.schedules) - first;
        tally.by_second.add(clock().saturating_duration_since(begin).as_secs(), completed);
    }
}

fn merge(total: &mut Tally, tally: &Tally) {
    total.schedules += tally.schedules;
    total.steps += tally.steps;
    total.verbs += tally.verbs;
    total.faults += tally.faults;
    total.keys += tally.keys;
    total.coverage += &tally.coverage;
    total.by_second += &tally.by_second;
    total.by_steps += &tally.by_steps;
    if let Some((seed, violation)) = &tally.failure
        && total.failure.as_ref().is_none_or(|(first, _)| seed < first)
    {
        total.failure = Some((*seed, violation.clone()));
    }
}

fn clock() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the duration of a run is measured in real time")]
    Instant::now()
}
