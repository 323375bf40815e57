//! Runs the fuzz targets on mutated seeds, without the instrumentation of a fuzzer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::Parser;
use informer_fuzz::{Campaign, Crash, TARGETS, Target};
use parking_lot::Mutex;

/// The timeout of one run; inputs have a few kilobytes.
const MAX_RUN: Duration = Duration::from_secs(20);

const MAX_SHRINK: Duration = Duration::from_secs(60);

/// Runs fuzz targets on mutated seeds. Finally prints a JSON object of executions by target.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only this target.
    #[arg(long)]
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the target on this file only, without catching the panic.
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
        eprintln!("unknown target; use one of {}", names.join(", "));
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
    // A failure is reported once, with its input. Messages of attempts while shrinking are suppressed.
    std::panic::set_hook(Box::new(|_| {}));
    let current = Arc::new(Mutex::new(Current::default()));
    let (beat, beats) = channel();
    let watched = Arc::clone(&current);
    std::thread::spawn(move || watch(&beats, &watched));

    let (mut executions, mut crashed) = (BTreeMap::new(), false);
    for &target in targets {
        current.lock().target = target.name;
        let lasts = Duration::from_secs(arguments.seconds);
        let campaign = Campaign { target, seed: arguments.seed, lasts, shrinks_for: MAX_SHRINK };
        let found = campaign.run(|input| {
            input.clone_into(&mut current.lock().input);
            let _ = beat.send(());
        });
        eprintln!("{:<12} {:>10} executions", target.name, found.executions);
        executions.insert(target.name, found.executions);
        if let Some(crash) = found.crash {
            crashed = true;
            report(target, &crash);
        }
    }
    println!("{}", serde_json::json!({ "executions": executions, "crashed": crashed }));
    ExitCode::from(u8::from(crashed))
}

#[derive(Default)]
struct Current {
    target: &'static str,
    input: Vec<u8>,
}

fn report(target: Target, Crash { input, message }: &Crash) {
    let path = std::env::temp_dir().join(format!("{}-crash", target.name));
    eprintln!("{}: {message}", target.name);
    eprintln!("the smallest input found: {:?}", String::from_utf8_lossy(input));
    match std::fs::write(&path, input) {
        Ok(()) => eprintln!("it is in {}; run it with --target {} --input FILE", path.display(), target.name),
        Err(error) => eprintln!("cannot write it to {}: {error}", path.display()),
    }
}

/// Ends the program when one run exceeds the timeout, and prints its input.
fn watch(beats: &Receiver<()>, current: &Mutex<Current>) {
    loop {
        match beats.recv_timeout(MAX_RUN) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Current { target, input } = &*current.lock();
                eprintln!(
                    "{target}: a run takes longer than {MAX_RUN:?}: {:?}",
                    String::from_utf8_lossy(input)
                );
                std::process::exit(1);
            }
        }
    }
}
