//! The output of an exploration: progress on stderr, the result on stdout.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use informer_apiserver::FaultScript;

use super::session::{Summary, TraceLine};
use super::{ExploreArguments, Run, quoted};
use crate::failure::Failure;
use crate::terminal::without_colors;

/// The maximum number of lines of a trace that are printed; `--trace` writes all lines to a file.
const MAX_PRINTED_LINES: usize = 200;

/// The number of lines that are printed before the first fault of a trace, if the trace has more than
/// [`MAX_PRINTED_LINES`] lines.
const LINES_BEFORE: usize = 40;

/// A fault script under which the command fails, and its last failing run.
pub(super) struct FailingScript {
    /// The fault script with as few faults as possible under which the command still fails.
    pub(super) script: FaultScript,
    /// The first failing fault script, before faults were removed from it.
    pub(super) found: FaultScript,
    /// The last failing run of the shrunk fault script, whose output and trace are printed.
    pub(super) run: Run,
    pub(super) shrink_runs: usize,
    /// False if the command passed when the same fault script ran again. The failure then does not depend on
    /// the script alone.
    pub(super) reproduced: bool,
}

pub(super) struct Reporter {
    /// The options of `informer explore` with which a failing fault script is replayed. They are part of the
    /// printed command line.
    options: String,
    command: Vec<OsString>,
    trace: Option<PathBuf>,
}

impl Reporter {
    pub(super) fn new(arguments: &ExploreArguments) -> Self {
        let mut options = String::new();
        let mut option = |name: &str, value: &str| {
            // The error is ignored, because writing to a `String` cannot fail.
            let _ = write!(options, "--{name} {} ", quoted(value));
        };
        let ExploreArguments { user_agent, user, resources, load, timeout, .. } = arguments;
        user_agent.iter().for_each(|value| option("user-agent", value));
        user.iter().for_each(|value| option("user", value));
        resources.iter().for_each(|value| option("resource", value.text()));
        load.iter().for_each(|value| option("load", &value.to_string_lossy()));
        timeout.iter().for_each(|value| option("timeout", &format!("{}ms", value.as_millis())));
        Self { options, command: arguments.command.clone(), trace: arguments.trace.clone() }
    }

    /// Prints the result of the run without faults on stderr: its duration, its writes and its watched
    /// resources.
    pub(super) fn reference(&self, run: &Run) {
        let Summary { writes, watched, .. } = &run.summary;
        let watched: Vec<&str> = watched.iter().map(String::as_str).collect();
        let watched = if watched.is_empty() { "none".to_owned() } else { watched.join(", ") };
        eprintln!(
            "without faults: passed in {:.1?}; {writes} writes; watches: {watched}",
            run.ended.duration
        );
        run.summary.clients().iter().for_each(|client| eprintln!("  client {client}"));
    }

    pub(super) fn progress(&self, number: u64, script: &FaultScript, run: &Run) {
        let outcome = run.ended.outcome;
        let unused = match script.len() as u64 - run.summary.fired {
            0 => String::new(),
            unused => format!("; {}", not_reached(unused)),
        };
        let script = shown_script(script);
        eprintln!("run {number}: {script}: {outcome} in {:.1?}{unused}", run.ended.duration);
    }

    pub(super) fn shrinking(&self, script: &FaultScript) {
        eprintln!("shrinking; replay: {}", self.replay_line(script));
    }

    /// Prints on stdout that the command passed in all runs.
    pub(super) fn passed(&self, runs: u64, faults: u64, first: &Run, elapsed: Duration) {
        let writes = first.summary.writes;
        // Writing fails if stdout is closed. The error is ignored, because the exit code also contains the
        // result.
        let _ = writeln!(
            io::stdout(),
            "passed: {runs} runs with {faults} faults, {writes} writes without faults, in {elapsed:.1?}"
        );
    }

    /// Prints a failing fault script: the faults, the command line that replays them, the command's output,
    /// and the trace.
    pub(super) fn found(&self, found: &FailingScript) -> Result<(), Failure> {
        let mut text = String::new();
        let mut line = |line: String| text.extend([line.as_str(), "\n"]);
        line(format!("{} {}", shown(&self.command), found.run.ended.outcome));
        line(format!("  faults: {}", shown_script(&found.script)));
        if found.found != found.script {
            line(format!("  found with: {} ({} runs to shrink)", found.found, found.shrink_runs));
        }
        if !found.reproduced {
            line("  a second run passed: the suite is not deterministic".to_owned());
        }
        line(format!("  replay: {}", self.replay_line(&found.script)));
        self.finish(text, &found.run)
    }

    /// Prints the result of a fault script that the option `--replay` requested, with the command's output
    /// and the trace.
    pub(super) fn replayed(&self, script: &FaultScript, run: &Run) -> Result<(), Failure> {
        let mut text = format!("{} {}\n", shown(&self.command), run.ended.outcome);
        let (script, unused) = (shown_script(script), script.len() as u64 - run.summary.fired);
        // The error is ignored, because writing to a `String` cannot fail.
        let _ = writeln!(text, "  faults: {script}");
        if unused > 0 {
            let _ = writeln!(text, "  {}", not_reached(unused));
        }
        self.finish(text, run)
    }

    /// Prints the first and last lines of the command's output on stderr.
    pub(super) fn output(&self, output: &[String]) {
        let stderr = io::stderr();
        output.iter().for_each(|line| eprintln!("  {}", without_colors(line, &stderr)));
    }

    fn finish(&self, mut text: String, run: &Run) -> Result<(), Failure> {
        if !run.ended.output.is_empty() {
            text.push_str("  output:\n");
            let stdout = io::stdout();
            let lines = run.ended.output.iter().map(|line| without_colors(line, &stdout));
            lines.for_each(|line| text.extend(["    ", &*line, "\n"]));
        }
        text.push_str("  trace:\n");
        window(&run.summary).iter().for_each(|line| text.extend(["  ", line, "\n"]));
        // Writing fails if stdout is closed. The error is ignored, because the exit code also contains the
        // result.
        let _ = io::stdout().write_all(text.as_bytes());
        let Some(path) = &self.trace else { return Ok(()) };
        let lines: String = run.summary.lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(path, lines)
            .map_err(|error| Failure::io(&format!("write the trace {}", path.display()), error))
    }

    fn replay_line(&self, script: &FaultScript) -> String {
        let command: Vec<String> =
            self.command.iter().map(|argument| quoted(&argument.to_string_lossy())).collect();
        let (options, script) = (&self.options, quoted(&script.to_string()));
        format!("informer explore {options}--replay {script} -- {}", command.join(" "))
    }
}

/// Returns the lines of a trace to print: all lines, or [`MAX_PRINTED_LINES`] lines around the first fault if
/// the trace is longer. Lines in parentheses state how many are left out.
fn window(summary: &Summary) -> Vec<String> {
    let Summary { lines, dropped, .. } = summary;
    let first_fault = lines.iter().position(TraceLine::is_fault).unwrap_or_default();
    let from = match lines.len() {
        length if length <= MAX_PRINTED_LINES => 0,
        length => first_fault.saturating_sub(LINES_BEFORE).min(length - MAX_PRINTED_LINES),
    };
    let to = lines.len().min(from + MAX_PRINTED_LINES);
    let mut shown: Vec<String> = lines[from..to].iter().map(ToString::to_string).collect();
    let more = (lines.len() - to) as u64 + dropped;
    if from > 0 {
        shown.insert(0, format!("  ({from} earlier lines; --trace FILE writes all lines)"));
    }
    if more > 0 {
        shown.push(format!("  ({more} later lines; --trace FILE writes up to {} lines)", lines.len()));
    }
    shown
}

fn shown_script(script: &FaultScript) -> String {
    if script.is_empty() && script.schedule() == 0 { "no faults".to_owned() } else { script.to_string() }
}

/// Returns the explored command as a shell command line, for messages.
pub(super) fn shown(command: &[OsString]) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn not_reached(faults: u64) -> String {
    if faults == 1 {
        "1 fault was not reached".to_owned()
    } else {
        format!("{faults} faults were not reached")
    }
}
