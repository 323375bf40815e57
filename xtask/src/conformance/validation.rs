//! The suite validation: compares the validation of generated objects by the embedded API server with that by
//! a real one.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::Conformance;
use super::apiserver::programs;
use crate::cargo::{Executable, build, program};
use crate::go::target;
use crate::report::Report;

/// The minimum share of the generated objects of all kinds together that both servers accept, or both reject.
const MIN_SAME_VERDICTS: f64 = 0.96;
/// The minimum share of the generated objects of each single kind that both servers accept, or both reject.
const MIN_SAME_VERDICTS_OF_A_KIND: f64 = 0.8;

#[derive(Debug, Default, Deserialize)]
struct KindFigures {
    objects: f64,
    rejected: f64,
    same_verdict: f64,
    same_causes: f64,
}

pub(super) fn run(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance validation");
    match figures(root, options) {
        Ok(kinds) => report_figures(&kinds, &mut report),
        Err(problem) => report.problems.push(problem),
    }
    report
}

fn figures(root: &Path, options: &Conformance) -> Result<BTreeMap<String, KindFigures>, String> {
    let json = target(root).join("validation.json");
    let name = "informer-differential";
    let runner = Executable { package: name, selection: &[], release: false, path: name };
    let mut command = program(build(root, runner)?);
    command.current_dir(root).arg("--json").arg(&json);
    command.args(["--validation", &options.objects.to_string(), "--seed", &options.seed.to_string()]);
    command.args(["--scenario", options.scenario.as_deref().unwrap_or("")]);
    command.arg("--programs").arg(programs(root).map_err(|error| error.to_string())?);
    if options.record {
        command.arg("--record");
    }
    // If the program fails before it writes its output file, the file of an earlier run must not be read
    // instead.
    let _ = std::fs::remove_file(&json);
    let status = command.status().map_err(|error| format!("cannot run {name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name} failed ({status}); see the messages above"));
    }
    let text = std::fs::read(&json).map_err(|error| format!("cannot read {}: {error}", json.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("cannot parse {}: {error}", json.display()))
}

fn report_figures(kinds: &BTreeMap<String, KindFigures>, report: &mut Report) {
    println!("| kind | objects | rejected | same verdict, % | same causes, % |\n|---|---|---|---|---|");
    let mut total = KindFigures::default();
    for (kind, figures) in kinds {
        print_row(kind, figures);
        if figures.same_verdict < figures.objects * MIN_SAME_VERDICTS_OF_A_KIND {
            let share = percent(figures.same_verdict, figures);
            report.problems.push(format!("{kind}: only {share:.1} % of the verdicts are equal"));
        }
        total.objects += figures.objects;
        total.rejected += figures.rejected;
        total.same_verdict += figures.same_verdict;
        total.same_causes += figures.same_causes;
    }
    print_row("all", &total);
    report.figure("objects", total.objects);
    report.figure("rejected", total.rejected);
    report.figure("same verdict, %", percent(total.same_verdict, &total));
    report.figure("same causes, %", percent(total.same_causes, &total));
    if total.objects == 0.0 {
        report.problems.push("no object was compared".to_owned());
    } else if total.same_verdict < total.objects * MIN_SAME_VERDICTS {
        let share = percent(total.same_verdict, &total);
        report.problems.push(format!("only {share:.1} % of the verdicts are equal"));
    }
}

fn print_row(kind: &str, figures: &KindFigures) {
    println!(
        "| {kind} | {} | {} | {:.1} | {:.1} |",
        figures.objects,
        figures.rejected,
        percent(figures.same_verdict, figures),
        percent(figures.same_causes, figures)
    );
}

fn percent(part: f64, figures: &KindFigures) -> f64 {
    100.0 * part / figures.objects
}
