//! Explores the sample controller, mutants of it, and bug patterns of published operators. See `README.md` in
//! this folder.

mod mutants;
mod patterns;
mod sample;

use std::error::Error;

use informer::testing::{Explore, ExploreReport};

/// The number of random scripts for correct programs, unless the argument `--seeds` sets it.
const SEEDS: u64 = 100;

/// Prints a line for each program: the number of runs and the shrunk script.
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
        println!("found     {name}: `{}`, {}{seconds}", failure.check, failure.script);
        println!("          {}", failure.text);
    }
    Ok(())
}

fn seeds() -> u64 {
    let value = std::env::args().skip_while(|argument| argument != "--seeds").nth(1);
    value.and_then(|value| value.parse().ok()).unwrap_or(SEEDS)
}

/// Explores a program. The time is part of the output only if an argument asks for it, so that the output is
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
