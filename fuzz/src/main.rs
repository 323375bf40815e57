//! Runs the fuzz targets without a fuzzer's instrumentation: seeds, mutated, for a while each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::Parser;
use informer_fuzz::{TARGETS, Target, mutate, seeds, shrink};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

/// One run over an input that takes longer hangs: inputs have a few kilobytes.
const RUN_MAX: Duration = Duration::from_secs(20);

/// Inputs that are kept beside the seeds to be mutated further.
const KEPT_MAX: usize = 256;

/// Runs fuzz targets over mutated seeds. Prints a JSON object of executions by target last.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the target over this file alone, without catching the panic.
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<Target> = TARGETS
        .iter()
        .copied()
        .filter(|target| arguments.target.as_deref().is_none_or(|name| name == target.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("there is no such target; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    match &arguments.input {
        Some(path) => replay(chosen[0], path),
        None => fuzz(&chosen, &arguments),
    }
}

fn replay(target: Target, path: &Path) -> ExitCode {
    match std::fs::read(path) {
        Ok(input) => {
            (target.run)(&input);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot read {}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

fn fuzz(targets: &[Target], arguments: &Arguments) -> ExitCode {
    // What a target finds is told once, with the input; the message of every try while shrinking is not.
    std::panic::set_hook(Box::new(|_| {}));
    let current = Arc::new(Mutex::new(Vec::new()));
    let (beat, beats) = channel();
    let watched = Arc::clone(&current);
    std::thread::spawn(move || watch(&beats, &watched));

    let (mut executions, mut crashed) = (BTreeMap::new(), false);
    for &target in targets {
        let found = campaign(target, arguments, |input| {
            input.clone_into(&mut current.lock());
            let _ = beat.send(());
        });
        eprintln!("{:<12} {:>10} executions", target.name, found.executions);
        executions.insert(target.name, found.executions);
        if let Some((input, message)) = found.crash {
            crashed = true;
            report(target, &input, &message);
        }
    }
    println!("{}", serde_json::json!({ "executions": executions, "crashed": crashed }));
    ExitCode::from(u8::from(crashed))
}

struct Found {
    executions: u64,
    crash: Option<(Vec<u8>, String)>,
}

fn campaign(target: Target, arguments: &Arguments, mut begin: impl FnMut(&[u8])) -> Found {
    let (seeds, mut rng) = (seeds(target), StdRng::seed_from_u64(arguments.seed));
    let (mut inputs, mut executions) = (seeds.clone(), 0);
    let deadline = Instant::now() + Duration::from_secs(arguments.seconds);
    for input in seeds {
        begin(&input);
        executions += 1;
        if let Err(message) = attempt(target, &input) {
            return Found { executions, crash: Some((input, message)) };
        }
    }
    // Reading the clock costs as much as a short run.
    while executions % 64 != 0 || Instant::now() < deadline {
        let mut input = match inputs.len() {
            0 => Vec::new(),
            count => inputs[rand::RngExt::random_range(&mut rng, 0..count)].clone(),
        };
        mutate(&mut input, &inputs, target.words, &mut rng);
        begin(&input);
        executions += 1;
        if let Err(message) = attempt(target, &input) {
            let small = shrink(&input, |input| attempt(target, input).is_err());
            return Found { executions, crash: Some((small, message)) };
        }
        keep(&mut inputs, input, &mut rng);
    }
    Found { executions, crash: None }
}

/// Keeps one input in a thousand, so that changes add up without drifting away from the seeds.
fn keep(inputs: &mut Vec<Vec<u8>>, input: Vec<u8>, rng: &mut StdRng) {
    if rand::RngExt::random_ratio(rng, 1, 1000) && inputs.len() < KEPT_MAX {
        inputs.push(input);
    }
}

fn attempt(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
    })
}

fn report(target: Target, input: &[u8], message: &str) {
    let path = std::env::temp_dir().join(format!("{}-crash", target.name));
    eprintln!("{}: {message}", target.name);
    eprintln!("the smallest input found: {:?}", String::from_utf8_lossy(input));
    match std::fs::write(&path, input) {
        Ok(()) => eprintln!("it is in {}; run it with --target {} --input FILE", path.display(), target.name),
        Err(error) => eprintln!("cannot write it to {}: {error}", path.display()),
    }
}

/// Ends the program when one run takes too long, and says over which input.
fn watch(beats: &Receiver<()>, current: &Mutex<Vec<u8>>) {
    loop {
        match beats.recv_timeout(RUN_MAX) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("a run takes over {RUN_MAX:?}: {:?}", String::from_utf8_lossy(&current.lock()));
                std::process::exit(1);
            }
        }
    }
}
