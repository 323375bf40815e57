//! Explores a sample controller, mutants of it (copies with a defect), and bug patterns of published
//! operators. An exploration runs a program under many scripts of faults. See `README.md` in this folder.

mod mutants;
mod patterns;
mod sample;

use std::error::Error;

use informer::testing::{Explore, ExploreReport};

/// The number of random fault scripts that each correct program must pass, unless the argument `--seeds` sets
/// it.
const SEEDS: u64 = 20;

/// The maximum number of lines that the example prints of the message of a failed check. The message of a
/// failed wait can be long: after the reason it lists the object, its changes and the last requests.
const MAX_LINES: usize = 3;

/// Explores all programs, and prints one line for each program. The line of a correct program contains the
/// numbers of runs and injected faults. The line of a program with a defect contains the check that failed
/// and the shrunk fault script, which is the smallest one that still makes the check fail.
pub fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let correct = [("the sample controller", (|| sample::explore(sample::correct)) as fn() -> Explore)];
    for (name, explore) in correct.into_iter().chain(patterns::REPAIRED) {
        let (report, seconds) = timed(&explore().seeds(seeds()));
        println!("ok        {name}: {} runs, {} faults{seconds}", report.runs, report.faults);
        if let Some(failure) = report.failure {
            return Err(failure.to_string().into());
        }
    }
    let mutants = mutants::MUTANTS.map(|(name, reconciler)| (name, sample::explore(reconciler)));
    let patterns = patterns::PATTERNS.map(|(name, explore)| (name, explore()));
    for (name, explore) in mutants.into_iter().chain(patterns) {
        let (report, seconds) = timed(&explore);
        let failure = report.failure.ok_or_else(|| format!("no script finds: {name}"))?;
        let script =
            if failure.script.is_empty() { "no faults".to_owned() } else { failure.script.to_string() };
        println!("found     {name}: `{}`, {script}{seconds}", failure.check);
        failure.text.lines().take(MAX_LINES).for_each(|line| println!("          {line}"));
    }
    Ok(())
}

fn seeds() -> u64 {
    let value = std::env::args().skip_while(|argument| argument != "--seeds").nth(1);
    value.and_then(|value| value.parse().ok()).unwrap_or(SEEDS)
}

/// Explores a program. Returns the report of the exploration, and its duration as a string, which is empty
/// without the argument `--seconds`. Without that argument the output of the example is therefore
/// reproducible.
fn timed(explore: &Explore) -> (ExploreReport, String) {
    #[expect(clippy::disallowed_methods, reason = "the duration is reported in real time")]
    let begin = std::time::Instant::now();
    let report = explore.report();
    #[expect(clippy::disallowed_methods, reason = "the duration is reported in real time")]
    let seconds = begin.elapsed().as_secs_f64();
    if std::env::args().any(|argument| argument == "--seconds") {
        (report, format!(" [{seconds:.1} s]"))
    } else {
        (report, String::new())
    }
}
